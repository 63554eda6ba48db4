"""What a client may keep a connection waiting for, and how long: with a clock of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.catalog.loading import load_catalog
from service.settings import Settings
from tests.server.talking import COUNT, head, post, post_chunked, running
from tests.server.unplugged import BODY, FIRST, HEAD, KEPT, connect

if TYPE_CHECKING:
    import asyncio
    import pathlib

    from service.catalog.catalog import Catalog
    from tests.server.unplugged import Connection


@pytest.fixture(scope="module")
def catalog(artifacts: pathlib.Path) -> Catalog:
    return load_catalog(artifacts)


SLOWLY = head("GET", "/slowly", ())
UPLOAD = head(headers=[("content-type", "application/json"), ("content-length", "1000")])


def test_before_a_first_request(connection: Connection) -> None:
    connection.lasts(FIRST)


def test_a_head_from_its_first_byte_on(connection: Connection) -> None:
    connection.after(FIRST - 1)
    connection.send(b"POST /")
    for _ in range(5):
        assert not connection.after(2)
        connection.send(b"a")
    connection.lasts(HEAD - 10)


def test_blank_lines_are_no_head(connection: Connection) -> None:
    for _ in range(5):
        assert not connection.after(2)
        connection.send(b"\r\n")
    connection.lasts(FIRST - 10)


def test_blank_lines_keep_no_connection(connection: Connection) -> None:
    connection.send(post())
    for _ in range(5):
        assert not connection.after(2)
        connection.send(b"\r\n")
    connection.lasts(KEPT - 10)


@pytest.mark.parametrize("upload", [UPLOAD, post_chunked()[:-40]], ids=["length", "chunked"])
@pytest.mark.parametrize("path", [b"/count", b"/count?x", b"/healthz"])
def test_a_body_lasts_while_it_comes(
    runner: asyncio.Runner, connection: Connection, upload: bytes, path: bytes
) -> None:
    whole = upload.replace(b"/count", path)
    for part in (whole[:10], whole[10:]):
        connection.send(part)
    runner.run(connection.turn())
    piece = b" " if upload is UPLOAD else b"1\r\n \r\n"
    for _ in range(20):
        assert not connection.after(BODY - 1)
        connection.send(piece)
    connection.lasts(BODY)


def test_a_held_body_that_stops(connection: Connection) -> None:
    connection.send(UPLOAD)
    connection.lasts(BODY)


@pytest.mark.parametrize("accept", ["*/*", "*/*;q=1"], ids=["quick", "door"])
def test_between_two_requests(runner: asyncio.Runner, connection: Connection, accept: str) -> None:
    for number in range(1, 4):
        connection.send(post(more={"accept": accept}))
        runner.run(connection.turn())
        assert connection.answers() == number
        assert not connection.after(KEPT - 1)
    connection.lasts(1)


def test_our_own_work_has_no_deadline(runner: asyncio.Runner, connection: Connection) -> None:
    connection.send(SLOWLY)
    runner.run(connection.turn())
    assert not connection.after(1e9)
    connection.finish.set()
    runner.run(connection.turn())
    assert connection.answers() == 1
    connection.lasts(KEPT)


@pytest.mark.parametrize("times", [1, 3], ids=["one", "pipelined"])
def test_a_client_that_reads_no_answer(
    runner: asyncio.Runner, connection: Connection, times: int
) -> None:
    connection.transport.unread = 100_000
    connection.intake.pause_writing()
    connection.send(post() * times)
    runner.run(connection.turn())
    assert connection.answers() == 0
    connection.lasts(KEPT)
    connection.lose()
    runner.run(connection.turn())
    assert connection.answers() == 0


def test_a_client_that_reads_slowly(runner: asyncio.Runner, connection: Connection) -> None:
    connection.send(SLOWLY)
    runner.run(connection.turn())
    connection.transport.unread = 100_000
    connection.intake.pause_writing()
    connection.finish.set()
    runner.run(connection.turn())
    for _ in range(5):
        assert not connection.after(KEPT - 0.5)
        connection.transport.unread -= 1
        assert not connection.after(1)
    connection.intake.resume_writing()
    runner.run(connection.turn())
    assert connection.answers() == 1
    connection.lasts(KEPT)


MORE = {
    "a whole request": SLOWLY,
    "half a head": post()[:10],
    "half a body": post()[:-10],
    "garbage": b"garbage\r\n\r\n",
    "a head too large": head("GET", "/healthz", [("x", "a" * 2000)]),
    "half a head too large": b"GET /" + b"x" * 2000,
}


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "at once"])
def test_whatever_follows_an_answer_under_way_is_not_aborted(
    runner: asyncio.Runner, connection: Connection, name: str, *, apart: bool
) -> None:
    for data in (SLOWLY, MORE[name]) if apart else (SLOWLY + MORE[name],):
        connection.send(data)
        runner.run(connection.turn())
    for _ in range(10):
        assert not connection.after(100)
    assert connection.answers() == 0
    connection.finish.set()
    runner.run(connection.turn())
    assert connection.answers() == (2 if name == "a whole request" else 1)
    assert b"HTTP/1.1 4" not in connection.transport.written
    # How much of a head came with the end of another request, nobody knows before it is whole.
    closes = name in {"garbage", "a head too large"} or (apart and name == "half a head too large")
    assert connection.transport.ended == closes
    assert connection.after(KEPT * 2)


def test_a_second_request_has_its_own_time(runner: asyncio.Runner, connection: Connection) -> None:
    """The first answer is given, and the second is our own work, however short KEPT is."""
    connection.send(head("GET", "/healthz", ()) + SLOWLY)
    runner.run(connection.turn())
    assert connection.answers() == 1
    assert not connection.after(KEPT * 100)
    connection.finish.set()
    runner.run(connection.turn())
    assert connection.answers() == 2


def test_a_body_that_we_did_not_read_has_its_time_anew(
    runner: asyncio.Runner, connection: Connection
) -> None:
    """Reading is paused while a first answer is under way: the client can't help it."""
    connection.send(SLOWLY)
    runner.run(connection.turn())
    connection.send(post()[:-10])
    assert connection.transport.paused
    assert not connection.after(HEAD * 1.5)
    connection.finish.set()
    runner.run(connection.turn())
    assert not connection.after(BODY - 1)
    connection.send(post()[-10:])
    runner.run(connection.turn())
    assert connection.answers() == 2


def test_an_answer_that_nobody_reads_is_not_kept(
    runner: asyncio.Runner, connection: Connection
) -> None:
    connection.send(UPLOAD.replace(b"/count", b"/nothing"))
    runner.run(connection.turn())
    assert b"HTTP/1.1 404 " in connection.transport.written
    connection.lasts(BODY)


def test_nothing_is_answered_behind_a_rest_that_is_too_long(
    runner: asyncio.Runner, connection: Connection
) -> None:
    """The side that writes is closed by then."""
    rest = b" " * (64 * 1024 + 1)
    connection.send(head(path="/nothing", headers=[("content-length", str(len(rest)))]))
    runner.run(connection.turn())
    assert b"HTTP/1.1 404 " in connection.transport.written
    connection.send(rest + post() + post(more={"accept": "*/*;q=1"}) + b"garbage")
    runner.run(connection.turn())
    assert connection.transport.ended
    assert connection.transport.written.count(b"HTTP/1.1 ") == 1


def test_a_body_that_still_grows_is_not_copied_for_every_piece(
    runner: asyncio.Runner, catalog: Catalog
) -> None:
    """Adding to bytes copies them: chunks of two bytes would hold the loop for minutes."""
    settings = Settings(log_requests="off", max_body_bytes=100)
    connection = runner.run(connect(catalog, settings))
    connection.send(post_chunked(b" " * 1000, size=2)[:-100])
    assert isinstance(connection.protocol.cycle.body, bytearray)
    runner.run(connection.turn())
    assert b"HTTP/1.1 413 " in connection.transport.written


def test_nothing_is_kept_of_a_body_after_its_answer(connection: Connection) -> None:
    for _ in range(3):
        connection.send(post(COUNT + b" " * 10_000))
        assert connection.protocol.held is None


STATES: dict[str, list[bytes]] = {
    "idle": [],
    "header": [post()[:20]],
    "body_idle": [post()[:-5]],
    "keep_alive": [post()],
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("only", [True, False], ids=["its own", "all others"])
def test_each_setting_rules_its_own_state(catalog: Catalog, state: str, *, only: bool) -> None:
    """Over a real socket: its own short time closes it, and no other does."""
    names = {
        "idle": "idle_timeout_seconds",
        "header": "header_timeout_seconds",
        "body_idle": "body_idle_timeout_seconds",
        "keep_alive": "keep_alive_seconds",
    }
    seconds = {name: 0.05 if (key == state) is only else 3600.0 for key, name in names.items()}
    if state != "idle":
        seconds[names["idle"]] = 3600.0  # it rules until the first byte is there
    settings = Settings(log_requests="off", **seconds)  # type: ignore[arg-type]
    with running(catalog, settings) as server, server.talk() as talk:
        talk.send(*STATES[state])
        if state == "keep_alive":
            assert talk.answer().status == 200
        if only:
            assert talk.ends() == b""
        else:
            talk.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                talk.ends()
