"""Starts the real command on an ephemeral port of loopback, and stops it by its own pid."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COMMAND = (sys.executable, "-m", "service")
READY_SECONDS = 60.0
STOP_SECONDS = 40.0


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without its settings of the service, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOKENIZER_")}
    return {**kept, **(variables or {})}


def run(
    *arguments: str,
    seconds: float = 60.0,
    variables: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `prefix` is a command that runs it."""
    return subprocess.run(
        [*prefix, *COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment(variables),
    )


class Served:
    """A running service."""

    def __init__(self, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
        self.process = process
        self._log = log
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """What it wrote to standard error so far."""
        return self._log.read_text(encoding="utf-8")

    def wait_until_ready(self, seconds: float) -> None:
        """Wait for the line that names the port, then for 200 from /readyz."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log()
            if self.port and self._is_ready():
                return
            for line in self.log().splitlines():
                # Lines that libraries write, and one that is still being written, are no JSON.
                with contextlib.suppress(json.JSONDecodeError):
                    self.port = self.port or json.loads(line).get("port", 0)
            time.sleep(0.02)
        raise AssertionError(f"not ready in {seconds} s: {self.log()}")

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz").status_code == httpx.codes.OK
        return False

    def stop(self) -> int:
        """Ask it to stop; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def serving(
    artifacts: pathlib.Path | None = None,
    arguments: Sequence[str] = (),
    *,
    variables: Mapping[str, str] | None = None,
    seconds: float = READY_SECONDS,
) -> Iterator[Served]:
    """`serve` until the block ends: ready when the block begins, gone when it is left."""
    options = [] if artifacts is None else ["--artifacts", str(artifacts)]
    quick = {"TOKENIZER_DRAIN_SECONDS": "0", **(variables or {})}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "stderr"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*COMMAND, "serve", "--port", "0", *options, *arguments],
                stderr=stderr,
                env=environment(quick),
            )
        served = Served(process, log)
        try:
            served.wait_until_ready(seconds)
            yield served
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
