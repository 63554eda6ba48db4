"""Whatever bytes come on a connection: a defined answer, in order, and never a 5xx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.catalog.loading import load_catalog
from service.settings import Settings
from tests.asgi import PROBLEM_TYPE
from tests.server.talking import COUNT, Running, head, post, post_chunked, running

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from tests.server.talking import Answer

MAX_HEAD = 2000

JSON_HEADERS = (("content-type", "application/json"), ("content-length", str(len(COUNT))))
SLOWLY = {"accept": "*/*;q=1"}
"""What makes a request go the way of ASGI."""


@pytest.fixture(scope="module")
def server(artifacts: pathlib.Path) -> Iterator[Running]:
    """Nothing that happens to it may stand in its log as an error."""
    settings = Settings(log_requests="off", max_header_bytes=MAX_HEAD)
    with running(load_catalog(artifacts), settings) as started:
        yield started


def refused(answer: Answer, status: int, code: str) -> None:
    """Check the problem of what was no request."""
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.json["status"] == status
    assert answer.headers["content-type"] == PROBLEM_TYPE
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"] == answer.json["request_id"]
    assert answer.headers["date"]


def rejected(server: Running, code: str) -> float:
    return server.numbers().get(f'tokenizer_rejected_total{{reason="{code}"}}', 0)


CHUNKED = ("transfer-encoding", "chunked")
BODY_5 = b"hello"
NO_REQUESTS = {
    "garbage": b"\x16\x03\x01\x00\xa5 this is TLS\r\n\r\n",
    "text": b"hello world\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version": head("GET", "/healthz", (), version="1.2"),
    "method": head("BREW", "/count"),
    "CONNECT": head("CONNECT", "127.0.0.1:80", ()),
    "no path": head("GET", "http://host", ()),
    "path of bytes": head("GET", "/caf\xe9", ()),
    "line feeds": head("GET", "/healthz", ()).replace(b"\r", b""),
    "space before colon": head("GET", "/healthz", [("a ", "b")]),
    "NUL in a value": head("GET", "/healthz", [("a", "b\0c")]),
    "NUL in a name": head("GET", "/healthz", [("a\0", "b")]),
    "NUL in the path": head("GET", "/health\0z", ()),
    "carriage return in a value": head("GET", "/healthz", [("a", "b\rc")]),
    "folded": head("GET", "/healthz", [("a", "b\r\n c")]),
    "both lengths": head(headers=[("content-length", "5"), CHUNKED]) + b"0\r\n\r\n",
    "both lengths, turned": head(headers=[CHUNKED, ("content-length", "5")]) + b"0\r\n\r\n",
    "two lengths": head(headers=[("content-length", "5"), ("content-length", "6")]) + BODY_5,
    "a length twice": head(headers=[("content-length", "5")] * 2) + BODY_5,
    "lengths in one": head(headers=[("content-length", "5, 5")]) + BODY_5,
    "length +5": head(headers=[("content-length", "+5")]) + BODY_5,
    "length -5": head(headers=[("content-length", "-5")]) + BODY_5,
    "length 0x5": head(headers=[("content-length", "0x5")]) + BODY_5,
    "a length beyond all": head(headers=[("content-length", "9" * 40)]) + BODY_5,
    "chunked, not last": head(headers=[("transfer-encoding", "chunked, gzip")]) + b"0\r\n\r\n",
    "chunked twice": head(headers=[CHUNKED, ("transfer-encoding", "x")]) + b"0\r\n\r\n",
    "chunk size": head(headers=[CHUNKED]) + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size -1": head(headers=[CHUNKED]) + b"-1\r\n\r\n",
    "chunk size beyond all": head(headers=[CHUNKED]) + b"f" * 40 + b"\r\n",
    "chunk longer than said": head(headers=[CHUNKED]) + b"2\r\nhello\r\n0\r\n\r\n",
    "trailer": post_chunked(trailers=b"no colon\r\n"),
}


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request_is_refused_and_closed(server: Running, name: str) -> None:
    before = rejected(server, "malformed_request")
    with server.talk() as talk:
        refused(talk.send(NO_REQUESTS[name]).answer(), 400, "malformed_request")
        assert talk.ends_well() == b""
    assert rejected(server, "malformed_request") == before + 1
    server.works()


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_it_may_come_byte_by_byte(server: Running, name: str) -> None:
    data = NO_REQUESTS[name]
    with server.talk() as talk:
        try:
            for at in range(len(data)):
                talk.send(data[at : at + 1])
        except (BrokenPipeError, ConnectionResetError):
            pytest.fail("reset before the answer could be read")
        refused(talk.answer(), 400, "malformed_request")
        assert talk.ends_well() == b""


@pytest.mark.parametrize("accept", ["*/*", SLOWLY["accept"]], ids=["quick", "door"])
def test_a_valid_request_before_it_is_answered_whole(server: Running, accept: str) -> None:
    """And nothing that looks like a request within what is refused is answered."""
    smuggled = head(headers=[("content-length", "5"), CHUNKED]) + b"0\r\n\r\n" + post()
    for _ in range(20):
        with server.talk() as talk:
            talk.send(post(more={"accept": accept}) + smuggled)
            assert talk.answer().json["count"] == 1
            rest = talk.ends_well()
        assert rest.count(b"\r\n\r\n") == rest.count(b'"malformed_request"') <= 1


def test_of_valid_requests_before_it_all_are_answered(server: Running) -> None:
    with server.talk() as talk:
        talk.send(post(more=SLOWLY) * 5 + b"garbage\r\n\r\n")
        assert [talk.answer().json["count"] for _ in range(5)] == [1] * 5
        assert talk.ends_well() == b""


def test_a_body_that_turns_out_wrong_after_its_answer_has_no_second_one(server: Running) -> None:
    """It would be taken for the answer to the client's next request."""
    for path, status in (("/nothing", 404), ("/healthz", 405)):
        with server.talk() as talk:
            talk.send(head(path=path, headers=[CHUNKED]) + b"5\r\nhello\r\n")
            assert talk.answer().status == status
            talk.send(b"no chunk\r\n")
            assert talk.ends_well() == b""


def test_a_body_that_turns_out_wrong_is_waited_for_no_longer(server: Running) -> None:
    """Also where the request was begun already."""
    for path, more in (("/count", "nothing"), ("/count", "100-continue"), ("/count?x", "nothing")):
        headers = [CHUNKED, ("content-type", "application/json"), ("expect", more)]
        with server.talk() as talk:
            talk.send(head(path=path, headers=headers))
            if more == "100-continue":
                assert talk.answer().status == 100
            talk.send(b"5\r\nhello\r\n")
            talk.send(b"no chunk\r\n")
            refused(talk.answer(), 400, "malformed_request")
            assert talk.ends_well() == b""
    assert rejected(server, "internal") == 0


@pytest.mark.parametrize("path", ["/count", "/count?x", "/nothing", "/healthz"])
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "at once"])
def test_a_trailer_that_closes_closes(server: Running, path: str, *, apart: bool) -> None:
    """The parser reads nothing behind it, so that nobody may be kept waiting for an answer."""
    request = post_chunked(path=path, trailers=b"connection: close\r\n") + post()
    at = request.index(b"0\r\nconnection")
    with server.talk() as talk:
        talk.send(request[:at])
        early = apart and "count" not in path
        if early:
            assert talk.answer().status in {404, 405}
        talk.send(request[at:])
        if not early:
            assert talk.answer().status in {200, 404, 405}
        assert talk.ends_well() == b""


def padded(size: int) -> bytes:
    """A head of so many bytes, as the limit counts them."""
    headers = [("content-length", "0"), ("x", "")]
    known = len("/healthz") + sum(len(name) + len(value) + 4 for name, value in headers)
    return head("GET", "/healthz", [headers[0], ("x", "a" * (size - known))])


def test_a_head_of_exactly_the_limit(server: Running) -> None:
    assert server.ask(padded(MAX_HEAD)).status == 200
    with server.talk() as talk:
        answer = talk.send(padded(MAX_HEAD + 1)).answer()
        refused(answer, 431, "headers_too_large")
        assert answer.json["limit"] == MAX_HEAD
        assert talk.ends_well() == b""


LARGE_HEADS = {
    "one value": head("GET", "/healthz", [("x", "a" * 10_000)]),
    "one name": head("GET", "/healthz", [("x" * 10_000, "a")]),
    "path": head("GET", "/" + "x" * 10_000, ()),
    "many headers": head("GET", "/healthz", [("x", "a")] * 2000),
    "after a request": head("GET", "/healthz", ()) + head("GET", "/healthz", [("x", "a" * 9000)]),
    "blank lines": b"\r\n" * 5000,
    "of a POST": head(headers=[*JSON_HEADERS, ("x", "a" * 10_000)]) + COUNT,
}


@pytest.mark.parametrize("name", LARGE_HEADS)
@pytest.mark.parametrize("size", [100, 1000, 1 << 16])
def test_a_head_over_the_limit_is_refused(server: Running, name: str, size: int) -> None:
    data = LARGE_HEADS[name]
    before = rejected(server, "headers_too_large")
    with server.talk() as talk:
        for start in range(0, len(data), size):
            talk.send(data[start : start + size])
        answer = talk.answer()
        refusals = 1
        if name == "after a request":
            assert answer.status == 200
            # There is none where the first answer was still to be given.
            refusals = talk.ends_well().count(b'"headers_too_large"')
            assert refusals <= 1
        else:
            refused(answer, 431, "headers_too_large")
            assert talk.ends_well() == b""
    assert rejected(server, "headers_too_large") == before + refusals
    server.works()


def test_a_head_that_follows_a_large_body_at_once_is_no_large_head(server: Running) -> None:
    body = COUNT + b" " * 5000
    next_one = post()
    whole = post(body) + next_one
    for cut in (1, 40, len(next_one) - len(COUNT)):
        at = len(whole) - len(next_one) + cut
        with server.talk() as talk:
            talk.send(whole[:at])
            assert talk.answer().json["count"] == 1
            assert talk.send(whole[at:]).answer().json["count"] == 1


FLOODS = {
    "header": (head("GET", "/healthz", ())[:-2] + b"x: ", b"a" * 4096),
    "headers": (head("GET", "/healthz", ())[:-2], b"x: a\r\n" * 600),
    "path": (b"GET /", b"a" * 4096),
    "blank lines": (b"", b"\r\n" * 2048),
    "trailer": (head(headers=[CHUNKED]) + b"1\r\nx\r\n0\r\nx: ", b"a" * 4096),
    "trailers": (head(headers=[CHUNKED]) + b"1\r\nx\r\n0\r\n", b"x: a\r\n" * 600),
    "chunk extension": (head(headers=[CHUNKED]) + b"1;", b"a" * 4096),
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("path", ["/healthz", "/count", "/count?x", "/nothing"])
def test_what_has_no_end_is_ended(server: Running, name: str, path: str) -> None:
    begin, piece = FLOODS[name]
    begin = begin.replace(b"/count", path.encode()).replace(b"/healthz", path.encode())
    with server.talk() as talk:
        talk.send(begin)
        sent = talk.flood(piece, 64 << 20)
    assert sent < 64 << 20
    server.works()


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"]
)
@pytest.mark.parametrize("path", ["/count", "/healthz", "/nothing", "*"])
def test_other_methods(server: Running, method: str, path: str) -> None:
    with server.talk() as talk:
        answer = talk.send(head(method, path, ())).answer(has_body=method != "HEAD")
        assert answer.status in {200, 204, 404, 405}
        assert talk.send(post()).answer().json["count"] == 1
