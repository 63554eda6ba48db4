"""Text that remembers who wrote each of its characters while a template works on it.

A Traced behaves as the str that it is, so a template that looks into a text decides as it would
without tracing. What a template does with texts (joining, slicing, trimming, splitting,
replacing) carries the writers along; what it does otherwise gives a str whose writer is UNKNOWN,
which is never taken for the template's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TEMPLATE = b"t"
"""Written by the pinned template, or one of the tokenizer's own token names."""
USER = b"u"
"""Written by the caller."""
ROLE = b"r"
"""A message's role: the caller's, but of a restricted alphabet."""
UNKNOWN = b"?"
"""Came out of an operation that is not traced."""


class Traced(str):  # noqa: SLOT000 - str allows no slots that hold values
    """A str with one writer a character."""

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
        return Traced(str.__mul__(self, times), self.writers * times.__index__())

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> Traced:
        if isinstance(key, slice):
            return Traced(str.__getitem__(self, key), self.writers[key])
        place = key.__index__()
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
            return Traced(str.replace(self, old, new, count), None)
        return join(self.split(old, count), new)

    def join(self, parts: Iterable[str], /) -> Traced:
        return join(parts, self)

    def lower(self) -> Traced:
        return self._same_length(str.lower(self))

    def upper(self) -> Traced:
        return self._same_length(str.upper(self))

    def title(self) -> Traced:
        return self._same_length(str.title(self))

    def capitalize(self) -> Traced:
        return self._same_length(str.capitalize(self))

    def _same_length(self, changed: str) -> Traced:
        """A text whose characters are each one of this text's, if it is as long."""
        same = len(changed) == len(self)
        return Traced(changed, self.writers if same else UNKNOWN * len(changed))


def writers_of(text: object) -> bytes:
    """The writers of a text: unknown for one that is not traced."""
    if isinstance(text, Traced):
        return text.writers
    return UNKNOWN * len(text) if isinstance(text, str) else b""


def join(parts: Iterable[object], separator: str = "") -> Traced:
    """`separator.join(map(str, parts))` with the writers."""
    texts = [str(part) for part in parts]
    return Traced(
        str.join(separator, texts), writers_of(separator).join(writers_of(text) for text in texts)
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
    *,
    ensure_ascii: bool,
    indent: int | str | None,
    separators: tuple[str, str] | None,
    sort_keys: bool,
) -> Traced:
    """`json.dumps` with the writers of strings; its own punctuation is the template's."""
    options: dict[str, Any] = {
        "ensure_ascii": ensure_ascii,
        "indent": indent,
        "separators": separators,
        "sort_keys": sort_keys,
    }
    # The pure Python encoder gives one chunk a string, in the order of the text.
    strings = iter(_strings(value, sort_keys=sort_keys))
    chunks: list[object] = []
    for chunk in json.JSONEncoder(**options).iterencode(value):
        start = chunk.find('"')
        if start < 0:
            chunks.append(_own(chunk))
            continue
        written = writers_of(next(strings, ""))
        writer = written[:1] if written and written == written[:1] * len(written) else UNKNOWN
        end = chunk.rindex('"') + 1
        chunks += [_own(chunk[:start]), Traced(chunk[start:end], writer * (end - start))]
        chunks.append(_own(chunk[end:]))
    return join(chunks)


def _own(text: str) -> Traced:
    return Traced(text, TEMPLATE * len(text))


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
