"""What a body may be, what an answer is, and how a client says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api.operations import operations
from tests.asgi import JSON_TYPE, MSGPACK_TYPE, problem
from tests.contract.bodies import MINIMAL

if TYPE_CHECKING:
    from tests.asgi import AppClient

HELLO = {"tokenizer": "cl100k_base", "text": "Hello world"}
AS_JSON = json.dumps(HELLO).encode()
AS_MSGPACK = msgspec.msgpack.encode(HELLO)
IDS = [9906, 1917]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        'application/json; charset="utf-8"',
        "Application/JSON",
        "application/json ; charset=utf-8",
    ],
)
def test_json_in(client: AppClient, content_type: str) -> None:
    response = client.post_bytes("/encode", AS_JSON, content_type)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == JSON_TYPE
    assert response.json()["ids"] == IDS


@pytest.mark.parametrize(
    "content_type", ["application/msgpack", "application/x-msgpack", "APPLICATION/MSGPACK"]
)
def test_msgpack_in(client: AppClient, content_type: str) -> None:
    response = client.post_bytes("/encode", AS_MSGPACK, content_type)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == JSON_TYPE, "what comes in says nothing of the answer"
    assert response.json()["ids"] == IDS


@pytest.mark.parametrize("path", operations())
def test_msgpack_out_says_the_same(client: AppClient, path: str) -> None:
    as_json = client.ok(path, MINIMAL[path])
    response = client.post(path, MINIMAL[path], headers={"accept": MSGPACK_TYPE})
    assert response.status_code == 200
    assert response.headers["content-type"] == MSGPACK_TYPE
    assert int(response.headers["content-length"]) == len(response.content)
    assert msgspec.msgpack.decode(response.content) == as_json


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON_TYPE),
        ("", JSON_TYPE),
        ("*/*", JSON_TYPE),
        ("application/*", JSON_TYPE),
        ("application/json", JSON_TYPE),
        ("application/json; charset=utf-8", JSON_TYPE),
        ("APPLICATION/JSON", JSON_TYPE),
        ("application/msgpack", MSGPACK_TYPE),
        ("application/x-msgpack", MSGPACK_TYPE),
        ("application/msgpack, application/json", JSON_TYPE),
        ("application/msgpack, application/json;q=0.9", MSGPACK_TYPE),
        ("application/msgpack;q=0.5, application/json;q=0.4", MSGPACK_TYPE),
        ("application/msgpack;q=0.4, application/json;q=0.5", JSON_TYPE),
        ("application/x-msgpack;q=0.9, */*;q=0.1", MSGPACK_TYPE),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON_TYPE),
        ("application/json;q=0, */*", MSGPACK_TYPE),
        ("application/json;q=0, application/*;q=0.2", MSGPACK_TYPE),
        ("*/*;q=0.1, application/*;q=0, application/msgpack", MSGPACK_TYPE),
        ("text/html;q=1, application/msgpack;q=0.001", MSGPACK_TYPE),
    ],
)
def test_accept(client: AppClient, accept: str | None, expected: str) -> None:
    headers = {} if accept is None else {"accept": accept}
    response = client.post("/encode", HELLO, headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == expected


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "text/*",
        "application/xml",
        "application/json;q=0",
        "*/*;q=0",
        "application/json;q=0, application/msgpack;q=0",
        "application/*;q=0",
        "application/jsonx",
        "json",
    ],
)
def test_not_acceptable(client: AppClient, accept: str) -> None:
    response = client.post("/encode", HELLO, headers={"accept": accept})
    problem(response, 406, "not_acceptable")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonl",
        "application/vnd.msgpack",
        "application/json; charset=iso-8859-1",
        "application/json; charset=utf-16",
        "application",
        "",
        "json",
        "*/*",
    ],
)
def test_unsupported_media_type(client: AppClient, content_type: str) -> None:
    problem(client.post_bytes("/encode", AS_JSON, content_type), 415, "unsupported_media_type")


def test_a_body_without_content_type_is_refused(client: AppClient) -> None:
    response = client.request("POST", "/encode", content=AS_JSON)
    problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip"])
def test_an_encoded_body_is_refused(client: AppClient, encoding: str) -> None:
    response = client.post_bytes("/encode", AS_JSON, content_encoding=encoding)
    problem(response, 415, "unsupported_media_type")


def test_identity_is_no_encoding(client: AppClient) -> None:
    response = client.post_bytes("/encode", AS_JSON, content_encoding="identity")
    assert response.json()["ids"] == IDS


@pytest.mark.parametrize("header", ["content-type", "Content-Type", "CONTENT-TYPE"])
def test_a_body_of_one_type_that_says_another(client: AppClient, header: str) -> None:
    """The header decides: nothing is guessed from the bytes."""
    response = client.request("POST", "/encode", content=AS_MSGPACK, headers={header: JSON_TYPE})
    assert response.status_code == 400
    assert response.json()["code"] in {"malformed_body", "invalid_unicode"}
    response = client.request("POST", "/encode", content=AS_JSON, headers={header: MSGPACK_TYPE})
    assert response.status_code in {400, 422}


def test_items_of_a_batch_in_msgpack(client: AppClient) -> None:
    body: dict[str, Any] = {"tokenizer": "cl100k_base", "batch": [IDS, [100256], [9468]]}
    response = client.post("/decode", body, headers={"accept": MSGPACK_TYPE})
    results = msgspec.msgpack.decode(response.content)["results"]
    assert results[0]["text"] == "Hello world"
    assert results[1]["error"]["code"] == "invalid_token_id"
    assert results[2]["error"]["code"] == "invalid_utf8"
