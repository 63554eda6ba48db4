"""The quick way gives what the door gives, to the byte, over a real socket, and notes the same."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING

import msgspec
import pytest

from service.api.pace import LONG_BODY_BYTES
from service.api.plain import INLINE_BODY_BYTES, QUICK_INLINE_BODY_BYTES
from service.catalog.probes import PROBES
from service.engines.fast import SAMPLE_EVERY, FastTokenizer
from service.formats.sentencepiece import _LONGEST, _QUICK_BYTES
from service.settings import Settings
from tests.server.talking import COUNT, head, of_size, post, post_chunked, running
from tests.server.watching import wait_until
from tests.server.ways import both

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.api.quick import Quick
    from service.catalog.catalog import Catalog
    from tests.server.ways import Ways

TEXTS = ("", *PROBES, "<|endoftext|></s>[CLS]<|startoftext|>", "\u0e20\u2602\U0001f9ea", "x" * 5000)


@pytest.fixture(scope="module")
def ways(catalog: Catalog) -> Iterator[Ways]:
    yield from both(catalog)


@pytest.fixture
def new_ways(catalog: Catalog) -> Iterator[Ways]:
    """Two servers that have answered nothing yet."""
    yield from both(catalog)


@pytest.mark.parametrize("path", ["/count", "/encode"])
def test_every_tokenizer_and_text(new_ways: Ways, catalog: Catalog, path: str) -> None:
    requests = [
        post(json.dumps({"tokenizer": name, "text": text}).encode(), path)
        for entry in catalog
        for name in (entry.name, *entry.artifact.aliases)
        for text in TEXTS
    ]
    before = new_ways.quick.numbers()
    assert before == new_ways.door.numbers()
    with new_ways.quick.talk() as quick, new_ways.door.talk() as door:
        for request in requests:
            ours, theirs = quick.send(request).answer(), door.send(request).answer()
            assert ours.status == 200
            assert ours.lasting == theirs.lasting
    assert new_ways.quick.quick_answers == len(requests)
    after = new_ways.quick.numbers()
    assert after != before
    assert after == new_ways.door.numbers()


def test_the_times_are_noted_either_way(new_ways: Ways) -> None:
    for server in (new_ways.quick, new_ways.door):
        server.ask(post())
        scrape = server.ask(head("GET", "/metrics", ())).body.decode()
        for family in ("request", "operation"):
            (line,) = (
                line
                for line in scrape.splitlines()
                if line.startswith(f"tokenizer_{family}_duration_seconds_sum")
                and "count" in line
                and "metrics" not in line
                and not line.endswith(" 0.0")
            )
            assert float(line.rsplit(" ", 1)[1]) > 0


@pytest.mark.parametrize("request_id", ["mine", "a" * 128, "A-b_c.9"])
def test_a_request_id_is_given_back(ways: Ways, request_id: str) -> None:
    (answer,) = ways.quickly(post(more={"x-request-id": request_id}))
    assert answer.headers["x-request-id"] == request_id


@pytest.mark.parametrize("request_id", ["", "a" * 129, "a b", "a;b", "\u00e9", "a\tb"])
def test_another_request_id_is_not(ways: Ways, request_id: str) -> None:
    (answer,) = ways.quickly(post(more={"x-request-id": request_id}))
    assert answer.headers["x-request-id"] != request_id
    assert answer.headers["x-request-id"].isascii()


def test_of_ids_given_twice_the_last_counts(ways: Ways) -> None:
    request = post(more={"x-request-id": "first"}).replace(
        b"first", b"first\r\nX-Request-ID: second"
    )
    (answer,) = ways.quickly(request)
    assert answer.headers["x-request-id"] == "second"


def test_no_two_requests_have_one_id(ways: Ways) -> None:
    answers = [ways.quick.ask(post(more=more)) for more in ({}, {"accept": "application/*"}) * 3]
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


QUICK_HEADERS = [
    {},
    {"accept": "*/*"},
    {"accept": "application/json"},
    {"connection": "keep-alive"},
    {"expect": "something"},
    {"host": "x", "user-agent": "y", "accept-encoding": "gzip"},
]
DOOR_HEADERS = [
    {"content-type": "application/json; charset=utf-8"},
    {"content-type": "APPLICATION/JSON"},
    {"content-type": "text/plain"},
    {"content-type": ""},
    {"accept": "application/json;q=0.5, */*;q=0.1"},
    {"accept": "application/msgpack"},
    {"accept": "text/html"},
    {"accept": ""},
    {"content-encoding": "gzip"},
    {"content-encoding": "identity"},
    {"connection": "close"},
]


@pytest.mark.parametrize("headers", QUICK_HEADERS, ids=str)
def test_headers_that_the_quick_way_takes(ways: Ways, headers: dict[str, str]) -> None:
    assert ways.quickly(post(more=headers))[0].status == 200


@pytest.mark.parametrize("headers", DOOR_HEADERS, ids=str)
def test_headers_that_it_leaves_to_the_door(ways: Ways, headers: dict[str, str]) -> None:
    ways.slowly(post(more=headers))


PACKED = {"content-type": "application/msgpack", "accept": "application/msgpack"}


@pytest.mark.parametrize("path", ["/count", "/encode"])
@pytest.mark.parametrize("name", ["cl100k_base", "bert-base-uncased"])
def test_messagepack(ways: Ways, catalog: Catalog, path: str, name: str) -> None:
    tokenizer = catalog.resolve(name).tokenizer
    if isinstance(tokenizer, FastTokenizer):
        # A text that is answered by both engines has its ids in a list, and in fewer bytes.
        tokenizer._until_sample = SAMPLE_EVERY
    for text in TEXTS:
        packed = msgspec.msgpack.encode({"tokenizer": name, "text": text})
        (answer,) = ways.quickly(post(packed, path, more=PACKED))
        assert msgspec.msgpack.decode(answer.body)["tokenizer"] == name
        ways.slowly(post(packed, path, more=PACKED | {"accept": "*/*"}))  # which is JSON


@pytest.fixture
def patient(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> Ways:
    """They take the time that a long text takes, however slow this machine is."""
    for module in ("service.api.quick", "service.api.door"):
        monkeypatch.setattr(f"{module}.TEXT_SECONDS", math.inf)
    ways.quick.app.engine.pace.busy_at = -math.inf
    return ways


@pytest.mark.parametrize("path", ["/count", "/encode"])
@pytest.mark.parametrize("packs", [False, True], ids=["JSON", "MessagePack"])
@pytest.mark.parametrize("size", [QUICK_INLINE_BODY_BYTES + 1, 300_000, LONG_BODY_BYTES])
def test_long_texts_while_no_small_ones_come(
    patient: Ways, path: str, size: int, *, packs: bool
) -> None:
    body = of_size(size, "cl100k_base")
    if packs:
        # Its text is as long, and the rest is shorter.
        body = msgspec.msgpack.encode(json.loads(body))
    patient.quickly(post(body, path, more=PACKED if packs else None))


def test_long_texts_wait_where_small_ones_come(patient: Ways) -> None:
    patient.quick.app.engine.pace.busy_at = math.inf
    patient.slowly(post(of_size(300_000, "cl100k_base")))


LEFT = {
    "longer": of_size(LONG_BODY_BYTES + 1, "cl100k_base"),
    "beyond ASCII": of_size(300_000, "cl100k_base", "\u00e9" * 100),
    "nowhere to cut": json.dumps({"tokenizer": "cl100k_base", "text": "a" * 70_000}).encode(),
    "no cuts": of_size(300_000, "mistral-7b-v0.3"),
    "no fast engine": of_size(70_000, "bert-base-uncased"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_long_texts_that_are_left_to_the_door(patient: Ways, kind: str) -> None:
    patient.slowly(post(LEFT[kind]))


def test_a_long_text_that_turns_out_to_be_slow_is_left_to_the_door(
    patient: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("service.api.quick", "service.api.door"):
        monkeypatch.setattr(f"{module}.TEXT_SECONDS", 0)
    patient.slowly(post(of_size(300_000, "cl100k_base")))


def test_other_requests_that_are_left_to_the_door(ways: Ways) -> None:
    own = ("content-length", str(len(COUNT)))
    json_headers = (("content-type", "application/json"), own)
    for more in ((), (("connection", "keep-alive"),)):
        old = head(headers=(*json_headers, *more), version="1.0") + COUNT
        assert ways.slowly(old).headers["connection"] == "close"
    assert ways.slowly(post(path="/count?x=1")).status == 200
    assert ways.slowly(post(path="/%63ount")).status == 200
    assert ways.slowly(post(path="/count/")).status == 404
    assert ways.slowly(post(path="/nothing")).status == 404
    for method in ("PUT", "DELETE", "PATCH"):
        assert ways.slowly(head(method, headers=json_headers) + COUNT).status == 405
    assert ways.slowly(head("OPTIONS", headers=())).status == 204
    assert ways.slowly(head("HEAD", headers=()), has_body=False).status == 405
    assert ways.slowly(head("GET", headers=())).status == 405


def test_expect_100_continue(ways: Ways) -> None:
    whole = post(more={"expect": "100-continue"})
    for server in (ways.quick, ways.door):
        with server.talk() as talk:
            assert talk.send(whole[: -len(COUNT)]).answer().status == 100
            assert talk.send(COUNT).answer().json["count"] == 1
            assert talk.send(post()).answer().status == 200


REFUSED: dict[str, bytes] = {
    "malformed_body": b"{",
    "invalid_unicode": b'{"tokenizer":"gpt2","text":"\xff"}',
    "unknown_tokenizer": b'{"tokenizer":"none","text":"a"}',
    "tokenizer_required": b'{"text":"a"}',
    "validation": b'{"tokenizer":"gpt2","text":1}',
    "fingerprint_mismatch": (
        b'{"tokenizer":"gpt2","text":"a","expected_fingerprint":"sha256:' + b"0" * 64 + b'"}'
    ),
    "special_token_in_text": (
        b'{"tokenizer":"gpt2","text":"<|endoftext|>","special_policy":"reject"}'
    ),
    "chat_template_missing": (b'{"tokenizer":"gpt2","messages":[{"role":"user","content":"a"}]}'),
    "too_many_items": json.dumps({"tokenizer": "gpt2", "texts": ["a"] * 5000}).encode(),
}


@pytest.mark.parametrize("path", ["/count", "/encode"])
@pytest.mark.parametrize("code", REFUSED)
def test_every_error_is_the_doors(ways: Ways, code: str, path: str) -> None:
    assert ways.slowly(post(REFUSED[code], path)).json["code"] == code


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"tokenizer":"gpt2"}', b"[" * 9000])
def test_other_bodies_that_are_wrong(ways: Ways, body: bytes) -> None:
    assert 400 <= ways.slowly(post(body)).status < 500


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in two"])
@pytest.mark.parametrize(
    ("tokenizer", "start", "bound"),
    [
        ("cl100k_base", "", QUICK_INLINE_BODY_BYTES),
        ("t5-base", "", _QUICK_BYTES),
        ("t5-base", _LONGEST, INLINE_BODY_BYTES),
        ("all-minilm-l6-v2", "", INLINE_BODY_BYTES),
        ("o200k_base", "'\u017f", INLINE_BODY_BYTES),
    ],
    ids=["fast", "SentencePiece", "SentencePiece's longest", "slow", "exception"],
)
def test_bodies_around_the_bound(
    ways: Ways, tokenizer: str, start: str, bound: int, more: int, *, whole: bool
) -> None:
    ways.quick.app.engine.pace.busy_at = math.inf
    body = of_size(bound + more, tokenizer, start)
    request = post(body, "/encode")
    assert len(body) == bound + more
    parts = [request] if whole else [request[:5000], request[5000:]]
    asked = ways.quickly if more < 1 else ways.slowly
    asked(*parts)


def test_a_bound_on_bodies_below_the_quick_ways_own(catalog: Catalog) -> None:
    for ways in both(catalog, max_body_bytes=len(COUNT)):
        ways.quickly(post())
        assert ways.slowly(post(COUNT + b" ")).json["code"] == "payload_too_large"
        assert ways.slowly(post_chunked(COUNT + b" ")).json["code"] == "payload_too_large"


def test_texts_over_their_bound_are_refused_by_the_door(catalog: Catalog) -> None:
    for ways in both(catalog, max_text_bytes=1):
        assert ways.slowly(post()).json["code"] == "text_too_large"


def test_a_request_cut_at_every_byte(ways: Ways) -> None:
    request = post()
    expected = ways.quick.ask(request).lasting
    with ways.quick.talk() as talk:
        for at in range(1, len(request)):
            assert talk.send(request[:at], request[at:]).answer().lasting == expected


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_chunked_body(ways: Ways, size: int) -> None:
    ways.quickly(post_chunked(size=size))
    ways.quickly(post_chunked(size=size, trailers=b"x-more: 1\r\ncontent-type: text/plain\r\n"))


@pytest.mark.parametrize("body", [COUNT, b"{"], ids=["quick", "door"])
def test_what_stands_behind_a_body_changes_no_answer(ways: Ways, body: bytes) -> None:
    trailers = b"expect: 100-continue\r\nx-request-id: mine\r\naccept: text/html\r\n"
    answers = ways.same(post_chunked(body, trailers=trailers), post(), answers=2)
    assert answers[0].status == (200 if body == COUNT else 400)
    assert answers[0].headers["x-request-id"] != "mine"


def test_with_a_line_for_every_request_the_door_answers(catalog: Catalog) -> None:
    with running(catalog, Settings(log_requests="all")) as server:
        server.works()
        assert server.quick_answers == 0


@dataclasses.dataclass
class Defect:
    """A way that fails as no way should."""

    def answer(self, body: bytes) -> None:
        raise KeyError(body)


def test_a_defect_of_the_quick_way_is_the_doors_to_tell(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(catalog, Settings(log_requests="off")) as server:
        quick: Quick = server.app.quick
        for path, (_, record) in [*quick._ways.items()]:
            monkeypatch.setitem(quick._ways, path, (Defect(), record))
        server.works()


def test_a_process_that_drains_keeps_no_connection(catalog: Catalog) -> None:
    """What says `connection: close` has to close."""
    with running(catalog, Settings(log_requests="off")) as server, server.talk() as talk:
        assert "connection" not in talk.send(post()).answer().headers
        server.on_loop(server.server._drain)
        answer = talk.send(post()).answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert talk.ends_well() == b""


def test_headers_of_every_answer_are_those_of_now(catalog: Catalog) -> None:
    """The date is one of them."""
    with running(catalog, Settings(log_requests="off")) as server:
        assert server.ask(post()).headers["date"]
        server.server.config.encoded_headers = [(b"x-new", b"1")]
        wait_until(lambda: "x-new" in server.ask(post()).headers)
        assert server.quick_answers >= 2


def test_a_process_that_stops_refuses_work(catalog: Catalog) -> None:
    with running(catalog, Settings(log_requests="off")) as server, server.talk() as talk:
        talk.send(post()).answer()
        server.app.lifecycle.ready, server.app.lifecycle.refuses_work = False, True
        assert talk.send(post()).answer().json["code"] == "draining"
