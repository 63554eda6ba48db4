"""A body is read strictly: what is not exactly what a route takes is refused, with a place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api.operations import operations
from tests.asgi import JSON_TYPE, MSGPACK_TYPE, problem
from tests.contract.bodies import MINIMAL

if TYPE_CHECKING:
    import httpx

    from tests.asgi import AppClient

TOKENIZER = "cl100k_base"
TEXT = {"tokenizer": TOKENIZER, "text": "a"}
IDS = {"tokenizer": TOKENIZER, "ids": [1]}
OTHER = "sha256:" + "0" * 64

LATER_FIELDS = {
    "/encode": {
        "segments": [{"text": "a"}],
        "text_pair": "b",
        "offsets": "codepoint",
        "token_bytes": True,
        "special_tokens_mask": True,
        "messages": [{"role": "user", "content": "a"}],
        "tools": [],
        "add_generation_prompt": True,
        "template_arguments": {},
        "rendered": True,
    },
    "/count": {
        "segments": [{"text": "a"}],
        "text_pair": "b",
        "messages": [{"role": "user", "content": "a"}],
        "tools": [],
        "add_generation_prompt": True,
        "template_arguments": {},
    },
    "/decode": {"pieces": True, "final": False},
}
"""Fields of the contract that a later issue serves: refused until the OpenAPI document has them."""


def in_both(client: AppClient, path: str, body: Any) -> list[httpx.Response]:
    """The answers to one body as JSON and as MessagePack."""
    return [
        client.post_bytes(path, json.dumps(body).encode(), JSON_TYPE),
        client.post_bytes(path, msgspec.msgpack.encode(body), MSGPACK_TYPE),
    ]


@pytest.mark.parametrize(
    "wrong", [True, False, 1.0, 1.5, "1", "", None, [1], {}, {"id": 1}], ids=repr
)
def test_what_is_no_id(client: AppClient, wrong: Any) -> None:
    for body, pointer in (
        ({"tokenizer": TOKENIZER, "ids": [1, wrong]}, "/ids/1"),
        ({"tokenizer": TOKENIZER, "batch": [[1], [1, wrong]]}, "/batch/1/1"),
    ):
        for response in in_both(client, "/decode", body):
            assert problem(response, 422, "validation")["pointer"] == pointer


@pytest.mark.parametrize("token_id", [2**31, 2**32, 2**53 + 1, 2**63, 2**64 - 1, -1, -(2**63)])
def test_a_number_that_no_vocabulary_has_is_an_id_all_the_same(
    client: AppClient, catalog: Any, token_id: int
) -> None:
    for entry in catalog:
        for response in in_both(client, "/decode", {"tokenizer": entry.name, "ids": [token_id]}):
            body = problem(response, 422, "invalid_token_id")
            assert (body["index"], body["id"]) == (0, token_id)


@pytest.mark.parametrize("token_id", [2**64, -(2**64), 10**300], ids=["2^64", "-2^64", "10^300"])
@pytest.mark.parametrize("accept", [JSON_TYPE, MSGPACK_TYPE])
def test_a_number_that_no_machine_word_holds(client: AppClient, token_id: int, accept: str) -> None:
    """MessagePack can't write such a number back: that must not become a 500."""
    headers = {"accept": accept}
    response = client.post("/decode", {**IDS, "ids": [token_id]}, headers=headers)
    assert response.status_code == 422
    assert response.json()["code"] in {"invalid_token_id", "validation"}
    response = client.post(
        "/decode", {"tokenizer": TOKENIZER, "batch": [[token_id], [64]]}, headers=headers
    )
    assert response.status_code in {200, 422}, response.text
    response = client.post("/count", {**TEXT, "budget": abs(token_id)}, headers=headers)
    assert response.status_code in {200, 422}, response.text


@pytest.mark.parametrize("field", ["ids", "budget"])
def test_a_number_of_5000_digits(client: AppClient, field: str) -> None:
    digits = b"9" * 5000
    if field == "ids":
        path, body = "/decode", b'{"tokenizer": "cl100k_base", "ids": [' + digits + b"]}"
    else:
        path, body = (
            "/count",
            b'{"tokenizer": "cl100k_base", "text": "", "budget": ' + digits + b"}",
        )
    response = client.post_bytes(path, body)
    assert response.status_code in {400, 422}
    problem(response, response.status_code, response.json()["code"])
    assert b"9" * 20 not in response.content


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/encode", {**TEXT, "text": 1}, "/text"),
        ("/encode", {**TEXT, "text": None}, "/text"),
        ("/encode", {**TEXT, "text": ["a"]}, "/text"),
        ("/encode", {"tokenizer": TOKENIZER, "texts": "a"}, "/texts"),
        ("/encode", {"tokenizer": TOKENIZER, "texts": ["a", 1]}, "/texts/1"),
        ("/encode", {"tokenizer": TOKENIZER, "texts": ["a", None]}, "/texts/1"),
        ("/encode", {**TEXT, "tokenizer": None}, "/tokenizer"),
        ("/encode", {**TEXT, "tokenizer": ["cl100k_base"]}, "/tokenizer"),
        ("/encode", {**TEXT, "add_special_tokens": 1}, "/add_special_tokens"),
        ("/encode", {**TEXT, "add_special_tokens": "true"}, "/add_special_tokens"),
        ("/encode", {**TEXT, "add_special_tokens": None}, "/add_special_tokens"),
        ("/encode", {**TEXT, "special_policy": "LITERAL"}, "/special_policy"),
        ("/encode", {**TEXT, "special_policy": "all"}, "/special_policy"),
        ("/encode", {**TEXT, "special_policy": None}, "/special_policy"),
        ("/encode", {**TEXT, "allowed_special": "all"}, "/allowed_special"),
        ("/encode", {**TEXT, "expected_fingerprint": None}, "/expected_fingerprint"),
        ("/encode", {**TEXT, "expected_fingerprint": ""}, "/expected_fingerprint"),
        ("/encode", {**TEXT, "expected_fingerprint": "0" * 64}, "/expected_fingerprint"),
        ("/encode", {**TEXT, "expected_fingerprint": OTHER + "\n"}, "/expected_fingerprint"),
        ("/encode", {**TEXT, "expected_fingerprint": {}}, "/expected_fingerprint"),
        ("/count", {**TEXT, "budget": "10"}, "/budget"),
        ("/count", {**TEXT, "budget": 10.0}, "/budget"),
        ("/count", {**TEXT, "budget": True}, "/budget"),
        ("/count", {**TEXT, "budget": None}, "/budget"),
        ("/count", {**TEXT, "expected_fingerprint": {}}, "/expected_fingerprint"),
        ("/count", {"tokenizers": TOKENIZER, "text": "a"}, "/tokenizers"),
        ("/count", {"tokenizers": [], "text": "a"}, "/tokenizers"),
        ("/count", {"tokenizers": [1], "text": "a"}, "/tokenizers/0"),
        (
            "/count",
            {"tokenizers": [TOKENIZER], "text": "a", "expected_fingerprint": OTHER},
            "/expected_fingerprint",
        ),
        ("/decode", {**IDS, "ids": 1}, "/ids"),
        ("/decode", {**IDS, "ids": "1"}, "/ids"),
        ("/decode", {**IDS, "ids": None}, "/ids"),
        ("/decode", {"tokenizer": TOKENIZER, "batch": [1]}, "/batch/0"),
        ("/decode", {**IDS, "mode": "ignore"}, "/mode"),
        ("/decode", {**IDS, "output": "base64"}, "/output"),
        ("/decode", {**IDS, "skip_special_tokens": 0}, "/skip_special_tokens"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(
    client: AppClient, path: str, body: Any, pointer: str
) -> None:
    for response in in_both(client, path, body):
        assert problem(response, 422, "validation")["pointer"] == pointer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/encode", {"tokenizer": TOKENIZER}),
        ("/encode", {**TEXT, "texts": ["a"]}),
        ("/encode", {**TEXT, "texts": []}),
        ("/count", {"tokenizer": TOKENIZER}),
        ("/count", {**TEXT, "texts": ["a"]}),
        ("/count", {**TEXT, "tokenizers": [TOKENIZER]}),
        ("/decode", {"tokenizer": TOKENIZER}),
        ("/decode", {**IDS, "batch": [[1]]}),
    ],
)
def test_exactly_one_of_the_inputs(client: AppClient, path: str, body: Any) -> None:
    for response in in_both(client, path, body):
        problem(response, 422, "validation")


def test_every_operation_has_a_body_here(client: AppClient) -> None:
    assert set(MINIMAL) >= set(operations())
    for path in operations():
        for response in in_both(client, path, MINIMAL[path]):
            assert response.status_code == 200, response.text


@pytest.mark.parametrize("path", operations())
@pytest.mark.parametrize(
    "field", ["unknown", "Tokenizer", "add_bos", "encoding", "", "text ", "__class__", "a" * 5000]
)
def test_an_unknown_field_is_refused(client: AppClient, path: str, field: str) -> None:
    for response in in_both(client, path, {**MINIMAL[path], field: None}):
        refusal = problem(response, 422, "validation")
        assert "tokenizer" in refusal["detail"], "it says what the route knows"


@pytest.mark.parametrize(
    ("path", "field"), [(path, field) for path, fields in LATER_FIELDS.items() for field in fields]
)
def test_a_field_of_a_later_issue_is_refused_until_it_is_served(
    client: AppClient, path: str, field: str
) -> None:
    document = client.get("/openapi.json").json()
    schema = document["paths"][path]["post"]["requestBody"]["content"][JSON_TYPE]["schema"]
    served = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
    if field in served:
        return
    body: dict[str, Any] = {**(IDS if path == "/decode" else TEXT)}
    body[field] = LATER_FIELDS[path][field]
    for response in in_both(client, path, body):
        problem(response, 422, "validation")


@pytest.mark.parametrize("whole", [None, True, 1, 1.5, "text", [], ["text"], [TEXT]], ids=repr)
def test_a_body_that_is_no_object(client: AppClient, whole: Any) -> None:
    for path in operations():
        for response in in_both(client, path, whole):
            problem(response, 422, "validation")


@pytest.mark.parametrize(
    "name", ["", "CL100K_BASE", "cl100k_base ", "org/model", "é", "a" * 10_000]
)
def test_a_name_that_nothing_has(client: AppClient, name: str) -> None:
    for path in operations():
        for response in in_both(client, path, {**MINIMAL[path], "tokenizer": name}):
            problem(response, 404, "unknown_tokenizer")


def test_of_duplicate_keys_the_last_wins(client: AppClient) -> None:
    """RFC 8259 leaves it open; this is the rule here, in both media types."""
    answer = client.post_bytes(
        "/encode", b'{"tokenizer": "cl100k_base", "text": "a", "text": "Hello world"}'
    )
    assert answer.json()["ids"] == [9906, 1917]
    pairs = [("tokenizer", TOKENIZER), ("text", "a"), ("text", "Hello world")]
    packed = b"\x83" + b"".join(msgspec.msgpack.encode(part) for pair in pairs for part in pair)
    answer = client.post_bytes("/encode", packed, MSGPACK_TYPE)
    assert answer.json()["ids"] == [9906, 1917]


START = b'{"tokenizer": "cl100k_base", '


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{]",
        b"nul",
        b"hello",
        b"'text'",
        START + b'"text": "a",}',
        START + b'"text": "a"',
        START + b'"text": "a"} x',
        START + b'"text": "a"}{}',
        START + b'"text": "a"}\0',
        START + b'"text": "a\nb"}',
        START + b'"text": "a\0b"}',
        START + b'"text": "\\x"}',
        START + b'"text": "\\u12"}',
        START + b"text: 1}",
        START + b'"texts": ["a",]}',
        START + b'"texts": ["a"] /* why */}',
        b"\xef\xbb\xbf" + START + b'"text": "a"}',
    ],
)
def test_what_is_no_json(client: AppClient, body: bytes) -> None:
    problem(client.post_bytes("/encode", body), 400, "malformed_body")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b"0x1", b"1."])
def test_what_is_no_number_in_json(client: AppClient, number: bytes) -> None:
    body = START + b'"ids": [' + number + b"]}"
    problem(client.post_bytes("/decode", body), 400, "malformed_body")


PACKED = msgspec.msgpack.encode(TEXT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        PACKED[:-1],
        PACKED + b"\x01",
        PACKED + PACKED,
        b"\x82\xa9tokenizer",
        b"\xdf\xff\xff\xff\xff",
        b"\x82\xa9tokenizer\xdb\xff\xff\xff\xffabc",
        b"\x82\xa9tokenizer\xabcl100k_base\xa5texts\xdd\xff\xff\xff\xff",
    ],
)
def test_what_is_no_msgpack(client: AppClient, body: bytes) -> None:
    problem(client.post_bytes("/encode", body, MSGPACK_TYPE), 400, "malformed_body")


@pytest.mark.parametrize(
    "odd",
    [
        b"\xc4\x01a",  # bin
        b"\xd4\x05\x00",  # an extension
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x80",  # a map
        b"\xca\x3f\x80\x00\x00",  # 1.0
    ],
)
def test_types_of_msgpack_that_json_lacks_are_no_text(client: AppClient, odd: bytes) -> None:
    body = b"\x82\xa9tokenizer\xabcl100k_base\xa4text" + odd
    problem(client.post_bytes("/encode", body, MSGPACK_TYPE), 422, "validation")


@pytest.mark.parametrize(
    "escapes",
    [
        rb"\ud83d",
        rb"\udf89",
        rb"\ud83d b",
        rb"\ud83dA",
        rb"\ud83d\ud83d",
        rb"\udf89\ud83d",
        rb"\uD83D",
        rb"\\\ud83d",
    ],
)
@pytest.mark.parametrize("place", ["text", "texts", "tokenizer", "field"])
def test_a_lone_surrogate(client: AppClient, escapes: bytes, place: str) -> None:
    text = b'"a' + escapes + b'"'
    body = {
        "text": b'{"tokenizer": "cl100k_base", "text": %s}',
        "texts": b'{"tokenizer": "cl100k_base", "texts": ["b", %s]}',
        "tokenizer": b'{"text": "a", "tokenizer": %s}',
        "field": b'{"tokenizer": "cl100k_base", "text": "a", %s: 1}',
    }[place] % text
    problem(client.post_bytes("/encode", body), 400, "invalid_unicode")


def test_whole_pairs_and_escaped_backslashes_are_fine(client: AppClient) -> None:
    body = rb'{"tokenizer": "cl100k_base", "text": "\ud83c\udf89"}'
    assert client.post_bytes("/encode", body).json()["ids"] == [9468, 236, 231]
    spelt = rb'{"tokenizer": "cl100k_base", "text": "\\ud83d"}'
    assert client.post_bytes("/encode", spelt).json()["bytes"] == len(r"\ud83d")


@pytest.mark.parametrize(
    "rest", [b"", b",}", b" x", b"}}"], ids=["cut", "comma", "garbage", "brace"]
)
def test_broken_json_with_a_whole_pair_is_no_question_of_unicode(
    client: AppClient, rest: bytes
) -> None:
    """A client that cut its body would look for the fault in its emoji."""
    body = rb'{"tokenizer": "cl100k_base", "text": "\ud83c\udf89"' + rest
    problem(client.post_bytes("/encode", body), 400, "malformed_body")


@pytest.mark.parametrize(
    "data",
    [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"caf\xe9", b"\xf0\x9f\x8e"],
    ids=["byte", "overlong", "surrogate", "beyond", "latin-1", "cut"],
)
def test_bytes_that_are_no_utf8(client: AppClient, data: bytes) -> None:
    body = b'{"tokenizer": "cl100k_base", "text": "' + data + b'"}'
    problem(client.post_bytes("/encode", body), 400, "invalid_unicode")
    size = bytes([0xA0 + len(data)])
    packed = b"\x82\xa9tokenizer\xabcl100k_base\xa4text" + size + data
    problem(client.post_bytes("/encode", packed, MSGPACK_TYPE), 400, "invalid_unicode")


DEEP = 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"tokenizer": "cl100k_base", "text": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"tokenizer": "cl100k_base", "texts": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"unknown": ' + b"[" * DEEP + b"]" * DEEP + b', "tokenizer": "cl100k_base"}',
        b'{"tokenizer": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    ],
    ids=["cut", "list", "object", "text", "texts", "unknown", "tokenizer"],
)
def test_deep_json(client: AppClient, body: bytes) -> None:
    response = client.post_bytes("/encode", body)
    assert response.json()["code"] in {"malformed_body", "validation"}
    problem(response, response.status_code, response.json()["code"])


@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * DEEP,
        b"\x91" * DEEP + b"\x01",
        b"\x81\xa1a" * DEEP + b"\x01",
        b"\x82\xa9tokenizer\xabcl100k_base\xa4text" + b"\x91" * DEEP + b"\x01",
        b"\x82\xa9tokenizer\xabcl100k_base\xa5texts" + b"\x91" * DEEP + b"\x01",
        b"\x82\xa9tokenizer\xabcl100k_base\xa7unknown" + b"\x91" * DEEP + b"\x01",
    ],
    ids=["cut", "list", "map", "text", "texts", "unknown"],
)
def test_deep_msgpack(client: AppClient, body: bytes) -> None:
    response = client.post_bytes("/encode", body, MSGPACK_TYPE)
    assert response.json()["code"] in {"malformed_body", "validation"}
    problem(response, response.status_code, response.json()["code"])


def test_the_next_request_is_answered(client: AppClient) -> None:
    """Nothing of the above leaves anything behind."""
    assert client.ok("/encode", {**TEXT, "text": "Hello world"})["ids"] == [9906, 1917]
