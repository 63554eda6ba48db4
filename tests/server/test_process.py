"""The life of one serving process: ready, draining, gone."""

from __future__ import annotations

import concurrent.futures
import itertools
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import httpx

from service.server.process import bind_for_workers
from service.settings import Settings
from tests.locks import EMBEDDED
from tests.server.watching import (
    FOR_EVER,
    HI,
    WAIT_SECONDS,
    answer_on,
    ask,
    asked_on,
    connected,
    half_sent,
    others_in_flight,
    status,
    taken_port,
    until_closed,
    value,
    wait_until,
    with_code,
)
from tests.serving import COMMAND, STOP_SECONDS, environment, run, serving

if TYPE_CHECKING:
    import pathlib

LONG = "no two words are alike "


def drains(seconds: str = FOR_EVER, shutdown: str = FOR_EVER) -> dict[str, str]:
    """Variables for a process that drains so long and then gives requests so long."""
    return {"TOKENIZER_DRAIN_SECONDS": seconds, "TOKENIZER_SHUTDOWN_SECONDS": shutdown}


def test_sigterm_fails_readiness_first_and_exits_0(artifacts: pathlib.Path) -> None:
    """A balancer looks away before connections are refused: no request is lost meanwhile."""
    with serving(artifacts, variables=drains()) as service:
        assert status(service, "/readyz") == 200
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(service, "/readyz") == 503)
        assert status(service, "/healthz") == 200
        ask(service, times=10)
        assert status(service, "/readyz") == 503
        # A second signal: somebody does not want to wait for the drain.
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(service, "/healthz") is None)
        assert service.process.wait(STOP_SECONDS) == 0
        assert '"level":"error"' not in service.log()


def test_a_draining_process_lets_no_client_keep_its_connection(artifacts: pathlib.Path) -> None:
    """A request that is on its way when an idle connection is closed would be lost."""
    with serving(artifacts, variables=drains()) as service, connected(service) as kept:
        response, _ = asked_on(kept)
        assert response.getheader("connection") is None
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(service, "/readyz") == 503)
        response, answer = asked_on(kept)
        assert (response.status, answer["count"]) == (200, 1)
        assert response.getheader("connection") == "close"
        # Other than SIGTERM, SIGINT means at once, also now.
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(STOP_SECONDS) == 0


def test_the_drain_ends_and_an_idle_connection_does_not_hold_the_exit(
    artifacts: pathlib.Path,
) -> None:
    with (
        serving(artifacts, variables=drains("0.3")) as service,
        connected(service) as silent,
        connected(service) as idle,
    ):
        asked_on(idle)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(STOP_SECONDS) == 0
        assert until_closed(idle) == until_closed(silent) == b""


def test_sigint_stops_without_a_drain(artifacts: pathlib.Path) -> None:
    with serving(artifacts, variables=drains()) as service:
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_request_that_began_is_answered_after_the_listener_is_closed(
    artifacts: pathlib.Path,
) -> None:
    with serving(artifacts, variables=drains("0")) as service, connected(service) as connection:
        rest = half_sent(connection, LONG * 10_000)
        wait_until(lambda: others_in_flight(service) == 1)
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(service, "/healthz") is None)
        connection.send(rest)
        response, answer = answer_on(connection)
        assert (response.status, answer["count"]) == (200, 50_000)
        assert response.getheader("connection") == "close"
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_text_in_the_engine_is_answered(artifacts: pathlib.Path) -> None:
    body = {**HI, "text": LONG * 20_000}
    with (
        serving(artifacts, variables=drains("0")) as service,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(httpx.post, f"{service.url}/count", json=body, timeout=WAIT_SECONDS)
        wait_until(lambda: answer.done() or value(service, "pending_bytes") > 0)
        service.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
        assert answer.result().json()["count"] == 100_000
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_half_sent_body_does_not_hold_the_exit(artifacts: pathlib.Path) -> None:
    variables = drains("0", shutdown="0.2")
    with serving(artifacts, variables=variables) as service, connected(service) as connection:
        half_sent(connection)
        wait_until(lambda: others_in_flight(service) == 1)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(STOP_SECONDS) == 0
        assert until_closed(connection) == b"", "what the client did not finish is no 5xx"
        assert '"level":"error"' not in service.log()


HANGS = """
import time
from service.api import door

door._Work.either_way = lambda *_: time.sleep(3600)
"""


def test_a_call_that_hangs_does_not_hold_the_exit(
    artifacts: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    variables = {**with_code(tmp_path, HANGS), **drains("0", shutdown="0.2")}
    with serving(artifacts, variables=variables) as service, connected(service) as connection:
        connection.send(half_sent(connection, LONG * 10_000))
        wait_until(lambda: value(service, "pending_bytes") > 0)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(STOP_SECONDS) == 0
        assert until_closed(connection) == b""


SAYS_THAT_IT_LOADS = """
import service.cli

load = service.cli.load_catalog

def say_and_load(*arguments, **named):
    print("loading", flush=True)
    return load(*arguments, **named)

service.cli.load_catalog = say_and_load
"""


def test_sigterm_while_artifacts_load(tmp_path: pathlib.Path) -> None:
    """As the first process of a container it would get no signal that it has no handler for."""
    variables = environment(with_code(tmp_path, SAYS_THAT_IT_LOADS))
    with subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--artifacts", str(EMBEDDED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"loading\n"
            process.terminate()
            _, said = process.communicate(timeout=STOP_SECONDS)
            assert (process.returncode, said) == (0, b"")
        finally:
            if process.poll() is None:
                process.kill()


def test_a_port_in_use_is_said_in_one_line(artifacts: pathlib.Path) -> None:
    with taken_port() as port:
        done = run("serve", "--port", str(port), "--artifacts", str(artifacts))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"127.0.0.1:{port}: Address already in use" in line
    assert done.stdout == ""


def test_of_services_that_start_at_once_one_gets_the_port() -> None:
    """Whenever the others try: also between the binding of two of the first one's sockets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        settings = Settings(listen_port=probe.getsockname()[1], workers=3)
    services = 4
    barrier = threading.Barrier(services)

    def start(_: int) -> list[socket.socket]:
        barrier.wait()
        try:
            return bind_for_workers(settings)
        except OSError:
            return []

    with concurrent.futures.ThreadPoolExecutor(services) as pool:
        for _ in range(100):
            listeners = list(itertools.chain(*pool.map(start, range(services))))
            for listener in listeners:
                listener.close()
            assert len(listeners) == settings.workers
