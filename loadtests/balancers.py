"""The balancers of the distribution, as ordinary processes on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path(__file__).resolve().parent

CHECK_MS, CHECK_TIMEOUT_MS, FALL, RISE = 500, 1000, 2, 2
"""haproxy's look at /readyz: how often, for how long, and how many answers count."""

NOTICED_SECONDS = FALL * (CHECK_MS + CHECK_TIMEOUT_MS) / 1000
"""After this a draining instance gets no new request, however slow its /readyz was."""

FAIL_SECONDS = 1
"""For so long nginx leaves an instance alone that failed; it counts in whole seconds."""

_START_SECONDS, _STOP_SECONDS = 10.0, 5.0


@dataclasses.dataclass(frozen=True)
class Balancer:
    """One kind of balancer."""

    name: str
    template: str
    server: str
    """The line for one instance."""
    arguments: tuple[str, ...]
    """Before the file with the configuration."""
    up_seconds: float
    """After this an instance that is ready gets requests again."""

    def executable(self) -> str | None:
        """Where it is installed; a person's PATH often lacks the folders of servers."""
        folders = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"))
        return shutil.which(self.name, path=folders)

    def configuration(self, port: int, instances: Sequence[int], folder: Path) -> str:
        """The template with its values."""
        lines = (
            self.server.format(number=number, port=instance)
            for number, instance in enumerate(instances)
        )
        values = {
            "PORT": port,
            "SERVERS": "\n".join(lines),
            "FOLDER": folder,
            "CHECK_MS": CHECK_MS,
            "CHECK_TIMEOUT_MS": CHECK_TIMEOUT_MS,
            "FALL": FALL,
            "RISE": RISE,
        }
        text = (FOLDER / self.template).read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        return text


HAPROXY = Balancer(
    "haproxy",
    "haproxy.cfg.template",
    "    server instance{number} 127.0.0.1:{port}\n"
    "    server unchecked{number} 127.0.0.1:{port} backup no-check",
    ("-db", "-f"),
    up_seconds=(RISE + 1) * (CHECK_MS + CHECK_TIMEOUT_MS) / 1000,
)
NGINX = Balancer(
    "nginx",
    "nginx.conf.template",
    # Three failures within a second, and the instance is left alone for a second. One would be
    # too few: two instances of which each refused one request would leave nobody to ask.
    f"        server 127.0.0.1:{{port}} max_fails=3 fail_timeout={FAIL_SECONDS}s;",
    ("-e", "stderr", "-c"),
    up_seconds=2 * FAIL_SECONDS + 1,
)
BALANCERS = {balancer.name: balancer for balancer in (HAPROXY, NGINX)}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def balancing(balancer: Balancer, port: int, instances: Sequence[int]) -> Iterator[None]:
    """It runs in front of the instances until the block ends. Raises OSError if it can't."""
    executable = balancer.executable()
    if executable is None:
        raise FileNotFoundError(balancer.name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's worker is another user when a root starts it
        file = folder / balancer.template.removesuffix(".template")
        file.write_text(balancer.configuration(port, instances, folder), encoding="utf-8")
        log = folder / "log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - the command is made here
                [executable, *balancer.arguments, str(file)], stdout=stderr, stderr=stderr
            )
        try:
            _wait_until_it_listens(process, port, log)
            yield
        finally:
            _stop(process)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise OSError(log.read_text(encoding="utf-8", errors="replace")) from None
            time.sleep(0.05)
        else:
            return


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
