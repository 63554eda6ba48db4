"""Restart one instance after the other behind haproxy or nginx, under load: no request is lost.

A load of constant rate goes through the balancer while each instance in turn gets SIGTERM, exits,
is started again and is ready. Every request has to get 200 with the ids or the count that the
reference library gives. Exit status 0: none was lost; 1: some was, or an instance did not stop or
start well; 77: no balancer is installed (`apt-get install haproxy` or `nginx-light`).

The rule for a balancer that looks at /readyz and passes bodies on as they come (haproxy):

    TOKENIZER_DRAIN_SECONDS  >  fall * (inter + timeout check)  +  the longest upload

A draining instance answers 503 to /readyz and everything else as before. It gets new requests until
the balancer has noticed; then the last body that is on its way has to arrive. What an engine works
on is no part of the sum: that is answered up to TOKENIZER_SHUTDOWN_SECONDS later. Of the next
instance: wait until it is ready, and then (rise + 1) * (inter + timeout check), before SIGTERM goes
to another one.

For a balancer that looks at nothing but reads a body whole before it passes it on (nginx without
its commercial health checks), retries do the work, and any drain will do: an instance that stops
refuses connections or answers 503 `draining` before any work is begun.

Why POST may be sent again here: every operation is a function of its request and leaves nothing
behind, so doing it twice does no harm but work. nginx sends a POST again, once it sent a byte of
it, only with `non_idempotent`; haproxy does with any `retry-on` that goes beyond the default
`conn-failure`, but only while the request is whole in one of its buffers (16 KB). Neither is told
to try again after a time-out or a 500: work that is too much for one instance is too much for all.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import dataclasses
import http.client
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from balancers import (
    BALANCERS,
    NOTICED_SECONDS,
    Balancer,
    balancing,
    free_ports,
)
from known_answers import ROOT
from paced import Ledger, PacedClient
from questions import Question, draw, small_and_huge
from soak_notes import quantile_ms

sys.path.insert(0, str(ROOT))

from tests.serving import COMMAND, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXIT_NO_BALANCER = 77

UPLOAD_SECONDS = 2.0
WEIGHTS = {"count": 50.0, "encode": 45.0, "slow": 1.0, "count 1 MB": 0.3, "encode 1 MB": 0.1}

WARM_SECONDS = 3.0
READY_SECONDS = 120.0
STOP_SECONDS = 40.0
"""More than an instance may take by its own settings."""


@dataclasses.dataclass(frozen=True)
class Restart:
    """One instance that was stopped and started."""

    port: int
    exit_status: int
    stopped_seconds: float
    ready_seconds: float


class Instance:
    """One process of the service, at a port that stays its own."""

    def __init__(self, port: int, drain_seconds: float, log: Path) -> None:
        self.port = port
        self._log = log
        self._environment = environment({"TOKENIZER_DRAIN_SECONDS": str(drain_seconds)})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is not ready yet."""
        with self._log.open("ab") as stderr:
            self._process = subprocess.Popen(  # noqa: S603 - the service's own command
                [*COMMAND, "serve", "--port", str(self.port)], stderr=stderr, env=self._environment
            )

    def wait_until_ready(self) -> None:
        """Wait for 200 from /readyz. Raises RuntimeError when it does not come."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), self._connected() as connection:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        status = None if self._process is None else self._process.poll()
        how = "in time" if status is None else f"but ended with {status}"
        raise RuntimeError(f"the instance on {self.port} is not ready {how}: {self.log()}")

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        """What it wrote to standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with contextlib.closing(connection):
            yield connection


def restart(instance: Instance, settle_seconds: float) -> Restart:
    """Stop and start one, and wait until the balancer knows."""
    began = time.monotonic()
    status = instance.stop()
    stopped = time.monotonic()
    instance.start()
    instance.wait_until_ready()
    ready = time.monotonic()
    time.sleep(settle_seconds)
    return Restart(instance.port, status, stopped - began, ready - stopped)


def deck_of_slow() -> dict[str, list[Question]]:
    """The deck, with uploads that last."""
    deck = small_and_huge()
    slow = [question for question in deck["count"] if len(question.body) > 10_000]
    return {**deck, "slow": [dataclasses.replace(question, kind="slow") for question in slow]}


async def roll(
    instances: Sequence[Instance], balancer: Balancer, port: int, options: argparse.Namespace
) -> tuple[Ledger, list[Restart]]:
    """Restart all, round after round, while the load runs."""
    ledger = Ledger()
    stop = asyncio.Event()
    questions = draw(deck_of_slow(), WEIGHTS)
    client = PacedClient(port, ledger)
    load = asyncio.create_task(
        client.run(questions, options.rate, stop, slow="slow", upload_seconds=UPLOAD_SECONDS)
    )
    deadline = asyncio.get_running_loop().time() + options.seconds
    restarts: list[Restart] = []
    settle_seconds = balancer.up_seconds
    try:
        await asyncio.sleep(WARM_SECONDS)
        for instance in [*instances] * options.rounds:
            if asyncio.get_running_loop().time() > deadline:
                raise RuntimeError(f"not done within {options.seconds:g} s")
            restarts.append(await asyncio.to_thread(restart, instance, settle_seconds))
    finally:
        stop.set()
        await load
    return ledger, restarts


def report(ledger: Ledger, restarts: Sequence[Restart]) -> None:
    """Print the table."""
    print(f"{'kind':12} {'requests':>9} {'lost':>6} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}")
    for name, kind in sorted(ledger.items()):
        quantiles = " ".join(
            f"{quantile_ms(kind.seconds, share):9.1f}" for share in (0.5, 0.99, 1.0)
        )
        print(f"{name:12} {kind.sent:9} {kind.sent - len(kind.seconds):6} {quantiles}")
    print(f"{'port':12} {'exit':>9} {'stopped after s':>16} {'ready after s':>14}")
    for one in restarts:
        seconds = f"{one.stopped_seconds:16.1f} {one.ready_seconds:14.1f}"
        print(f"{one.port:<12} {one.exit_status:9} {seconds}")
    for error, count in ledger.errors().most_common():
        print(f"error: {error}: {count}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--balancer", choices=BALANCERS, help="the first that is installed")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="no restart begins later")
    drain = NOTICED_SECONDS + UPLOAD_SECONDS + 1
    parser.add_argument("--drain-seconds", type=float, default=drain, help="of each instance")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave nothing behind then, either
    wanted = [BALANCERS[options.balancer]] if options.balancer else [*BALANCERS.values()]
    balancer = next((one for one in wanted if one.executable()), None)
    if balancer is None:
        names = " or ".join(one.name for one in wanted)
        print(f"no balancer: {names} is not installed")
        return EXIT_NO_BALANCER
    port, *ports = free_ports(options.instances + 1)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = [folder / str(number) for number in ports]
        drain = options.drain_seconds
        instances = [Instance(*one) for one in zip(ports, [drain] * len(ports), logs, strict=True)]
        for instance in instances:
            stack.callback(instance.close)
            instance.start()
        try:
            for instance in instances:
                instance.wait_until_ready()
            stack.enter_context(balancing(balancer, port, ports))
            time.sleep(balancer.up_seconds)
            ledger, restarts = asyncio.run(roll(instances, balancer, port, options))
        except (OSError, RuntimeError) as error:
            print(f"not done: {error}")
            return 1
        with concurrent.futures.ThreadPoolExecutor() as pool:
            last = list(pool.map(Instance.stop, instances))
    print(f"{balancer.name}, {options.instances} instances, {options.rate:g} requests a second")
    report(ledger, restarts)
    bad = [status for status in (*last, *(one.exit_status for one in restarts)) if status]
    print(f"{ledger.lost()} requests lost; exit statuses other than 0: {len(bad)}")
    return 1 if ledger.lost() or bad or not ledger else 0


if __name__ == "__main__":
    sys.exit(main())
