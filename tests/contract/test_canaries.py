"""No text that a client sends comes back in an error, a header, the log or the metrics.

A canary is put in every place that can hold a client's text; an answer may show it only where the
contract says so: decoded text, the ids' own number, a valid X-Request-Id.
"""

from __future__ import annotations

import logging
import urllib.parse
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.asgi import JSON_TYPE, MSGPACK_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.asgi import AppClient
    from tests.contract.conftest import Log

CANARY = "canarybird"
"""Lower-case letters alone: what a filter for harmless names would let through."""

TOKENIZER = "cl100k_base"
END = "<|endoftext|>"

BODIES: dict[str, tuple[str, Any]] = {
    "text": ("/encode", {"tokenizer": TOKENIZER, "text": CANARY}),
    "texts": ("/count", {"tokenizer": TOKENIZER, "texts": [CANARY, CANARY]}),
    "text under reject": (
        "/encode",
        {"tokenizer": TOKENIZER, "text": f"{CANARY}{END}{CANARY}", "special_policy": "reject"},
    ),
    "texts under reject": (
        "/count",
        {"tokenizer": TOKENIZER, "texts": [f"{CANARY}{END}"], "special_policy": "reject"},
    ),
    "truncate under reject": (
        "/truncate",
        {
            "tokenizer": TOKENIZER,
            "text": f"{CANARY}{END}",
            "max_tokens": 9,
            "special_policy": "reject",
        },
    ),
    "budget of a chunk": ("/chunk", {"tokenizer": TOKENIZER, "text": "a", "max_tokens": CANARY}),
    "boundary": (
        "/chunk",
        {"tokenizer": TOKENIZER, "text": "a", "max_tokens": 4, "boundary": CANARY},
    ),
    "unit": ("/truncate", {"tokenizer": TOKENIZER, "text": "a", "max_tokens": 4, "unit": CANARY}),
    "offsets": ("/encode", {"tokenizer": TOKENIZER, "text": "a", "offsets": CANARY}),
    "segments": (
        "/encode",
        {"tokenizer": TOKENIZER, "segments": [{"text": CANARY, "special_policy": CANARY}]},
    ),
    "name of a field of a segment": (
        "/count",
        {"tokenizer": TOKENIZER, "segments": [{"text": CANARY, CANARY: CANARY}]},
    ),
    "pair": ("/encode", {"tokenizer": TOKENIZER, "text": CANARY, "text_pair": CANARY}),
    "messages": (
        "/encode",
        {"tokenizer": TOKENIZER, "messages": [{"role": CANARY, "content": CANARY}]},
    ),
    "tokenizer": ("/encode", {"tokenizer": CANARY, "text": "a"}),
    "tokenizers": ("/count", {"tokenizers": [TOKENIZER, CANARY], "text": "a"}),
    "name of a field": ("/encode", {"tokenizer": TOKENIZER, "text": "a", CANARY: 1}),
    "name of a field alone": ("/decode", {CANARY: CANARY}),
    "name of a field that looks like a place": (
        "/encode",
        {"tokenizer": TOKENIZER, "text": "a", f"x` - at `$.{CANARY}": 1},
    ),
    "name of a field that looks like a type": (
        "/encode",
        {"tokenizer": TOKENIZER, "text": "a", f"Expected `{CANARY}`, got `{CANARY}`": 1},
    ),
    "object for a text": ("/encode", {"tokenizer": TOKENIZER, "text": {CANARY: CANARY}}),
    "text for a list": ("/encode", {"tokenizer": TOKENIZER, "texts": CANARY}),
    "text for a flag": (
        "/encode",
        {"tokenizer": TOKENIZER, "text": "a", "add_special_tokens": CANARY},
    ),
    "policy": ("/encode", {"tokenizer": TOKENIZER, "text": "a", "special_policy": CANARY}),
    "mode": ("/decode", {"tokenizer": TOKENIZER, "ids": [1], "mode": CANARY}),
    "output": ("/decode", {"tokenizer": TOKENIZER, "ids": [1], "output": CANARY}),
    "id": ("/decode", {"tokenizer": TOKENIZER, "ids": [CANARY]}),
    "id in a batch": ("/decode", {"tokenizer": TOKENIZER, "batch": [[1], [CANARY]]}),
    "budget": ("/count", {"tokenizer": TOKENIZER, "text": "a", "budget": CANARY}),
    "allowed_special": (
        "/encode",
        {
            "tokenizer": TOKENIZER,
            "text": "a",
            "special_policy": "special",
            "allowed_special": [CANARY],
        },
    ),
    "expected_fingerprint": (
        "/encode",
        {"tokenizer": TOKENIZER, "text": "a", "expected_fingerprint": f"sha256:{CANARY}"},
    ),
    "name in a map of fingerprints": (
        "/count",
        {
            "tokenizers": [TOKENIZER],
            "text": "a",
            "expected_fingerprint": {CANARY: "sha256:" + "0" * 64},
        },
    ),
    "value in a map of fingerprints": (
        "/count",
        {"tokenizers": [TOKENIZER], "text": "a", "expected_fingerprint": {CANARY: CANARY}},
    ),
    "number in a map of fingerprints": (
        "/count",
        {"tokenizers": [TOKENIZER], "text": "a", "expected_fingerprint": {CANARY: 1}},
    ),
    "top level": ("/encode", CANARY),
    "list at top level": ("/encode", [CANARY]),
}

RAW: dict[str, bytes] = {
    "no JSON": CANARY.encode(),
    "cut JSON": f'{{"tokenizer": "{CANARY}'.encode(),
    "after the JSON": f'{{"tokenizer": "{TOKENIZER}", "text": "a"}} {CANARY}'.encode(),
    "lone surrogate": f'{{"tokenizer": "{TOKENIZER}", "text": "{CANARY}\\ud83d"}}'.encode(),
    "no UTF-8": f'{{"tokenizer": "{TOKENIZER}", "text": "{CANARY}'.encode() + b'\xff"}',
    "bad escape": f'{{"tokenizer": "{CANARY}\\x"}}'.encode(),
}

HEADERS = (
    "accept",
    "content-type",
    "content-encoding",
    "content-length",
    "authorization",
    "cookie",
    "user-agent",
    "if-none-match",
    "x-forwarded-for",
    "x-request-id",
    "host",
    CANARY,
)

PATHS = (
    f"/{CANARY}",
    f"/fingerprint/{CANARY}",
    f"/fingerprint/{CANARY}%2F{CANARY}",
    f"/fingerprint/gpt2/{CANARY}",
    f"/encode/{CANARY}",
    f"/encode?{CANARY}={CANARY}",
    f"/healthz?{CANARY}",
    f"/fingerprint/gpt2?name={CANARY}",
    f"/metrics?name={CANARY}",
    f"/{CANARY}%0d%0ax-{CANARY}: {CANARY}",
)

OF_THE_CLIENT = {"httpx", "asyncio"}
"""Loggers of the test's own client."""


class Watch:
    """Sends requests and looks for the canary in all that comes of them."""

    def __init__(self, client: AppClient, log: Log, records: pytest.LogCaptureFixture) -> None:
        self._client = client
        self._log = log
        self._records = records

    def send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        response = self._client.request(method, path, **arguments)
        assert response.status_code < 500
        assert CANARY.encode() not in response.content, response.content
        for name, value in response.headers.multi_items():
            assert CANARY not in f"{name}: {value}"
        assert self._log.lines, "every request is logged here"
        assert CANARY not in self._log.text
        for record in self._records.records:
            if record.name not in OF_THE_CLIENT:
                assert CANARY not in str(vars(record))
        assert CANARY not in self._client.get("/metrics").text
        return response


@pytest.fixture
def watch(
    new_client: Callable[..., AppClient], log: Log, caplog: pytest.LogCaptureFixture
) -> Watch:
    """A client whose every trace is searched; all loggers are heard, ours included."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("tokenizer_service").addHandler(caplog.handler)
    return Watch(new_client(log_requests="all"), log, caplog)


@pytest.mark.parametrize("place", BODIES)
def test_body(watch: Watch, place: str) -> None:
    path, body = BODIES[place]
    watch.send("POST", path, json=body)
    packed = msgspec.msgpack.encode(body)
    watch.send("POST", path, content=packed, headers={"content-type": MSGPACK_TYPE})


@pytest.mark.parametrize("place", RAW)
def test_bytes_that_are_no_body(watch: Watch, place: str) -> None:
    for media_type in (JSON_TYPE, MSGPACK_TYPE):
        headers = {"content-type": media_type}
        response = watch.send("POST", "/encode", content=RAW[place], headers=headers)
        assert response.status_code == 400 or media_type == MSGPACK_TYPE


@pytest.mark.parametrize("name", HEADERS)
def test_header(watch: Watch, name: str) -> None:
    # A blank, so that no X-Request-Id may be made of it; a valid one is meant to come back.
    value = f"{CANARY} {CANARY}"
    body = b'{"tokenizer": "cl100k_base", "text": "a"}'
    for method, path, content in (
        ("POST", "/encode", body),
        ("GET", "/encode", None),
        ("GET", "/fingerprint/gpt2", None),
        ("GET", "/healthz", None),
        ("POST", "/healthz", body),
        ("GET", "/no-such", None),
    ):
        headers = {"content-type": JSON_TYPE} | {name: value}
        watch.send(method, path, content=content, headers=headers)


@pytest.mark.parametrize("path", PATHS)
def test_path_and_query(watch: Watch, path: str) -> None:
    for method in ("GET", "POST", "HEAD", "DELETE", "OPTIONS"):
        watch.send(method, path, json={"tokenizer": TOKENIZER, "text": "a"})


def test_the_log_line_of_a_request_holds_numbers_and_names_alone(watch: Watch, log: Log) -> None:
    watch.send(
        "POST",
        "/count",
        json={"tokenizer": "gpt-4", "texts": [CANARY, f"{CANARY} more"]},
        headers={"x-request-id": "one-1"},
    )
    line = log.lines[0]
    assert set(line) == {
        "time",
        "level",
        "message",
        "method",
        "route",
        "status",
        "duration_ms",
        "request_id",
        "tokenizer",
        "bytes",
        "count",
    }
    assert (line["method"], line["route"], line["status"]) == ("POST", "/count", 200)
    assert (line["request_id"], line["tokenizer"]) == ("one-1", ["cl100k_base"])
    assert line["bytes"] == 2 * len(CANARY) + len(" more")
    assert line["count"] > 0
    assert line["duration_ms"] >= 0


def test_what_is_logged_follows_the_setting(new_client: Callable[..., AppClient], log: Log) -> None:
    good, bad = {"tokenizer": TOKENIZER, "text": "a"}, {"tokenizer": TOKENIZER, "text": 1}
    for setting, expected in (("errors", [422]), ("all", [200, 422]), ("off", [])):
        client = new_client(log_requests=setting)
        before = len(log.lines)
        client.post("/encode", good)
        client.post("/encode", bad)
        assert [line["status"] for line in log.lines[before:]] == expected


def test_a_failed_request_is_logged_by_default_with_its_code(
    new_client: Callable[..., AppClient], log: Log
) -> None:
    path = "/" + urllib.parse.quote("没有/route")
    response = new_client().get(path)
    line = log.only()
    assert (line["code"], line["status"], line["route"]) == ("not_found", 404, "unmatched")
    assert (line["level"], line["request_id"]) == ("warning", response.headers["x-request-id"])
