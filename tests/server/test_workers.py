"""Several serving processes: one port, one set of numbers, and no gap when one dies."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.server.watching import (
    FOR_EVER,
    Processes,
    answer_on,
    ask,
    asked_on,
    connected,
    counted,
    half_sent,
    others_in_flight,
    port_of,
    status,
    until_closed,
    wait_until,
    with_code,
    workers_by_client_port,
    workers_of,
)
from tests.serving import STOP_SECONDS, Served, run, serving

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Mapping

WORKERS = 2
CONNECTIONS = 24
"""All on one worker once in eight million times."""

REQUESTS = 41


@contextlib.contextmanager
def two_workers(
    artifacts: pathlib.Path, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[Served, Processes]]:
    """The service, and its first workers."""
    with serving(artifacts, ["--workers", str(WORKERS)], variables=variables) as service:
        # It is ready as soon as one of them is.
        wait_until(lambda: len(workers_of(service)) == WORKERS)
        with contextlib.closing(Processes(workers_of(service))) as workers:
            try:
                yield service, workers
            except BaseException:
                workers.kill()
                raise


@pytest.fixture(scope="module")
def service(artifacts: pathlib.Path) -> Iterator[Served]:
    with two_workers(artifacts) as (served, _):
        yield served


def test_every_scrape_shows_all_workers(service: Served) -> None:
    expected = counted(service) + REQUESTS
    ask(service, REQUESTS)
    # A worker counts a request after it has sent the answer.
    wait_until(lambda: counted(service) == expected)
    assert {counted(service) for _ in range(20)} == {expected}


def test_connections_are_spread_and_each_request_has_one_answer(service: Served) -> None:
    expected = counted(service) + CONNECTIONS
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(service)) for _ in range(CONNECTIONS)]
        for number, connection in enumerate(connections):
            response, answer = asked_on(connection, **{"x-request-id": f"number-{number}"})
            assert (response.status, answer["count"]) == (200, 1)
            assert response.getheader("x-request-id") == f"number-{number}"
        workers = workers_by_client_port(service)
        assert {workers[port_of(connection)] for connection in connections} == workers_of(service)
        for connection in connections:
            connection.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            received = until_closed(connection)
            assert received.startswith(b"HTTP/1.1 200 ")
            assert received.count(b"HTTP/1.1") == 1
    wait_until(lambda: counted(service) == expected)
    wait_until(lambda: others_in_flight(service) == 0)


def test_a_worker_that_is_killed(service: Served) -> None:
    """Others go on, a new one comes, nothing is counted back, and no gauge stays behind."""
    expected = counted(service) + CONNECTIONS
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(service)) for _ in range(CONNECTIONS)]
        for connection in connections:
            asked_on(connection)
        wait_until(lambda: counted(service) == expected)
        workers = workers_by_client_port(service)
        victim = workers[port_of(connections[0])]
        half_sent(connections[0])
        wait_until(lambda: others_in_flight(service) == 1)

        os.kill(victim, signal.SIGKILL)
        answered = 0
        for connection in connections:
            if workers[port_of(connection)] == victim:
                assert until_closed(connection) == b""
            else:
                assert asked_on(connection)[0].status == 200
                answered += 1
        assert 0 < answered < CONNECTIONS
    # New connections wait in the dead worker's queue, if they must, and are not refused.
    ask(service, REQUESTS)
    wait_until(lambda: len(workers_of(service)) == WORKERS)
    assert victim not in workers_of(service)
    expected += answered + REQUESTS
    wait_until(lambda: counted(service) == expected)
    assert {counted(service) for _ in range(20)} == {expected}
    wait_until(lambda: others_in_flight(service) == 0)
    assert {status(service, "/readyz") for _ in range(10)} == {200}
    assert "worker died" in service.log()


def test_sigterm_drains_all_and_leaves_no_process(artifacts: pathlib.Path) -> None:
    """A request that began is answered, and the exit status says that all went well."""
    variables = {"TOKENIZER_DRAIN_SECONDS": FOR_EVER}
    with two_workers(artifacts, variables) as (service, workers):
        with connected(service) as connection:
            rest = half_sent(connection)
            wait_until(lambda: others_in_flight(service) == 1)
            drain(service)
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: status(service, "/healthz") is None)
            connection.send(rest)
            assert answer_on(connection)[0].status == 200
        workers.wait()
        assert service.process.wait(STOP_SECONDS) == 0
        assert '"level":"error"' not in service.log()


def drain(service: Served) -> None:
    """SIGTERM, and a look at all workers, which have to drain."""
    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: {status(service, "/readyz") for _ in range(20)} == {503})
    ask(service, 20)


def test_sigint_stops_all_without_a_drain(artifacts: pathlib.Path) -> None:
    variables = {"TOKENIZER_DRAIN_SECONDS": FOR_EVER}
    with two_workers(artifacts, variables) as (service, workers):
        service.process.send_signal(signal.SIGINT)
        workers.wait()
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_signal_to_every_process_counts_once(artifacts: pathlib.Path) -> None:
    """So do a terminal and systemd: the second one must not skip the drain."""
    variables = {"TOKENIZER_DRAIN_SECONDS": FOR_EVER}
    with two_workers(artifacts, variables) as (service, workers):
        for _ in range(2):
            for worker in workers_of(service):
                os.kill(worker, signal.SIGTERM)
                os.kill(worker, signal.SIGINT)
        assert {status(service, "/readyz") for _ in range(20)} == {200}
        drain(service)
        for worker in workers_of(service):
            os.kill(worker, signal.SIGTERM)
        ask(service, 20)
        service.process.send_signal(signal.SIGINT)
        workers.wait()
        assert service.process.wait(STOP_SECONDS) == 0


def test_workers_do_not_outlive_their_supervisor(artifacts: pathlib.Path) -> None:
    with two_workers(artifacts) as (service, workers):
        service.process.kill()
        service.process.wait(STOP_SECONDS)
        workers.wait()
        assert status(service, "/healthz") is None


def test_a_worker_that_does_not_stop_is_killed(artifacts: pathlib.Path) -> None:
    variables = {"TOKENIZER_SHUTDOWN_SECONDS": "0"}
    with two_workers(artifacts, variables) as (service, workers):
        os.kill(min(workers_of(service)), signal.SIGSTOP)
        service.process.send_signal(signal.SIGTERM)
        workers.wait()
        assert service.process.wait(STOP_SECONDS) == 1
        assert "workers did not stop" in service.log()


CAN_NOT_START = """
import service.server.workers as workers

def fail(*arguments):
    raise RuntimeError("the message of an exception")

workers.serve_on = fail
"""
DIES_AT_ONCE = """
import os, signal
import service.server.workers as workers

workers.serve_on = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [(CAN_NOT_START, ["worker can't serve", "RuntimeError"]), (DIES_AT_ONCE, ["worker died"])],
    ids=["can't start", "dies at once"],
)
def test_workers_that_do_not_start_fail_the_whole(
    artifacts: pathlib.Path, tmp_path: pathlib.Path, code: str, lines: list[str]
) -> None:
    options = ("--port", "0", "--workers", str(WORKERS), "--artifacts", str(artifacts))
    done = run("serve", *options, variables=with_code(tmp_path, code))
    assert done.returncode == 1, done.stderr
    for part in [*lines, "workers can't be kept running"]:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert "the message" not in done.stderr


INHERITED = {
    "a child that is none of its workers": "import os\nos.fork() or os._exit(0)\n",
    "SIGCHLD ignored": "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n",
}


@pytest.mark.parametrize("code", INHERITED.values(), ids=INHERITED)
def test_what_a_supervisor_may_inherit(
    artifacts: pathlib.Path, tmp_path: pathlib.Path, code: str
) -> None:
    """The first process of a container gets all orphans as its children."""
    with two_workers(artifacts, with_code(tmp_path, code)) as (service, workers):
        before = workers_of(service)
        workers.kill()
        wait_until(lambda: len(workers_of(service) - before) == WORKERS)
        ask(service, REQUESTS)
        assert service.stop() == 0


def test_a_second_service_can_not_share_the_port(artifacts: pathlib.Path, service: Served) -> None:
    """It would take a part of the connections, in silence."""
    for workers in ("1", str(WORKERS)):
        options = ("--port", str(service.port), "--artifacts", str(artifacts))
        done = run("serve", *options, "--workers", workers)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert f"can't listen on 127.0.0.1:{service.port}" in line
    assert {status(service, "/readyz") for _ in range(10)} == {200}
