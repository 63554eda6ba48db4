"""Several serving processes: one port, one set of numbers, and no gap when one dies."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.locks import LockedFolder
from tests.serving import Served, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKERS = 2
REQUESTS = 41
HI = {"tokenizer": "minbpe-service", "text": "hi"}
WAIT_SECONDS = 30.0


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Served]:
    """Two workers over the smallest embedded artifact."""
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add_embedded("minbpe-service")
    with serving(folder.root, ["--workers", str(WORKERS)]) as served:
        yield served


def counted(service: Served) -> float:
    """How many /count requests one scrape, on a new connection, says were answered."""
    text = httpx.get(f"{service.url}/metrics").text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tokenizer_request_duration_seconds_count"
        and sample.labels["route"] == "/count"
    )


def ask(service: Served, times: int) -> None:
    """So many requests, each on a connection of its own."""
    for _ in range(times):
        assert httpx.post(f"{service.url}/count", json=HI).status_code == 200


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def workers_of(service: Served) -> set[int]:
    """The processes that the service's own process started."""
    pid = service.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    return set(map(int, children.read_text(encoding="ascii").split()))


def test_every_scrape_shows_all_workers(service: Served) -> None:
    assert len(workers_of(service)) == WORKERS
    ask(service, REQUESTS)
    # A worker counts a request after it has sent the answer.
    wait_until(lambda: counted(service) == REQUESTS)
    assert {counted(service) for _ in range(20)} == {REQUESTS}


def test_a_worker_that_died_is_replaced_and_its_counts_stay(service: Served) -> None:
    before = workers_of(service)
    ask(service, REQUESTS)
    wait_until(lambda: counted(service) == REQUESTS)
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(workers_of(service) - before) == 1)
    after = workers_of(service)
    assert len(after) == WORKERS
    assert min(before) not in after

    def all_answer() -> bool:
        try:
            return all(httpx.get(f"{service.url}/readyz").is_success for _ in range(20))
        except httpx.TransportError:
            return False

    wait_until(all_answer)
    assert counted(service) == REQUESTS, "counters never go back"
    ask(service, REQUESTS)
    wait_until(lambda: counted(service) == 2 * REQUESTS)
    assert "worker died" in service.log()


def test_sigterm_stops_all_of_them(service: Served) -> None:
    workers = workers_of(service)
    assert service.stop() == 0
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
