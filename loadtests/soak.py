"""`make soak`: load a service for ten minutes, kill workers, and let nothing pass.

locust sends requests of all kinds and sizes, bad ones among them, at a steady pace
(soak_locustfile.py). Meanwhile a worker is killed every minute, /healthz is asked ten times a
second, memory is read and counters are scraped every second. Exit status 1 for

- a wrong id, count or text, or any answer but the one that is due: a 5xx, 503 `overloaded` too;
- a connection that broke although no worker was killed while it was open and in use;
- memory of a process that grew by more than MAX_GROWTH in the last half of the time;
- a counter that fell, or that says less than was answered; a /healthz that was not answered;
- a service that did not stop well.

A short table is printed and everything written to build/soak.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from known_answers import ROOT
from observers import Counters, Killer, Memory, Pulse
from soak_notes import read_notes
from soak_verdict import Soak, judge, table

sys.path.insert(0, str(ROOT))

from tests.serving import serving

if TYPE_CHECKING:
    from tests.serving import Served

FOLDER = Path(__file__).resolve().parent
REPORT = ROOT / "build" / "soak.json"

WORKERS = 2
PREPARATION_SECONDS = 180.0
MARGIN_SECONDS = 60.0
"""How much longer than it was told to locust may run."""

_POLL_SECONDS = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds")
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave nothing behind then, either
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(arguments=("--workers", str(WORKERS))) as service,
    ):
        try:
            soak = _soaked(service, options.seconds, options.kill_every, Path(folder))
        except RuntimeError as error:
            print(f"not done: {error}", flush=True)
            return 1
        died = service.process.poll() is not None
        soak.exit_status = service.stop()
        soak.log = service.log()
    report = judge(soak)
    if died:
        report["violations"].append("the service died")
    _write(options.report, report)
    print(table(report), flush=True)
    return 1 if report["violations"] else 0


def _soaked(service: Served, seconds: int, kill_every: float, folder: Path) -> Soak:
    """Load it for so long, and look. Raises RuntimeError when the load does not come about."""
    notes = folder / "notes.json"
    command = [
        *(sys.executable, "-m", "locust", "--headless", "--only-summary", "--notes", str(notes)),
        *("--locustfile", str(FOLDER / "soak_locustfile.py"), "--host", service.url),
        *("--users", "28", "--spawn-rate", "28"),
        *("--run-time", f"{seconds}s", "--stop-timeout", "30"),
    ]
    log = folder / "locust.log"
    with log.open("wb") as output:
        locust = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603 - made here
    try:
        _wait_for_load(locust, notes.with_suffix(".began"))
        began = time.monotonic()
        half = began + seconds / 2
        pulse, memory = Pulse(service.port), Memory(service.process.pid)
        counters = Counters(service.port)
        killer = Killer(service.process.pid, kill_every, half)
        with contextlib.ExitStack() as stack:
            for observer in (pulse, memory, counters, killer):
                stack.enter_context(observer.at_work())
            locust.wait(seconds + MARGIN_SECONDS)
        counters.observe()
        whole = read_notes(notes)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{error}: {log.read_text(encoding='utf-8')[-4000:]}") from None
    finally:
        if locust.poll() is None:
            locust.kill()
            locust.wait()
    return Soak(seconds, half, whole, pulse, memory, counters, killer)


def _wait_for_load(locust: subprocess.Popen[bytes], began: Path) -> None:
    deadline = time.monotonic() + PREPARATION_SECONDS
    while not began.exists():
        if locust.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the load did not begin")
        time.sleep(_POLL_SECONDS)


def _write(path: Path, report: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
