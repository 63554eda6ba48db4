"""Text that remembers who wrote each of its characters while a template works on it.

A Traced behaves as the str that it is, so a template that looks into a text decides as it would
without tracing. What a template does with texts (joining, slicing, trimming, splitting,
replacing) carries the writers along, character by character. What it does otherwise gives a text
of the writer of all that it was made of; of several writers, UNKNOWN, which is never taken for
the template's.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TEMPLATE = b"t"
"""Written by the pinned template, or one of the tokenizer's own token names."""
USER = b"u"
"""Written by the caller."""
ROLE = b"r"
"""A message's role or a number: perhaps the caller's, but of a restricted alphabet."""
UNKNOWN = b"?"
"""Made of the texts of several writers by an operation that is not traced."""


class Traced(str):
    """A str with one writer a character."""

    __slots__ = ("writers",)

    writers: bytes
    """As long as the text: TEMPLATE, USER, ROLE or UNKNOWN for each character."""

    def __new__(cls, text: str, writers: bytes | None = None) -> Self:
        """A text; by default its writers are those it has, or unknown."""
        traced = super().__new__(cls, text)
        traced.writers = writers_of(text) if writers is None else writers
        return traced

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> Traced:
        return Traced(str.__add__(self, other), self.writers + writers_of(other))

    def __radd__(self, other: str) -> Traced:
        return Traced(str.__add__(other, self), writers_of(other) + self.writers)

    def __mul__(self, times: SupportsIndex) -> Traced:
        return Traced(str.__mul__(self, times), self.writers * operator.index(times))

    def __rmul__(self, times: SupportsIndex) -> Traced:
        return self * times

    def __getitem__(self, key: SupportsIndex | slice) -> Traced:
        if isinstance(key, slice):
            return Traced(str.__getitem__(self, key), self.writers[key])
        place = operator.index(key)
        return Traced(str.__getitem__(self, place), bytes([self.writers[place]]))

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))

    def strip(self, characters: str | None = None, /) -> Traced:
        return self.lstrip(characters).rstrip(characters)

    def lstrip(self, characters: str | None = None, /) -> Traced:
        return self[len(self) - len(str.lstrip(self, characters)) :]

    def rstrip(self, characters: str | None = None, /) -> Traced:
        return self[: len(str.rstrip(self, characters))]

    def removeprefix(self, prefix: str, /) -> Traced:
        start = len(prefix) if self.startswith(prefix) else 0
        return self[start:]

    def removesuffix(self, suffix: str, /) -> Traced:
        kept = len(self) - (len(suffix) if self.endswith(suffix) else 0)
        return self[:kept]

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._pieces(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._pieces(str.rsplit(self, sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - str's
        return self._pieces(str.splitlines(self, keepends))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, after = self._pieces(str.partition(self, sep), "")
        return before, found, after

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, after = self._pieces(str.rpartition(self, sep), "")
        return before, found, after

    def _pieces(self, pieces: Iterable[str], separator: str | None = None) -> list[str]:
        """The pieces that str found, in order, with the writers they have in this text.

        Without a separator, blanks or line ends stand between the pieces, and none is in one.
        """
        traced: list[str] = []
        position = 0
        for piece in pieces:
            start = self.index(piece, position) if separator is None else position
            traced.append(self[start : start + len(piece)])
            position = start + len(piece) + len(separator or "")
        return traced

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Traced:
        if not old:
            return made_of(str.replace(self, old, new, count), self, new)
        return join(self.split(old, count), new)

    def join(self, parts: Iterable[str], /) -> Traced:
        return join(parts, self)

    def lower(self) -> Traced:
        return self.recased(str.lower(self))

    def upper(self) -> Traced:
        return self.recased(str.upper(self))

    def title(self) -> Traced:
        return self.recased(str.title(self))

    def capitalize(self) -> Traced:
        return self.recased(str.capitalize(self))

    def recased(self, changed: str) -> Traced:
        """This text with other cases: each letter became one or more.

        Of a text as long, each is where it was.
        """
        if len(changed) == len(self):
            return Traced(changed, self.writers)
        return made_of(changed, self)


def writers_of(text: str) -> bytes:
    """The writers of a text: unknown for one that is not traced."""
    return text.writers if isinstance(text, Traced) else UNKNOWN * len(text)


def made_of(result: str, *values: object) -> Traced:
    """A text that an operation, which is not traced, made of these values."""
    return Traced(result, _writer_of_all(values) * len(result))


def _writer_of_all(values: Iterable[object]) -> bytes:
    """The one writer of all texts in the values; the text of a number alone is like a role."""
    found: set[bytes] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            written = writers_of(value)
            found.add(written[:1] if written == written[:1] * len(written) else UNKNOWN)
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif not (value is None or isinstance(value, bool | int | float)):
            return UNKNOWN
    found.discard(b"")
    return ROLE if not found else found.pop() if len(found) == 1 else UNKNOWN


def text_of(value: object) -> Traced:
    """`str(value)` with the writers."""
    return value if isinstance(value, Traced) else made_of(str(value), value)


def own(text: str) -> Traced:
    """A text that the template wrote."""
    return Traced(text, TEMPLATE * len(text))


def join(parts: Iterable[object], separator: str = "") -> Traced:
    """`separator.join(map(str, parts))` with the writers."""
    texts = [text_of(part) for part in parts]
    return Traced(
        str.join(separator, texts), writers_of(separator).join(each.writers for each in texts)
    )


def traced_values(value: Any, writer: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """A copy of a JSON value in which every string, keys included, has this writer."""
    if isinstance(value, str):
        return Traced(value, writer * len(value))
    if isinstance(value, dict):
        return {
            traced_values(key, writer): traced_values(item, writer) for key, item in value.items()
        }
    if isinstance(value, list):
        return [traced_values(item, writer) for item in value]
    return value


def traced_json(
    value: Any,  # noqa: ANN401 - any JSON value
    chunks: Iterable[str],
    *,
    sort_keys: bool,
) -> Traced:
    """The JSON of a value with the writers of strings; its punctuation is the template's.

    `chunks` are those of Python's JSONEncoder.iterencode: each holds one string at most, in the
    order of the text, and no other quotation marks.
    """
    strings = iter(_strings(value, sort_keys=sort_keys))
    texts: list[str] = []
    writers: list[bytes] = []
    for chunk in chunks:
        texts.append(chunk)
        start = chunk.find('"')
        if start < 0:
            writers.append(TEMPLATE * len(chunk))
            continue
        writer = _writer_of_all([next(strings)])
        end = chunk.rindex('"') + 1
        writers += (TEMPLATE * start, writer * (end - start), TEMPLATE * (len(chunk) - end))
    return Traced("".join(texts), b"".join(writers))


def _strings(value: Any, *, sort_keys: bool) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """The strings of a JSON value, keys included, in the order in which they are written."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in sorted(value.items()) if sort_keys else value.items():
            yield str(key)
            yield from _strings(item, sort_keys=sort_keys)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, sort_keys=sort_keys)
