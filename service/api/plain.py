"""The short way of the requests that are nearly all: one literal text, and nothing else asked.

It gives the answers of operations/count.py and operations/encode.py, which a test compares over
every kind of text; what it leaves out is choosing between what nobody chose. A request that it
does not take, for whatever reason, goes the long way, which knows the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from service.api import id_arrays
from service.api.codec import JSON
from service.api.operations import clock
from service.api.plain_bodies import BODIES, FORMS, Worked
from service.api.texts import SPELLINGS_COUNTED_CHARACTERS
from service.core.faults import is_fault
from service.core.tokenizer import GivesBuffers, GivesSlices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.api.plain_bodies import Form
    from service.catalog.catalog import Catalog, Entry
    from service.core.tokenizer import Tokenizer
    from service.metrics import Metrics
    from service.settings import Settings

INLINE_BODY_BYTES = 16 * 1024
"""Larger bodies are worked on in the engine thread. A hop to it costs 15 to 50 us: half of the
work at 200 bytes, under a tenth from 16 KiB on, where inline work would hold the loop for 1 ms."""

QUICK_INLINE_BODY_BYTES = 64 * 1024
"""The same for texts of which a tokenizer says that they are quick. The fast engine has done 50 KB
in 0.1 ms, SentencePiece in 1.3 ms; the way through the thread takes 0.3 ms."""

_GLANCE_BYTES = 256
_HEAD_BYTES, _TEXT_BYTES = 128, 4096
"""Between them a long body has nothing but text."""

_NAME = re.compile(rb'"tokenizer"\s*:\s*"([ -!#-\[\]-~]+)"')
"""A tokenizer's name as it stands in JSON without escapes."""

_UTF8_BYTES_OF_A_CHARACTER = 4
"""At most; a shorter text need not be measured before it is worked on."""


class Answered(NamedTuple):
    """An answer, and what the event loop is to note of it: metrics have one writer a process."""

    body: bytes
    record: Callable[[float, int, int, int, int], None]
    seconds: float
    tokens: int
    text_bytes: int
    spellings: int
    unknown: int

    def note(self) -> None:
        """Note the work in the metrics."""
        self.record(self.seconds, self.tokens, self.text_bytes, self.spellings, self.unknown)


class _Way:
    """One operation with one tokenizer, everything that never changes at hand."""

    __slots__ = (
        "_body",
        "_buffers",
        "_limit",
        "_record",
        "_slices",
        "_spellings",
        "_work",
        "_work_of_buffers",
    )

    def __init__(
        self, operation: str, entry: Entry, limit: int, metrics: Metrics, media_type: str
    ) -> None:
        form = FORMS[media_type]
        tokenizer = entry.tokenizer
        self._work, self._work_of_buffers = _WORKS[operation](tokenizer, form)
        self._buffers = tokenizer if isinstance(tokenizer, GivesBuffers) else None
        slices = tokenizer if isinstance(tokenizer, GivesSlices) else None
        self._slices = slices if slices is not None and slices.cuts else None
        self._body = BODIES[media_type](operation, entry)
        self._limit = limit
        self._record = metrics.recorder(operation, entry.name)
        self._spellings = entry.spellings

    @property
    def may_be_quick(self) -> bool:
        """Whether there are texts that `is_quick` takes."""
        return self._buffers is not None and self._buffers.quick

    @property
    def may_be_cut(self) -> bool:
        """Whether there are long texts that can be done a little at a time."""
        return self._slices is not None

    def is_quick(self, text: str, at_most: int) -> bool:
        """Whether this text of at most so many bytes may hold the event loop."""
        return self._buffers is not None and self._buffers.is_quick(text, at_most)

    def answer(self, text: str, within: float | None) -> Answered | None:
        """The answer, or None where the long way has more to say or it takes longer."""
        limit = self._limit
        if len(text) * _UTF8_BYTES_OF_A_CHARACTER > limit and _utf8_bytes(text) > limit:
            return None
        special = self._spellings.count(text[:SPELLINGS_COUNTED_CHARACTERS])
        started = clock()
        try:
            worked = self._work(text) if within is None else self._worked_within(text, within)
        except BaseException as error:
            if not is_fault(error):
                raise
            return None
        if worked is None:
            return None
        seconds = clock() - started
        tokens, unknown, _ = worked
        # Measured only now: the library has left the text's UTF-8 beside it, or it is ASCII.
        text_bytes = _utf8_bytes(text)
        body = self._body(worked, text_bytes)
        return Answered(body, self._record, seconds, tokens, text_bytes, special, unknown)

    def _worked_within(self, text: str, seconds: float) -> Worked | None:
        buffers = None if self._slices is None else self._slices.buffers_within(text, seconds)
        return None if buffers is None else self._work_of_buffers(buffers)


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class _Works(NamedTuple):
    """What an operation does with a text, and with the ids of one in buffers."""

    of_text: Callable[[str], Worked]
    of_buffers: Callable[[Sequence[bytes]], Worked]


def _counting(tokenizer: Tokenizer, _: Form) -> _Works:
    unknown_id = tokenizer.unknown_id
    buffers = tokenizer if isinstance(tokenizer, GivesBuffers) else None

    def of_buffers(parts: Sequence[bytes]) -> Worked:
        unknown = 0
        if unknown_id is not None:
            unknown = sum(id_arrays.occurrences(part, unknown_id) for part in parts)
        return Worked(sum(map(id_arrays.number_of, parts)), unknown, b"")

    def of_text(text: str) -> Worked:
        if unknown_id is None:
            return Worked(tokenizer.count(text), 0, b"")
        buffer = None if buffers is None else buffers.encode_buffer(text)
        if buffer is not None:
            return of_buffers([buffer])
        ids = tokenizer.encode(text)
        return Worked(len(ids), ids.count(unknown_id), b"")

    return _Works(of_text, of_buffers)


def _encoding(tokenizer: Tokenizer, form: Form) -> _Works:
    unknown_id = tokenizer.unknown_id
    buffers = tokenizer if isinstance(tokenizer, GivesBuffers) else None

    def of_buffers(parts: Sequence[bytes]) -> Worked:
        buffer = b"".join(parts)
        unknown = 0 if unknown_id is None else id_arrays.occurrences(buffer, unknown_id)
        return Worked(id_arrays.number_of(buffer), unknown, form.ids(buffer))

    def of_text(text: str) -> Worked:
        buffer = None if buffers is None else buffers.encode_buffer(text)
        if buffer is not None:
            return of_buffers([buffer])
        ids = tokenizer.encode(text)
        unknown = 0 if unknown_id is None else ids.count(unknown_id)
        return Worked(len(ids), unknown, form.value(ids))

    return _Works(of_text, of_buffers)


_WORKS = {"count": _counting, "encode": _encoding}
"""Operation to what it does with a tokenizer and a text."""


class ShortWays:
    """The short ways of one operation, by every name and alias of a tokenizer."""

    def __init__(
        self, operation: str, catalog: Catalog, settings: Settings, metrics: Metrics
    ) -> None:
        self._ways = {
            media_type: _ways(operation, catalog, settings, metrics, media_type)
            for media_type in FORMS
        }

    def answer(
        self,
        body: bytes | memoryview,
        media_type: str = JSON,
        *,
        inline: bool = False,
        within: float | None = None,
    ) -> Answered | None:
        """The answer to a body, in its own media type; None for one that goes the long way.

        `inline`: the event loop waits, and what takes long is not done. `within`: nor is a text
        that takes longer than so many seconds.
        """
        is_long = inline and len(body) > INLINE_BODY_BYTES
        if is_long and not self._may_be_quick(body, media_type, is_cut=within is not None):
            return None
        try:
            request = FORMS[media_type].read(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        way = self._ways[media_type].get(request.tokenizer)
        if way is None or (is_long and not way.is_quick(request.text, len(body))):
            return None
        return way.answer(request.text, within)

    def _may_be_quick(self, body: bytes | memoryview, media_type: str, *, is_cut: bool) -> bool:
        """Whether it names a tokenizer that is quick, as far as a glance tells.

        Reading a long body takes as long as counting its tokens, and is not to be done twice.
        """
        if is_cut and not bytes(body[_HEAD_BYTES:_TEXT_BYTES]).isascii():
            return False
        if media_type != JSON:  # of which that is not true
            return True
        named = _NAME.search(body[:_GLANCE_BYTES]) or _NAME.search(body[-_GLANCE_BYTES:])
        way = self._ways[JSON].get(named[1].decode()) if named else None
        return way is not None and (way.may_be_cut if is_cut else way.may_be_quick)


def short_ways(
    operations: Iterable[str], catalog: Catalog, settings: Settings, metrics: Metrics
) -> dict[str, ShortWays]:
    """The short ways of each operation, by its name."""
    return {name: ShortWays(name, catalog, settings, metrics) for name in operations}


def _ways(
    operation: str, catalog: Catalog, settings: Settings, metrics: Metrics, media_type: str
) -> Mapping[str, _Way]:
    ways: dict[str, _Way] = {}
    if operation in _WORKS:
        for entry in catalog:
            way = _Way(operation, entry, settings.max_text_bytes, metrics, media_type)
            ways |= dict.fromkeys((entry.name, *entry.artifact.aliases), way)
    return ways
