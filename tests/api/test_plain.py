"""The short way gives what the long way gives, to the byte, and notes the same numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from service.api.app import create_app
from service.api.plain import ShortWays
from service.catalog.probes import PROBES
from service.settings import Settings
from tests.asgi import AppClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

TEXTS = ("", *PROBES, "<|endoftext|></s>[CLS]<|startoftext|>", "\u0e20\u2602\U0001f9ea", "x" * 5000)

LONG_WAYS = (
    {"special_policy": "special"},
    {"add_special_tokens": True},
    {"texts": ["a"]},
    {"unknown": 1},
)


@pytest.fixture(scope="module")
def ways(catalog: Catalog) -> Iterator[tuple[AppClient, AppClient]]:
    """Two applications over the same catalog: one that takes the short way, one that never does."""
    short = create_app(Settings(log_requests="off"), catalog)
    long = create_app(Settings(log_requests="all"), catalog)
    with AppClient(short) as first, AppClient(long) as second:
        yield first, second


@pytest.mark.parametrize("operation", ["count", "encode"])
def test_same_bytes_and_same_numbers(
    ways: tuple[AppClient, AppClient], catalog: Catalog, operation: str
) -> None:
    short, long = ways
    for entry in catalog:
        for name in (entry.name, *entry.artifact.aliases[:1]):
            for text in TEXTS:
                body = json.dumps({"tokenizer": name, "text": text}).encode()
                headers = {"content-type": "application/json"}
                one = short.post(f"/{operation}", content=body, headers=headers)
                other = long.post(f"/{operation}", content=body, headers=headers)
                assert one.status_code == other.status_code == 200
                assert one.content == other.content, (name, text)
    assert _counted(short) == _counted(long)


def _counted(client: AppClient) -> list[str]:
    """The lines of /metrics without those of times."""
    lines = client.get("/metrics").text.splitlines()
    return [line for line in lines if "duration_seconds" not in line and "in_flight" not in line]


def test_the_short_way_is_taken(catalog: Catalog) -> None:
    """Else the comparison above would compare the long way with itself."""
    metrics = create_app(Settings(), catalog)._metrics
    short = ShortWays("count", catalog, Settings(), metrics)
    plain = {"tokenizer": "cl100k_base", "text": "Hello world"}
    assert short.answer(json.dumps(plain).encode()) is not None
    for more in LONG_WAYS:
        assert short.answer(json.dumps(plain | more).encode()) is None
    for other in ({"text": "x"}, plain | {"tokenizer": "none"}, plain | {"text": 1}, []):
        assert short.answer(json.dumps(other).encode()) is None
    assert short.answer(b'{"tokenizer":"cl100k_base","text":"\\ud800"}') is None
    assert ShortWays("decode", catalog, Settings(), metrics).answer(b"{}") is None
    tiny = ShortWays("count", catalog, Settings(max_text_bytes=3), metrics)
    assert tiny.answer(json.dumps(plain).encode()) is None
