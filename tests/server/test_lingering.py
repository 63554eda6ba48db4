"""A client that is still sending can read its answer, and is not waited for longer than that."""

from __future__ import annotations

import contextlib
import http.client
import pathlib
import signal
from typing import TYPE_CHECKING

import pytest

from service.catalog.loading import load_catalog
from service.server import lingering
from service.settings import Settings
from tests.server.talking import COUNT, Running, Talk, head, post, post_chunked, running
from tests.server.watching import FOR_EVER, status, wait_until
from tests.serving import STOP_SECONDS, Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB, MIB = 1024, 1024 * 1024
MAX_BODY = 256 * KIB

CHUNKED = ("transfer-encoding", "chunked")
CONTENT = ("content-type", "application/json")
CHUNK = b"%x\r\n%b\r\n" % (4 * KIB, b" " * (4 * KIB))
HUGE = ("content-length", str(1 << 40))


@pytest.fixture(scope="module")
def server(artifacts: pathlib.Path) -> Iterator[Running]:
    settings = Settings(log_requests="off", max_body_bytes=MAX_BODY)
    with running(load_catalog(artifacts), settings) as started:
        yield started


EARLY = {
    "413 of a length": (413, head(headers=[CONTENT, HUGE]), b" " * 4 * KIB),
    "413 of chunks": (413, head(headers=[CONTENT, CHUNKED]), CHUNK),
    "404 of a length": (404, head(path="/nothing", headers=[HUGE]), b" " * 4 * KIB),
    "404 of chunks": (404, head(path="/nothing", headers=[CHUNKED]), CHUNK),
    "405": (405, head("PUT", headers=[HUGE]), b" " * 4 * KIB),
    "415": (415, head(path="/count?x", headers=[HUGE]), b" " * 4 * KIB),
    "a page": (405, head(path="/healthz", headers=[CHUNKED]), CHUNK),
    "no request": (400, b"hello\r\n\r\n", b" " * 4 * KIB),
}


@pytest.mark.parametrize("name", EARLY)
def test_a_client_that_goes_on_sending_can_read_its_answer(server: Running, name: str) -> None:
    """It sends more than is drained for its sake, and less than is swallowed."""
    expected, begin, piece = EARLY[name]
    with server.talk() as talk:
        talk.send(begin)
        for _ in range((MAX_BODY + 256 * KIB) // len(piece)):
            talk.send(piece)
        assert talk.answer().status == expected
        assert talk.ends_well() == b""
    server.works()


@pytest.mark.parametrize("name", EARLY)
def test_it_is_not_listened_to_for_ever(server: Running, name: str) -> None:
    _, begin, piece = EARLY[name]
    with server.talk() as talk:
        assert talk.send(begin).flood(piece, 64 * MIB) < 64 * MIB
    server.works()


def test_nor_when_it_sends_nothing(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "_SECONDS", 0.05)
    with server.talk() as talk:
        talk.send(b"hello\r\n\r\n")
        assert talk.answer().status == 400
        assert talk.ends_well() == b""
        # The side that reads is closed, too, after a while.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            wait_until(lambda: bool(talk.send(b"x")) is None)


def test_it_sees_the_end_at_once_and_may_go(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "_SECONDS", 3600)
    with server.talk() as talk:
        talk.send(b"hello\r\n\r\n")
        assert talk.answer().status == 400
        assert talk.ends_well() == b""
    wait_until(lambda: not server.server.server_state.connections)


def test_a_client_that_has_sent_all_is_closed_at_once(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "_SECONDS", 3600)
    with server.talk() as talk:
        assert talk.send(post(more={"connection": "close"})).answer().status == 200
        assert talk.ends_well() == b""
        wait_until(lambda: not server.server.server_state.connections)


@pytest.mark.parametrize("path", ["/nothing", "/healthz"])
@pytest.mark.parametrize("form", ["length", "chunks"])
def test_a_rest_of_64_kib_is_drained_and_the_connection_stays(
    server: Running, path: str, form: str
) -> None:
    body = b" " * 64 * KIB
    request = post(body, path) if form == "length" else post_chunked(body, 8 * KIB, path)
    with server.talk() as talk:
        for _ in range(3):
            begin = request.index(b"\r\n\r\n") + 4
            answer = talk.send(request[:begin]).answer()
            assert answer.status in {404, 405}
            assert "connection" not in answer.headers
            talk.send(request[begin:])
            assert talk.send(post()).answer().json["count"] == 1


@pytest.mark.parametrize("form", ["length", "chunks"])
def test_a_longer_rest_ends_the_connection(server: Running, form: str) -> None:
    """Nothing that stands behind it is answered."""
    body = b" " * (64 * KIB + 1)
    request = (
        post(body, "/nothing") if form == "length" else post_chunked(body, 8 * KIB, "/nothing")
    )
    begin = request.index(b"\r\n\r\n") + 4
    for _ in range(10):
        with server.talk() as talk:
            assert talk.send(request[:begin]).answer().status == 404
            talk.send(request[begin:] + post() + post(more={"accept": "*/*;q=1"}))
            assert talk.ends_well() == b""


ROUTES = ["/count", "/encode", "/nothing", "/healthz", "/count?x"]


@pytest.fixture(scope="module")
def service(artifacts: pathlib.Path) -> Iterator[Served]:
    variables = {"TOKENIZER_MAX_BODY_BYTES": str(4 * MIB), "TOKENIZER_LOG_REQUESTS": "off"}
    with serving(artifacts, variables=variables) as started:
        yield started


def peak(service: Served) -> int:
    """The most memory that the process has had since `reset`, in bytes."""
    lines = pathlib.Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in lines.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * KIB


FLOODS = {
    "body": (head(headers=[CONTENT, CHUNKED]), b"%x\r\n%b\r\n" % (MIB, b" " * MIB)),
    "length": (head(headers=[CONTENT, HUGE]), b" " * MIB),
    "header": (head(headers=[CONTENT])[:-2] + b"x: ", b"a" * MIB),
    "trailer": (head(headers=[CONTENT, CHUNKED]) + b"0\r\nx: ", b"a" * MIB),
    "trailers": (head(headers=[CONTENT, CHUNKED]) + b"0\r\n", b"x: abcdefghijkl\r\n" * 65536),
    "small chunks": (head(headers=[CONTENT, CHUNKED]), b"2\r\n  \r\n" * 150_000),
}


@pytest.mark.parametrize("name", FLOODS)
def test_no_flood_takes_memory(service: Served, name: str) -> None:
    begin, piece = FLOODS[name]
    clear = pathlib.Path(f"/proc/{service.process.pid}/clear_refs")
    for path in ROUTES:
        if not clear.exists():
            pytest.skip("this system does not tell the memory of a process")
        clear.write_text("5", encoding="ascii")
        before = peak(service)
        with Talk(service.port) as talk:
            talk.send(begin.replace(b"/count", path.encode()))
            assert talk.flood(piece, 64 * MIB) < 64 * MIB
        assert status(service, "/healthz") == 200
        assert peak(service) - before < 24 * MIB, path


UNFINISHED = {
    "nothing": b"",
    "a head": post()[:30],
    "a body that is held back": post()[:-3],
    "a body, chunked": post_chunked()[:-9],
    "the rest of a body": head(path="/nothing", headers=[HUGE]),
    "what is swallowed": b"hello\r\n\r\n",
    "an upload that is refused": head(headers=[CONTENT, HUGE]),
}


@pytest.mark.parametrize("drain", ["0", "0.2"])
def test_no_client_holds_the_exit(artifacts: pathlib.Path, drain: str) -> None:
    """Each with a connection of its own, which it does not close; there is one answer to read."""
    variables = {"TOKENIZER_DRAIN_SECONDS": drain, "TOKENIZER_SHUTDOWN_SECONDS": "0.3"}
    with (
        serving(artifacts, variables=variables) as service,
        contextlib.ExitStack() as stack,
    ):
        talks = [stack.enter_context(Talk(service.port)) for _ in UNFINISHED]
        for talk, data in zip(talks, UNFINISHED.values(), strict=True):
            talk.send(data)
        assert [talk.answer().status for talk in talks[4:]] == [404, 400, 413]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(STOP_SECONDS) == 0
        assert {talk.ends() for talk in talks} == {b""}, "what the client did not finish is no 5xx"
        assert '"level":"error"' not in service.log()


def test_a_held_request_is_answered_when_its_rest_comes_in_time(artifacts: pathlib.Path) -> None:
    """It was begun before the stop: it is work that was taken."""
    variables = {"TOKENIZER_DRAIN_SECONDS": "0", "TOKENIZER_SHUTDOWN_SECONDS": FOR_EVER}
    with serving(artifacts, variables=variables) as service, Talk(service.port) as talk:
        assert talk.send(post()).answer().status == 200
        talk.send(post()[: -len(COUNT)], COUNT[:5])
        # The server has read it when it has answered what was sent later.
        for _ in range(20):
            assert status(service, "/healthz") == http.client.OK
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: status(service, "/healthz") is None)
        answer = talk.send(COUNT[5:]).answer()
        assert (answer.status, answer.json["count"]) == (200, 1)
        assert answer.headers["connection"] == "close"
        assert service.process.wait(STOP_SECONDS) == 0
