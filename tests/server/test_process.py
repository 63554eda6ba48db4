"""The life of one serving process: ready, draining, gone."""

from __future__ import annotations

import concurrent.futures
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.locks import LockedFolder
from tests.serving import STOP_SECONDS, Served, serving

if TYPE_CHECKING:
    import pathlib

HI = {"tokenizer": "minbpe-service", "text": "hi"}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> LockedFolder:
    """The smallest embedded artifact alone, so that a start costs little."""
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add_embedded("minbpe-service")
    return folder


def wait_for(status: int, url: str) -> None:
    """Ask until the answer has this status."""
    deadline = time.monotonic() + STOP_SECONDS
    while httpx.get(url).status_code != status:
        assert time.monotonic() < deadline, f"{url} never answered {status}"
        time.sleep(0.01)


def gauge(service: Served, name: str) -> str:
    """The line of a gauge in the metrics."""
    lines = httpx.get(f"{service.url}/metrics").text.splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name} "))
    return line


def test_sigterm_fails_readiness_first_and_exits_0(folder: LockedFolder) -> None:
    """A balancer looks away before connections are refused: no request is lost meanwhile."""
    with serving(folder.root, variables={"TOKENIZER_DRAIN_SECONDS": "2"}) as service:
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        service.process.send_signal(signal.SIGTERM)
        wait_for(503, f"{service.url}/readyz")
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        # Each on a connection of its own: the listener is still open.
        for _ in range(10):
            assert httpx.post(f"{service.url}/count", json=HI).status_code == 200
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_request_in_flight_is_answered(folder: LockedFolder) -> None:
    long = {**HI, "text": "no two words are alike " * 40_000}
    with (
        serving(folder.root) as service,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(httpx.post, f"{service.url}/count", json=long, timeout=60)
        while not answer.done() and " 0.0" in gauge(service, "tokenizer_pending_bytes"):
            time.sleep(0.002)
        service.process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
        assert service.process.wait(STOP_SECONDS) == 0


def test_sigint_stops_without_a_drain(folder: LockedFolder) -> None:
    with serving(folder.root, variables={"TOKENIZER_DRAIN_SECONDS": "3600"}) as service:
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(STOP_SECONDS) == 0


def test_a_second_sigterm_ends_the_drain(folder: LockedFolder) -> None:
    with serving(folder.root, variables={"TOKENIZER_DRAIN_SECONDS": "3600"}) as service:
        service.process.send_signal(signal.SIGTERM)
        wait_for(503, f"{service.url}/readyz")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(STOP_SECONDS) == 0
