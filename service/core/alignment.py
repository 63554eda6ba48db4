"""Where in the text each id comes from: offsets in three units, and places to cut between ids."""

from __future__ import annotations

import enum
import functools
import itertools
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from service.core.tokenizer import ControlSpan

_LEAD = bytes(0 if 0x80 <= byte < 0xC0 else 1 for byte in range(256))  # noqa: PLR2004 - RFC 3629
"""Translates UTF-8 to 1 where a code point begins and 0 inside one."""


class Unit(enum.Enum):
    """What offsets count."""

    CODEPOINT = "codepoint"
    BYTE = "byte"
    """Bytes of UTF-8."""
    UTF16 = "utf16"
    """UTF-16 code units, as JavaScript and Java index strings."""


class Offset(NamedTuple):
    """Half-open range of the original text."""

    start: int
    end: int


class Sizes:
    """The number of bytes of each id."""

    def __init__(
        self, ids: Collection[int], tokens: Iterable[bytes], others: Sizes | None = None
    ) -> None:
        """`tokens` are those of `ids`, in their order, `others` what is known of other ids.

        Takes 10 ms for 200,000 of them.
        """
        table: array[int] = array("I") if others is None else others.table[:]
        table.extend([0] * (max(ids, default=-1) + 1 - len(table)))
        for token_id, size in zip(ids, map(len, tokens), strict=True):
            table[token_id] = size
        self.table: array[int] = table
        self._size_of = table.__getitem__

    def of(self, ids: Iterable[int]) -> list[int]:
        """The numbers of bytes of `ids`."""
        return list(map(self._size_of, ids))


class Measure:
    """Converts code-point offsets of one text to another unit; cheap for offsets that rise."""

    def __init__(self, text: str, unit: Unit) -> None:
        self._text = text
        self._same = unit is Unit.CODEPOINT or text.isascii()
        self._encoding, self._width = ("utf-8", 1) if unit is Unit.BYTE else ("utf-16-le", 2)
        self._known = Offset(0, 0)

    def at(self, codepoint: int) -> int:
        """The offset in the unit of a code-point offset."""
        if self._same:
            return codepoint
        known, measured = self._known
        if codepoint >= known:
            between = self._text[known:codepoint]
            measured += len(between.encode(self._encoding)) // self._width
        else:
            between = self._text[codepoint:known]
            measured -= len(between.encode(self._encoding)) // self._width
        self._known = Offset(codepoint, measured)
        return measured


class Alignment(Protocol):
    """The content ids of a text and the part of the text behind each; offsets in code points."""

    ids: list[int]

    def offsets(self, unit: Unit) -> list[Offset]:
        """One range for each id. An id that ends inside a character covers that character."""
        ...

    def gap_after(self, index: int) -> Offset | None:
        """Where the text can be cut after the id at `index`; None where that is in a character.

        From where the ids up to there end to where the next one begins: the same place, unless a
        normalizer drops what is between.
        """
        ...

    def last_gap(self, index: int) -> int:
        """The last index up to this one with a gap after its id; -1 where there is none."""
        ...

    def gap_before(self, index: int) -> Offset | None:
        """The same before the id at `index`."""
        ...

    def first_from(self, offset: int) -> int:
        """Index of the first id that begins at or after a code-point offset."""
        ...

    def last_until(self, offset: int) -> int:
        """Index after the last id that ends at or before a code-point offset."""
        ...


class ByteAlignment:
    """Of ids whose bytes, joined, are the text: each id's range follows from its length."""

    def __init__(self, text: str, ids: list[int], sizes: Sequence[int]) -> None:
        """`sizes` are the numbers of bytes of the ids; they sum to those of the text."""
        self.ids = ids
        self._text = text
        self._ends = list(itertools.accumulate(sizes))
        self._ascii = text.isascii()
        self._leads = b"" if self._ascii else text.encode().translate(_LEAD)
        self._known = Offset(0, 0)

    def offsets(self, unit: Unit) -> list[Offset]:
        """See Alignment. In bytes the ranges are exact."""
        starts = [0, *self._ends][: len(self._ends)]
        if unit is Unit.BYTE or self._ascii:
            return [Offset(*pair) for pair in zip(starts, self._ends, strict=True)]
        measure = Measure(self._text, unit)
        return [
            Offset(measure.at(self._floor(start)), measure.at(self._ceiling(end)))
            for start, end in zip(starts, self._ends, strict=True)
        ]

    def gap_after(self, index: int) -> Offset | None:
        """See Alignment."""
        end = self._codepoint(self._ends[index])
        return None if end is None else Offset(end, end)

    def last_gap(self, index: int) -> int:
        """See Alignment. A character has a few ids at most."""
        while index >= 0 and self.gap_after(index) is None:
            index -= 1
        return index

    def gap_before(self, index: int) -> Offset | None:
        """See Alignment."""
        return self.gap_after(index - 1) if index else Offset(0, 0)

    def first_from(self, offset: int) -> int:
        """See Alignment."""
        # The id after one that ends at `offset` begins there.
        byte = self._byte(offset)
        return bisect_left(self._ends, byte) + 1 if byte else 0

    def last_until(self, offset: int) -> int:
        """See Alignment."""
        return bisect_right(self._ends, self._byte(offset))

    def _codepoint(self, byte: int) -> int | None:
        """The code point that begins at a byte; the cursor makes neighbouring questions cheap."""
        if self._ascii:
            return byte
        if byte < len(self._leads) and not self._leads[byte]:
            return None
        known, codepoint = self._known
        if byte >= known:
            codepoint += self._leads.count(1, known, byte)
        else:
            codepoint -= self._leads.count(1, byte, known)
        self._known = Offset(byte, codepoint)
        return codepoint

    def _byte(self, codepoint: int) -> int:
        if self._ascii:
            return codepoint
        byte, known = self._known
        if codepoint >= known:
            return byte + len(self._text[known:codepoint].encode())
        return byte - len(self._text[codepoint:known].encode())

    def _floor(self, byte: int) -> int:
        """The code point that begins at a byte or has it inside."""
        while (codepoint := self._codepoint(byte)) is None:
            byte -= 1
        return codepoint

    def _ceiling(self, byte: int) -> int:
        while (codepoint := self._codepoint(byte)) is None:
            byte += 1
        return codepoint


class RangeAlignment:
    """Of ids whose ranges the library tells, where a normalizer may have changed the text."""

    def __init__(self, text: str, ids: list[int], ranges: list[Offset]) -> None:
        self.ids = ids
        self._text = text
        self._ranges = ranges
        # Ranges may overlap (a character of several ids) or stand still, so cuts are looked for
        # in what has begun or ended so far.
        self._ends = list(itertools.accumulate((end for _, end in ranges), max))
        starts = itertools.accumulate((start for start, _ in reversed(ranges)), min)
        self._starts = list(starts)[::-1]

    @functools.cached_property
    def _last_gaps(self) -> list[int]:
        """What `last_gap` gives, by index."""
        found: list[int] = []
        last = -1
        for index in range(len(self.ids)):
            last = last if self.gap_after(index) is None else index
            found.append(last)
        return found

    def offsets(self, unit: Unit) -> list[Offset]:
        """See Alignment."""
        measure = Measure(self._text, unit)
        return [Offset(measure.at(start), measure.at(end)) for start, end in self._ranges]

    def gap_after(self, index: int) -> Offset | None:
        """See Alignment."""
        end = self._ends[index]
        following = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._text)
        return Offset(end, following) if following >= end else None

    def last_gap(self, index: int) -> int:
        """See Alignment. All ids of a text may hang together, so it is looked up."""
        return self._last_gaps[index]

    def gap_before(self, index: int) -> Offset | None:
        """See Alignment."""
        return self.gap_after(index - 1) if index else Offset(0, self._starts[0])

    def first_from(self, offset: int) -> int:
        """See Alignment."""
        return bisect_left(self._starts, offset)

    def last_until(self, offset: int) -> int:
        """See Alignment."""
        return bisect_right(self._ends, offset)


class MarkedText:
    """A text in which some spans are replaced by longer strings, and the way back."""

    def __init__(
        self, text: str, spans: Sequence[ControlSpan], replace: Callable[[str], str]
    ) -> None:
        """`replace` gives what stands for a spelling."""
        pieces: list[str] = []
        # (where a span ends in the marked text, how much longer the marked text is by then)
        self._shifts: list[tuple[int, int, int]] = []
        position = shift = 0
        for start, end, spelling in spans:
            stand_in = replace(spelling)
            pieces += (text[position:start], stand_in)
            marked_start = start + shift
            shift += len(stand_in) - (end - start)
            self._shifts.append((marked_start, marked_start + len(stand_in), shift))
            position = end
        pieces.append(text[position:])
        self.text = "".join(pieces)

    def marked(self, original: Offset) -> Offset:
        """The range of the marked text for one of the original that touches no replaced span."""
        which = bisect_right(self._shifts, original.start, key=lambda shift: shift[1] - shift[2])
        shift = self._shifts[which - 1][2] if which else 0
        return Offset(original.start + shift, original.end + shift)

    def original(self, marked: Offset) -> Offset:
        """The range of the original text for one of the marked text."""
        return Offset(self._back(marked.start), self._back(marked.end))

    def _back(self, offset: int) -> int:
        which = bisect_right(self._shifts, offset, key=lambda shift: shift[1])
        before = self._shifts[which - 1][2] if which else 0
        if which < len(self._shifts) and offset > self._shifts[which][0]:
            # Inside a replaced span, which only a token that is that span can be.
            return self._shifts[which][0] - before
        return offset - before
