"""Where work is done: in the event loop only what can't hold it for long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api.app import create_app
from service.api.engine import LEAST_WEIGHT
from service.api.operations import operations
from service.api.plain import INLINE_BODY_BYTES
from service.settings import Settings
from tests.asgi import AppClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

SHORT, MIDDLE, LONG = 100, 6_000, 16_000
WORK = ("encode", "encode_buffer", "count", "align", "encode_spans", "encode_special")
NAMES = ["gpt2", "clip-vit-large-patch14", "all-minilm-l6-v2", "minbpe-service"]


class Places:
    """Asks an application, and tells whether the thread that asked did the work."""

    def __init__(self, client: AppClient, threads: list[int]) -> None:
        self._client, self._threads = client, threads

    def inline(self, path: str, body: dict[str, Any]) -> bool:
        assert len(msgspec.json.encode(body)) <= INLINE_BODY_BYTES
        self._threads.clear()
        assert self._client.post(path, body).status_code == 200
        (thread,) = set(self._threads)
        return thread not in {each.ident for each in threading.enumerate() if each.name == "engine"}


@pytest.fixture
def places(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    threads: list[int] = []
    for name in NAMES:
        tokenizer = catalog.resolve(name).tokenizer
        for method in WORK:
            work = getattr(tokenizer, method)

            def noting(*given: Any, work: Any = work) -> Any:
                threads.append(threading.get_ident())
                return work(*given)

            monkeypatch.setattr(tokenizer, method, noting)
    with AppClient(create_app(Settings(log_requests="off"), catalog)) as client:
        yield Places(client, threads)


def text(size: int) -> str:
    return "hi " * (size // 3)


def test_plain_texts_of_up_to_16_kib(places: Places) -> None:
    for path in ("/count", "/encode"):
        assert places.inline(path, {"tokenizer": "all-minilm-l6-v2", "text": text(LONG)})


@pytest.mark.parametrize(
    ("path", "asks", "size", "inline"),
    [
        ("/count", {"special_policy": "special"}, SHORT, True),
        ("/count", {"special_policy": "special"}, MIDDLE, False),
        ("/encode", {"offsets": "byte"}, SHORT, True),
        ("/encode", {"offsets": "byte"}, MIDDLE, False),
        ("/truncate", {"max_tokens": 5}, SHORT, False),
        ("/chunk", {"max_tokens": 5}, SHORT, False),
    ],
)
def test_what_takes_longer_is_inline_where_it_is_shorter(
    places: Places, path: str, asks: dict[str, Any], size: int, *, inline: bool
) -> None:
    for name in ("clip-vit-large-patch14", "minbpe-service"):
        body = {"tokenizer": name, "text": text(size), **asks}
        assert places.inline(path, body) == inline


def test_several_tokenizers_are_so_many_times_the_work(places: Places) -> None:
    costs = operations()["/count"].costs
    fits = INLINE_BODY_BYTES // costs // len(NAMES) - 200
    for size, inline in ((fits, True), (fits + 400, False)):
        assert places.inline("/count", {"tokenizers": NAMES, "text": text(size)}) == inline


def test_what_waits_has_a_least_weight(catalog: Catalog) -> None:
    """Thousands of short texts wait behind a long one, and each takes more than its body."""
    weights: list[int] = []
    app = create_app(Settings(log_requests="off"), catalog)
    run = app.engine.run

    async def noting(work: Any, weight: int, *more: Any) -> Any:
        weights.append(weight)
        return await run(work, weight, *more)

    app.engine.run = noting  # type: ignore[method-assign]
    with AppClient(app) as client:
        for size in (SHORT, 2 * LEAST_WEIGHT):
            body = {"tokenizer": "gpt2", "text": text(size), "max_tokens": 5}
            assert client.post("/chunk", body).status_code == 200
    assert weights[0] == LEAST_WEIGHT < weights[1]
