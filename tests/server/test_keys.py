"""With API keys every route is closed but the two for probes, whichever way a request goes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from service.api.operations import operations
from service.api.pages import PAGES
from service.settings import Settings
from tests.server.talking import COUNT, Running, head, post, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

KEY = {"authorization": "Bearer k1"}
OPEN = {"/healthz", "/readyz"}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")


@pytest.fixture(scope="module")
def server(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"alice {hashlib.sha256(b'k1').hexdigest()}\n")
    settings = Settings(api_keys_file=str(path), log_requests="off", max_body_bytes=200_000)
    with running(catalog, settings) as started:
        yield started


ROUTES = [
    *(path.replace("{name}", "gpt2") for path in PAGES),
    *operations(),
    "/nothing/here",
    "/count/",
    "/healthz/",
]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", METHODS)
def test_every_route_is_closed(server: Running, path: str, method: str) -> None:
    body = b"" if method in ("GET", "HEAD") else COUNT
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    for key in ({}, {"authorization": "Bearer k2"}, {"authorization": "Basic k1"}):
        request = head(method, path, (headers | key).items()) + body
        with server.talk() as talk:
            answer = talk.send(request).answer(has_body=method != "HEAD")
        if path in OPEN:
            assert answer.status != 401
            continue
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        if method != "HEAD":
            assert answer.json["code"] == "unauthorized"
    with server.talk() as talk:
        request = head(method, path, (headers | KEY).items()) + body
        assert talk.send(request).answer(has_body=method != "HEAD").status != 401


def test_both_ways_let_a_known_key_in(server: Running) -> None:
    before = server.quick_answers
    assert server.ask(post(more=KEY)).json["count"] == 1
    assert server.quick_answers == before + 1
    assert server.ask(post(more={**KEY, "accept": "*/*;q=1"})).json["count"] == 1
    assert server.quick_answers == before + 1


def test_a_stranger_is_refused_before_the_body_is_whole(server: Running) -> None:
    """Whoever has no key can't make the service hold a body for long."""
    request = post(b'{"tokenizer":"bert-base-uncased","text":"' + b"x" * 100_000 + b'"}')
    with server.talk() as talk:
        assert talk.send(request[:50_000]).answer().status == 401


def test_the_file_is_read_anew(server: Running) -> None:
    assert server.app.keys is not None
    path = server.app.keys._path
    old = path.read_text()
    try:
        path.write_text(f"bob {hashlib.sha256(b'k2').hexdigest()}\n")
        server.on_loop(server.app.keys.reload)
        assert server.ask(post(more=KEY)).status == 401
        assert server.ask(post(more={"authorization": "Bearer k2"})).status == 200
    finally:
        path.write_text(old)
        server.on_loop(server.app.keys.reload)
    assert server.ask(post(more=KEY)).status == 200
