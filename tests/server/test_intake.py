"""Long bodies, which are read straight into their place: whole, in parts, and given up."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest

from service.server.held import LONG_BYTES
from service.settings import Settings
from tests.server.talking import TEXT, of_size, post, running
from tests.server.unplugged import BODY, SETTINGS, connect
from tests.server.ways import both

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog
    from tests.server.talking import Running
    from tests.server.unplugged import Connection
    from tests.server.ways import Ways

LONG = post(of_size(400_000))
PACKED = {"content-type": "application/msgpack", "accept": "application/msgpack"}


@pytest.fixture(scope="module")
def ways(catalog: Catalog) -> Iterator[Ways]:
    yield from both(catalog)


def parts_of(data: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - parts, no secrets
    places = sorted(chance.sample(range(1, len(data)), 7))
    return [
        data[first:last] for first, last in zip([0, *places], [*places, len(data)], strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_any_size_are_what_was_sent(
    runner: asyncio.Runner, connection: Connection, seed: int
) -> None:
    text = "".join(random.Random(seed).choices("abc \u00e9\u4e00", k=200_000))  # noqa: S311
    body = msgspec.json.encode({"tokenizer": "gpt2", "text": text})
    for part in parts_of(post(body, "/encode"), seed):
        connection.send(part)

    answer = msgspec.json.decode(runner.run(connection.answered()).partition(b"\r\n\r\n")[2])
    assert answer["bytes"] == len(text.encode())
    assert connection.protocol.held is None


@pytest.mark.parametrize("size", [LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 1, 16 * LONG_BYTES])
def test_the_head_first_and_the_body_later(ways: Ways, size: int) -> None:
    """As most clients send it. Another request on the same connection comes right behind it."""
    request = post(of_size(size))
    start = request.index(b"\r\n\r\n") + 4
    for parts in (
        [request[:start], request[start:] + post()],
        [request[:-1], request[-1:] + post()],
    ):
        first, second = ways.same(*parts, answers=2)
        assert first.json["bytes"] > second.json["bytes"]


def test_messagepack(ways: Ways) -> None:
    body = msgspec.msgpack.encode({**TEXT, "text": "hi " * 100_000})
    (answer,) = ways.same(*parts_of(post(body, more=PACKED), 1))
    assert msgspec.msgpack.decode(answer.body)["count"] == 100_000


def test_a_longer_text_that_can_not_be_read_is_told_so(ways: Ways) -> None:
    body = of_size(400_000)
    for wrong in (body[:-1] + b"]", body.replace(b"hi hi", b"hi \xff", 1)):
        (answer,) = ways.same(*parts_of(post(wrong), 2))
        assert answer.json["code"] in {"malformed_body", "invalid_unicode"}


def test_its_deadline_moves_with_every_part(connection: Connection) -> None:
    connection.send(LONG[:100_000])
    for _ in range(3):
        assert not connection.after(BODY - 1)
        connection.send(b"x")
    connection.lasts(BODY)


def test_a_process_that_stops_goes_on_with_it_in_the_usual_way(
    runner: asyncio.Runner, connection: Connection
) -> None:
    """What was taken is what the parser has to know of: no byte twice, none left out."""
    connection.send(LONG[:100_000])
    connection.send(LONG[100_000:200_000])
    assert connection.protocol.held is not None
    connection.protocol.begin()
    assert connection.protocol.held is None
    assert len(connection.protocol.cycle.body) == 200_000 - LONG.index(b"\r\n\r\n") - 4
    connection.send(LONG[200_000:])

    assert b'"count":133' in runner.run(connection.answered())
    connection.send(post())
    assert connection.answers() == 2
    assert not connection.transport.ended


def test_all_together_are_bounded(catalog: Catalog) -> None:
    settings = Settings(log_requests="off", max_pending_bytes=300_000)
    with running(catalog, settings) as server, server.talk() as first, server.talk() as second:
        first.send(LONG[:100_000])
        first.send(LONG[100_000:200_000])
        works(server, 190_000)
        second.send(LONG[:100_000])
        second.send(LONG[100_000:250_000])
        answer = second.answer()
        assert (answer.status, answer.json["code"]) == (503, "overloaded")
        first.send(LONG[200_000:])
        assert first.answer().status == 200
        works(server, 0)


def test_what_is_whole_is_not_refused_for_others(runner: asyncio.Runner, catalog: Catalog) -> None:
    """Its last part is here, and goes on to wait as work.

    The parser never saw it: what follows on the connection is a request of its own.
    """
    settings = msgspec.structs.replace(SETTINGS, max_pending_bytes=300_000)
    connection = runner.run(connect(catalog, settings))
    connection.protocol._rules.uploads.grow(200_000, 0)  # of others
    request = post(of_size(200_000))
    connection.send(request[:80_000])
    connection.send(request[80_000:])
    assert b'"count":' in runner.run(connection.answered())
    connection.send(post())
    assert connection.answers() == 2


def test_a_client_that_leaves_holds_nothing(catalog: Catalog) -> None:
    with running(catalog, Settings(log_requests="off")) as server:
        with server.talk() as talk:
            talk.send(LONG[:300_000])
            works(server, 290_000)
        works(server, 0)


def works(server: Running, held: int) -> None:
    """Wait until so many bytes are held, give or take a head."""
    for _ in range(100):
        server.works()
        if 0 <= server.app.engine.uploads.bytes - held < 10_000:
            return
    pytest.fail(f"{server.app.engine.uploads.bytes} bytes")


def test_no_memory_is_taken_for_what_is_only_announced(
    runner: asyncio.Runner, catalog: Catalog
) -> None:
    """A head that announces 1 GiB, from a hundred clients."""
    settings = msgspec.structs.replace(SETTINGS, max_body_bytes=1 << 30)
    start = post(b"").replace(b"content-length: 0", b"content-length: %d" % (1 << 30))

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file of ours
            return int(file.read().split()[1]) * 4096

    before = resident()
    connections = [runner.run(connect(catalog, settings)) for _ in range(20)]
    for each in connections:
        each.send(start)
        assert each.protocol.held is not None
        assert len(each.protocol.held.room) == 1 << 30
    assert resident() - before < 100 * 1024 * 1024
