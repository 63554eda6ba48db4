"""Start the service, load it for a bounded time, stop it. Exit status 1 for any wrong answer."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from tests.serving import serving  # noqa: E402 - found by the line above

MARGIN_SECONDS = 120
"""How much longer than the load itself the whole run may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    with serving(arguments=("--workers", str(arguments.workers))) as service:
        command = [
            *(sys.executable, "-m", "locust", "--headless", "--only-summary"),
            *("--locustfile", str(FOLDER / "locustfile.py"), "--host", service.url),
            *("--users", str(arguments.users), "--spawn-rate", str(arguments.users)),
            *("--run-time", f"{arguments.seconds}s", "--stop-timeout", "10"),
        ]
        loaded = subprocess.run(  # noqa: S603 - the command is made here
            command, check=False, timeout=arguments.seconds + MARGIN_SECONDS
        )
        died = service.process.poll() is not None
        stopped = service.stop()
    if died or stopped:
        how = "died" if died else "did not stop well"
        print(f"the service {how}: exit status {stopped}", flush=True)
        return 1
    print("the load failed" if loaded.returncode else "every answer was right", flush=True)
    return loaded.returncode


if __name__ == "__main__":
    sys.exit(main())
