"""Two servers that have to give the same: one with the quick way, one without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.settings import Settings
from tests.server.talking import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog
    from tests.server.talking import Answer, Running


class Ways:
    """Two servers over one catalog: one with the quick way, one that asks the door for all."""

    def __init__(self, quick: Running, door: Running) -> None:
        self.quick, self.door = quick, door

    def same(self, *parts: bytes, answers: int = 1, has_body: bool = True) -> list[Answer]:
        """The answers to what is sent on one connection, the same from both."""
        with self.quick.talk() as quick, self.door.talk() as door:
            quick.send(*parts)
            door.send(*parts)
            ours = [quick.answer(has_body=has_body) for _ in range(answers)]
            theirs = [door.answer(has_body=has_body) for _ in range(answers)]
        assert [answer.lasting for answer in ours] == [answer.lasting for answer in theirs]
        return ours

    def quickly(self, *parts: bytes, answers: int = 1) -> list[Answer]:
        """As `same`, where it has to be the quick way that gives the first."""
        before = self.quick.quick_answers
        given = self.same(*parts, answers=answers)
        assert self.quick.quick_answers > before
        return given

    def slowly(self, *parts: bytes, has_body: bool = True) -> Answer:
        """As `same`, where it has to be the door that answers both."""
        before = self.quick.quick_answers
        (answer,) = self.same(*parts, has_body=has_body)
        assert self.quick.quick_answers == before
        return answer


def both(catalog: Catalog, **settings: Any) -> Iterator[Ways]:
    of = Settings(log_requests="off", **settings)
    with running(catalog, of) as quick, running(catalog, of) as door:
        door.app.quick.limit = door.app.quick.long_limit = -1
        yield Ways(quick, door)
        assert door.quick_answers == 0
