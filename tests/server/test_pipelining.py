"""Requests that arrive together: answered in order, whichever way each of them goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.catalog.loading import load_catalog
from tests.server.talking import head, of_size, post
from tests.server.ways import both

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from tests.server.ways import Ways


@pytest.fixture(scope="module")
def ways(artifacts: pathlib.Path) -> Iterator[Ways]:
    yield from both(load_catalog(artifacts))


KINDS = {
    "quick": post(),
    "door": post(more={"accept": "*/*;q=1"}),
    "engine": post(of_size(100_000)),
    "refused": post(b"{"),
    "page": head("GET", "/healthz", ()),
}


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_requests_at_once_are_answered_in_order(ways: Ways, first: str, second: str) -> None:
    kinds = (first, second, "quick", first, second)
    marked = [
        KINDS[kind].replace(b"\r\n", b"\r\nx-request-id: number-%d\r\n" % number, 1)
        for number, kind in enumerate(kinds)
    ]
    answers = ways.same(b"".join(marked), answers=5)
    assert [answer.headers["x-request-id"] for answer in answers] == [
        f"number-{number}" for number in range(5)
    ]


def test_of_many_at_once_one_is_answered_before_others_take_their_turn(ways: Ways) -> None:
    """A client that sends a thousand requests at once does not hold the loop for all of them."""
    before = ways.quick.quick_answers
    with ways.quick.talk() as talk:
        talk.send(post() * 300)
        assert {talk.answer().status for _ in range(300)} == {200}
    assert ways.quick.quick_answers - before < 100
