"""Requests that offer another protocol: this one is enough, and nothing of them is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.catalog.loading import load_catalog
from service.settings import Settings
from tests.server.talking import COUNT, Running, head, post, post_chunked, running

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

CHUNKED = ("transfer-encoding", "chunked")
JSON_HEADERS = (("content-type", "application/json"), ("content-length", str(len(COUNT))))


@pytest.fixture(scope="module")
def server(artifacts: pathlib.Path) -> Iterator[Running]:
    with running(load_catalog(artifacts), Settings(log_requests="off")) as started:
        yield started


OFFERS = {
    "h2c": [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "A")],
    "websocket": [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "x")],
    "keep-alive": [("connection", "keep-alive, upgrade"), ("upgrade", "TLS/1.0, other")],
}


@pytest.mark.parametrize("name", OFFERS)
def test_an_offer_of_another_protocol_is_not_taken_up(server: Running, name: str) -> None:
    """What is asked for is answered in HTTP/1.1, body and all (RFC 9110, 7.8)."""
    offer = head(headers=[*OFFERS[name], *JSON_HEADERS]) + COUNT
    page = head("GET", "/healthz", OFFERS[name])
    for whole, count in ((offer, 1), (offer + post(), 2), (post() + offer, 2), (offer * 3, 3)):
        with server.talk() as talk:
            answers = [talk.send(whole).answer(), *(talk.answer() for _ in range(count - 1))]
            assert [answer.json["count"] for answer in answers] == [1] * count
            assert talk.send(page).answer().json == {"status": "ok"}
            assert talk.send(post()).answer().json["count"] == 1
    with server.talk() as talk:
        for at in range(1, len(offer), 3):
            assert talk.send(offer[:at], offer[at:]).answer().json["count"] == 1


def test_an_offer_keeps_what_else_it_says(server: Running) -> None:
    offer = [("upgrade", "h2c"), CHUNKED, ("content-type", "application/json")]
    body = post_chunked().partition(b"\r\n\r\n")[2]
    with server.talk() as talk:
        answer = talk.send(head(headers=[("connection", "upgrade"), *offer]) + body).answer()
        assert answer.json["count"] == 1
        talk.send(head(headers=[("connection", "close, upgrade"), *offer]) + body)
        assert talk.answer().headers["connection"] == "close"
        assert talk.ends_well() == b""
    old = [("connection", "upgrade"), ("upgrade", "h2c"), *JSON_HEADERS]
    with server.talk() as talk:
        assert talk.send(head(headers=old, version="1.0") + COUNT).answer().status == 200
        assert talk.ends_well() == b"", "a client of HTTP/1.0 waits for the end"


def test_many_offers_at_once(server: Running) -> None:
    with server.talk() as talk:
        talk.send(head("GET", "/healthz", OFFERS["h2c"]) * 2000)
        assert {talk.answer().status for _ in range(2000)} == {200}
