"""Large bodies of many values are refused before the values are made; all others are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api import body_values
from service.api.body_values import LARGE_BODY_BYTES, check_values
from service.errors import MalformedBody, RequestError, TooManyItems
from service.settings import Settings
from tests.asgi import JSON_TYPE, MSGPACK_TYPE, AppClient, problem

if TYPE_CHECKING:
    from collections.abc import Callable

LIMITS = Settings()
ENCODERS: dict[str, Callable[[Any], bytes]] = {
    JSON_TYPE: lambda value: json.dumps(value, separators=(",", ":")).encode(),
    MSGPACK_TYPE: msgspec.msgpack.encode,
}
LARGE = LARGE_BODY_BYTES + 1


def refusal(body: bytes, media_type: str) -> RequestError | None:
    try:
        check_values(body, media_type, LIMITS)
    except RequestError as error:
        return error
    return None


MANY: dict[str, dict[str, Any]] = {
    "texts of one letter": {"texts": ["a"] * LARGE},
    "texts that end in a backslash": {"texts": ["\\"] * LARGE},
    "ids": {"ids": [1] * LARGE},
    "a batch of long lists": {"batch": [[1] * 1_000_000] * 5},
    "a batch of short lists": {"batch": [[1]] * LARGE},
    "values elsewhere": {"messages": [1] * LARGE},
    "an unknown member": {"elsewhere": [[]] * LARGE},
}


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("name", MANY)
def test_more_values_than_any_request_may_have(name: str, media_type: str) -> None:
    body = ENCODERS[media_type]({"tokenizer": "x", **MANY[name]})
    assert len(body) > LARGE_BODY_BYTES
    found = refusal(body, media_type)
    assert isinstance(found, TooManyItems)
    assert found.members["limit"]


FEW: dict[str, dict[str, Any]] = {
    "a long text": {"text": 'x"\\,\n' * (LARGE // 4)},
    "as many texts as may be": {"texts": ['"a",\\"' * 200] * LIMITS.max_batch_items},
    "as many ids as may be": {"ids": [100_000] * LIMITS.max_ids},
    "a batch": {"batch": [[100_000] * 500] * LIMITS.max_batch_items},
    "wrong types": {"text": [1, 2], "texts": "x" * LARGE, "ids": {"a": 1}, "batch": 7},
}


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("name", FEW)
def test_what_a_request_may_have(name: str, media_type: str) -> None:
    body = ENCODERS[media_type]({"tokenizer": "x", **FEW[name]})
    assert len(body) > LARGE_BODY_BYTES
    assert refusal(body, media_type) is None


def test_small_bodies_are_not_looked_into() -> None:
    assert refusal(b"[" * LARGE_BODY_BYTES, JSON_TYPE) is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"texts":["a"' + b',"a"' * LARGE, MalformedBody),
        (b"[" * LARGE, MalformedBody),
    ],
)
def test_large_bodies_that_can_not_be_read(body: bytes, error: type[RequestError]) -> None:
    assert isinstance(refusal(body, JSON_TYPE), error)


def test_as_it_is_served(client: AppClient) -> None:
    body = ENCODERS[JSON_TYPE]({"tokenizer": "gpt2", "texts": ["a"] * (LARGE // 2)})
    for path in ("/count", "/encode"):
        answer = client.post(path, content=body, headers={"content-type": JSON_TYPE})
        assert problem(answer, 422, "too_many_items")["limit"] == LIMITS.max_batch_items


def test_lengths_of_arrays() -> None:
    for length in (0, 1, 15, 16, 65_535, 65_536):
        raw = msgspec.Raw(msgspec.msgpack.encode([None] * length))
        assert body_values._length(raw) == length
    for other in (1, "text", {"a": 1}, None):
        assert body_values._length(msgspec.Raw(msgspec.msgpack.encode(other))) == 0
