"""Bodies that are on their way share one bound, whichever way they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.settings import Settings
from tests.server.talking import Running, head, of_size, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

HELD = 60_000
FIRST = of_size(90_000)
EXPECTS = {"content-type": "application/json", "expect": "100-continue"}


@pytest.fixture(scope="module")
def server(catalog: Catalog) -> Iterator[Running]:
    with running(catalog, Settings(log_requests="off", max_pending_bytes=100_000)) as started:
        yield started


def in_flight(server: Running) -> float:
    lines = server.ask(head("GET", "/metrics", ())).body.decode().splitlines()
    (line,) = (line for line in lines if line.startswith("tokenizer_in_flight "))
    return float(line.split()[1]) - 1  # the scrape itself


def test_more_than_the_bound_is_refused_and_the_first_is_answered(server: Running) -> None:
    with server.talk() as first, server.talk() as second:
        first.send(post(FIRST)[:HELD])
        server.works()
        assert server.app.engine.uploads.bytes > HELD // 2
        assert in_flight(server) == 1
        second.send(post(FIRST)[:HELD])
        answer = second.answer()
        assert (answer.status, answer.json["code"]) == (503, "overloaded")
        assert answer.headers["retry-after"]
        first.send(post(FIRST)[HELD:])
        assert first.answer().json["count"] > 1
    server.works()
    assert server.app.engine.uploads.bytes == 0
    assert in_flight(server) == 0


def test_a_body_that_asks_first_counts_as_well(server: Running) -> None:
    with server.talk() as first, server.talk() as second:
        first.send(post(FIRST)[:HELD])
        server.works()
        body = of_size(400_000)
        second.send(head(headers={**EXPECTS, "content-length": str(len(body))}.items()))
        assert second.answer().status == 100
        second.send(body)
        answer = second.answer()
        assert (answer.status, answer.json["code"]) == (503, "overloaded")
        first.send(post(FIRST)[HELD:])
        assert first.answer().status == 200
    server.works()
    assert server.app.engine.uploads.bytes == 0


def test_what_is_alone_may_be_larger_than_the_bound(server: Running) -> None:
    body = of_size(300_000)
    with server.talk() as talk:
        request = post(body)
        talk.send(request[:200_000])
        server.works()
        talk.send(request[200_000:])
        assert talk.answer().status == 200


def test_a_connection_that_ends_holds_nothing(server: Running) -> None:
    with server.talk() as talk:
        talk.send(post(FIRST)[:HELD])
        server.works()
    server.works()
    server.works()
    assert server.app.engine.uploads.bytes == 0
    assert in_flight(server) == 0
