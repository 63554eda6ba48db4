"""Each limit, at its edge: of a body, a text, a list of ids, a batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.asgi import JSON_TYPE, MSGPACK_TYPE, in_pieces, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.asgi import AppClient

TOKENIZER = "cl100k_base"
HELLO = {"tokenizer": TOKENIZER, "text": "Hello world"}
BODY = json.dumps(HELLO).encode()


def test_a_body_of_exactly_the_limit(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_body_bytes=len(BODY))
    assert client.post_bytes("/encode", BODY).json()["ids"] == [9906, 1917]
    refused = problem(client.post_bytes("/encode", BODY + b" "), 413, "payload_too_large")
    assert refused["limit"] == len(BODY)
    packed = msgspec.msgpack.encode({**HELLO, "text": "x" * len(BODY)})
    problem(client.post_bytes("/encode", packed, MSGPACK_TYPE), 413, "payload_too_large")


def headers_of(length: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", JSON_TYPE.encode()), (b"content-length", length)]


def test_a_declared_length_over_the_limit_is_refused_unread(
    new_client: Callable[..., AppClient],
) -> None:
    client = new_client(max_body_bytes=100)
    response = client.raw({"path": "/encode"}, headers_of(b"101"), messages=())
    assert response is not None
    problem(response, 413, "payload_too_large")
    assert response.headers["connection"] == "close", "the rest is still on its way"


@pytest.mark.parametrize("length", [b"9" * 30, b"9" * 5000, b"0" * 5000 + b"101"])
def test_a_declared_length_of_any_size(new_client: Callable[..., AppClient], length: bytes) -> None:
    client = new_client(max_body_bytes=100)
    response = client.raw({"path": "/encode"}, headers_of(length))
    assert response is not None
    assert response.status_code in {400, 413}


@pytest.mark.parametrize("length", [b"", b"abc", b"-1", b"+5", b"1e3", "٣".encode()])
def test_a_declared_length_that_is_no_number_decides_nothing(
    client: AppClient, length: bytes
) -> None:
    message = {"type": "http.request", "body": BODY}
    response = client.raw({"path": "/encode"}, headers_of(length), [message])
    assert response is not None
    assert response.json()["ids"] == [9906, 1917]


class Stream:
    """A body in pieces that counts how many of them were taken."""

    def __init__(self, piece: bytes, pieces: int) -> None:
        self.taken = 0
        self._piece, self._pieces = piece, pieces

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(self._pieces):
            self.taken += 1
            more = number + 1 < self._pieces
            yield {"type": "http.request", "body": self._piece, "more_body": more}


def test_a_streamed_body_is_read_no_further_than_the_limit(
    new_client: Callable[..., AppClient],
) -> None:
    client = new_client(max_body_bytes=100)
    stream = Stream(b"x" * 30, 1000)
    content_type = [(b"content-type", JSON_TYPE.encode())]
    response = client.raw({"path": "/encode"}, content_type, stream)
    assert response is not None
    problem(response, 413, "payload_too_large")
    assert stream.taken == 4
    assert response.headers["connection"] == "close"


def test_a_length_that_lies_does_not_open_the_limit(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_body_bytes=100)
    response = client.raw({"path": "/encode"}, headers_of(b"10"), Stream(b"x" * 30, 1000))
    assert response is not None
    problem(response, 413, "payload_too_large")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_in_pieces_is_one_body(client: AppClient, size: int) -> None:
    response = client.post(
        "/encode", content=in_pieces(BODY, size), headers={"content-type": JSON_TYPE}
    )
    assert response.json()["ids"] == [9906, 1917]


def test_a_client_that_goes_away_gets_nothing(client: AppClient) -> None:
    half = {"type": "http.request", "body": b'{"tok', "more_body": True}
    content_type = [(b"content-type", JSON_TYPE.encode())]
    gone = {"type": "http.disconnect"}
    assert client.raw({"path": "/encode"}, content_type, [half, gone]) is None
    assert client.raw({"path": "/encode"}, content_type, [gone]) is None


TEXTS = {"ascii": "abcdefgh", "two": "éèêë", "three": "東京", "four": "🎉🎉"}


@pytest.mark.parametrize("path", ["/encode", "/count"])
@pytest.mark.parametrize("script", TEXTS)
def test_a_text_is_measured_in_bytes(
    new_client: Callable[..., AppClient], path: str, script: str
) -> None:
    text = TEXTS[script]
    size = len(text.encode())
    body = {"tokenizer": TOKENIZER, "text": text}
    assert new_client(max_text_bytes=size).ok(path, body)["bytes"] == size
    refused = new_client(max_text_bytes=size - 1).post(path, body)
    assert problem(refused, 422, "text_too_large")["limit"] == size - 1


@pytest.mark.parametrize("path", ["/encode", "/count"])
def test_in_a_batch_a_long_text_is_its_own_fault(
    new_client: Callable[..., AppClient], path: str
) -> None:
    body = {"tokenizer": TOKENIZER, "texts": ["Hello", "Hello world", "", "東東東東"]}
    answer = new_client(max_text_bytes=10).ok(path, body)
    first, long, empty, wide = answer["results"]
    assert (first["count"], empty["count"]) == (1, 0)
    for refused in (long, wide):
        assert set(refused) == {"error"}
        assert refused["error"]["code"] == "text_too_large"
        assert refused["error"]["limit"] == 10
        assert refused["error"]["detail"]
    assert (answer["count"], answer["bytes"]) == (1, 5), "totals are of what was answered"


@pytest.mark.parametrize("path", ["/encode", "/count"])
def test_a_batch_of_too_many_texts(new_client: Callable[..., AppClient], path: str) -> None:
    client = new_client(max_batch_items=3)
    body = {"tokenizer": TOKENIZER, "texts": ["a"] * 3}
    assert len(client.ok(path, body)["results"]) == 3
    refused = client.post(path, {**body, "texts": ["a"] * 4})
    assert problem(refused, 422, "too_many_items")["limit"] == 3


def test_a_batch_under_several_tokenizers(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_batch_items=3)
    body = {"tokenizers": [TOKENIZER, "gpt2"], "texts": ["a"] * 3}
    assert len(client.ok("/count", body)["counts"]["gpt2"]["results"]) == 3
    problem(client.post("/count", {**body, "texts": ["a"] * 4}), 422, "too_many_items")


def test_too_many_lists_of_ids(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_batch_items=3)
    body = {"tokenizer": TOKENIZER, "batch": [[64]] * 3}
    assert [item["text"] for item in client.ok("/decode", body)["results"]] == ["a"] * 3
    refused = client.post("/decode", {**body, "batch": [[64]] * 4})
    assert problem(refused, 422, "too_many_items")["limit"] == 3


def test_too_many_ids(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_ids=3)
    assert client.ok("/decode", {"tokenizer": TOKENIZER, "ids": [64] * 3})["text"] == "aaa"
    refused = client.post("/decode", {"tokenizer": TOKENIZER, "ids": [64] * 4})
    assert problem(refused, 422, "too_many_items")["limit"] == 3
    answer = client.ok("/decode", {"tokenizer": TOKENIZER, "batch": [[64] * 4, [64] * 3]})
    assert answer["results"][0]["error"]["code"] == "too_many_items"
    assert answer["results"][0]["error"]["limit"] == 3
    assert answer["results"][1]["text"] == "aaa"


def test_the_limits_of_the_contract_are_the_defaults(client: AppClient) -> None:
    """At the edge of the defaults, so that nobody moves one unnoticed."""
    mebibyte = 1024 * 1024
    text = "a " * mebibyte
    assert client.ok("/count", {"tokenizer": TOKENIZER, "text": text})["bytes"] == 2 * mebibyte
    over = client.post("/count", {"tokenizer": TOKENIZER, "text": text + "a"})
    assert problem(over, 422, "text_too_large")["limit"] == 2 * mebibyte
    over = client.post("/count", {"tokenizer": TOKENIZER, "texts": ["a"] * 4097})
    assert problem(over, 422, "too_many_items")["limit"] == 4096
    over = client.post("/decode", {"tokenizer": TOKENIZER, "ids": [64] * (mebibyte + 1)})
    assert problem(over, 422, "too_many_items")["limit"] == mebibyte
    response = client.raw({"path": "/encode"}, headers_of(b"%d" % (16 * mebibyte + 1)))
    assert response is not None
    assert problem(response, 413, "payload_too_large")["limit"] == 16 * mebibyte
