"""The short way of the requests that are nearly all: one literal text, and nothing else asked.

It gives the answers of operations/count.py and operations/encode.py to the byte, which a test
compares over every kind of text; what it leaves out is choosing between what nobody chose. A
request that it does not take, for whatever reason, goes the long way, which knows the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from service.api.operations import clock
from service.api.texts import SPELLINGS_COUNTED_CHARACTERS
from service.core.faults import is_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.catalog.catalog import Catalog, Entry
    from service.core.tokenizer import Tokenizer
    from service.metrics import Metrics
    from service.settings import Settings

_JSON = msgspec.json.Encoder().encode


class _PlainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The whole of a request that goes the short way."""

    tokenizer: str
    text: str


_READ = msgspec.json.Decoder(_PlainRequest).decode


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

    __slots__ = ("_limit", "_record", "_spellings", "_tail", "_work")

    def __init__(self, operation: str, entry: Entry, limit: int, metrics: Metrics) -> None:
        self._work = _WORKS[operation](entry.tokenizer)
        self._limit = limit
        self._record = metrics.recorder(operation, entry.name)
        self._spellings = entry.spellings
        head = {
            "tokenizer": entry.name,
            "fingerprint": entry.fingerprint,
            "special_policy": "literal",
            "add_special_tokens": False,
        }
        self._tail = b"," + _JSON(head)[1:]

    def answer(self, text: str) -> Answered | None:
        """The JSON answer, or None where the long way has more to say."""
        text_bytes = len(text) if text.isascii() else len(text.encode())
        if text_bytes > self._limit:
            return None
        spellings = self._spellings
        special = (
            spellings.count(text[:SPELLINGS_COUNTED_CHARACTERS]) if spellings.may_hold(text) else 0
        )
        started = clock()
        try:
            begin, tokens, unknown = self._work(text, text_bytes)
        except BaseException as error:
            if not is_fault(error):
                raise
            return None
        seconds = clock() - started
        body = b'%b,"special_tokens_added":0,"unknown_tokens":%d%b' % (begin, unknown, self._tail)
        return Answered(body, self._record, seconds, tokens, text_bytes, special, unknown)


def _counting(tokenizer: Tokenizer) -> Callable[[str, int], tuple[bytes, int, int]]:
    unknown_id = tokenizer.unknown_id

    def work(text: str, text_bytes: int) -> tuple[bytes, int, int]:
        if unknown_id is None:
            count, unknown = tokenizer.count(text), 0
        else:
            ids = tokenizer.encode(text)
            count, unknown = len(ids), ids.count(unknown_id)
        ratio = _JSON(count / text_bytes) if text_bytes else b"null"
        begin = b'{"count":%d,"bytes":%d,"tokens_per_byte":%b' % (count, text_bytes, ratio)
        return begin, count, unknown

    return work


def _encoding(tokenizer: Tokenizer) -> Callable[[str, int], tuple[bytes, int, int]]:
    unknown_id = tokenizer.unknown_id

    def work(text: str, text_bytes: int) -> tuple[bytes, int, int]:
        ids = tokenizer.encode(text)
        unknown = 0 if unknown_id is None else ids.count(unknown_id)
        begin = b'{"ids":%b,"count":%d,"bytes":%d' % (_JSON(ids), len(ids), text_bytes)
        return begin, len(ids), unknown

    return work


_WORKS = {"count": _counting, "encode": _encoding}
"""Operation to what it does with a tokenizer: (text, its bytes) to the beginning of its answer,
the number of its ids, and that of the unknown ones."""


class ShortWays:
    """The short ways of one operation, by every name and alias of a tokenizer."""

    def __init__(
        self, operation: str, catalog: Catalog, settings: Settings, metrics: Metrics
    ) -> None:
        self._ways: dict[str, _Way] = {}
        if operation in _WORKS:
            for entry in catalog:
                way = _Way(operation, entry, settings.max_text_bytes, metrics)
                self._ways |= dict.fromkeys((entry.name, *entry.artifact.aliases), way)

    def answer(self, body: bytes) -> Answered | None:
        """The JSON answer to a JSON body, or None for one that goes the long way."""
        try:
            request = _READ(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        way = self._ways.get(request.tokenizer)
        return None if way is None else way.answer(request.text)
