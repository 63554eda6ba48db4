"""Cutting a text to a budget of tokens: slices of the text itself, each counted again alone.

Counts are not additive and prefix counts are not monotone (about one prefix in eight), so ids are
never cut and decoded, and no cut is believed before its slice was counted on its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from service.core.boundaries import cuts_before, words_from
from service.core.graphemes import Graphemes
from service.errors import BudgetTooSmall, TooManyItems

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.core.alignment import Alignment, Offset

_OVERLAP_TRIES = 8
"""How many places are counted for the start of an overlap before it comes out as none."""


class Slice(NamedTuple):
    """A slice of a text, in code points, and the content ids that it is when encoded alone."""

    start: int
    end: int
    tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How a text is to be chunked."""

    budget: int
    """Content ids that a chunk may be."""
    overlap: int
    """Content ids that a chunk may share with the one before it."""
    by_meaning: bool
    """Cut at the highest boundary in the last half of what fits, not at the brim."""
    max_chunks: int


class BudgetedText:
    """One text, its ids, and the search for slices that fit."""

    def __init__(
        self, text: str, alignment: Alignment, count: Callable[[str], int], budget: int
    ) -> None:
        """`count` gives the content ids of a slice alone, under the policy of the request."""
        self._text = text
        self._alignment = alignment
        self._count = count
        self._budget = budget
        self._graphemes = Graphemes(text)

    def first(self) -> Slice:
        """The longest beginning of whole ids and clusters that fits; empty when none does."""
        return self._fit(0) or self._cluster_at_start() or Slice(0, 0, 0)

    def last(self) -> Slice:
        """The longest end of whole ids and clusters that fits; empty when none does."""
        text, ids = self._text, self._alignment.ids
        for index in range(max(len(ids) - self._budget, 0), len(ids)):
            start = 0 if index == 0 else self._cut_in(self._alignment.gap_before(index))
            if start is not None:
                tokens = self._count(text[start:])
                if tokens <= self._budget:
                    return Slice(start, len(text), tokens)
        if not ids:
            return Slice(0, len(text), 0)
        return Slice(len(text), len(text), 0)

    def chunks(self, plan: Plan) -> list[Slice]:
        """Slices that cover the text in order.

        Raises BudgetTooSmall when one code point does not fit, TooManyItems past `max_chunks`.
        """
        chunks: list[Slice] = []
        start = 0
        while start < len(self._text):
            chunk = self._next(start, plan)
            if chunks and chunk.end <= chunks[-1].end:
                # The overlap left no room for anything new.
                chunk = self._next(chunks[-1].end, plan)
            chunks.append(chunk)
            if len(chunks) > plan.max_chunks:
                raise TooManyItems("chunks", plan.max_chunks)
            start = chunk.end
            if plan.overlap and start < len(self._text):
                start = self._overlap(chunk, plan)
        return chunks

    def _next(self, start: int, plan: Plan) -> Slice:
        rest = self._rest(start)
        if rest is not None:
            return rest
        cut = self._cut_by_meaning(start) if plan.by_meaning else None
        return cut or self._fit(start) or self._part_of_cluster(start)

    def _rest(self, start: int) -> Slice | None:
        """All that is left, if it fits."""
        first = self._alignment.first_from(start)
        if len(self._alignment.ids) - first > self._budget:
            return None
        tokens = self._count(self._text[start:])
        return Slice(start, len(self._text), tokens) if tokens <= self._budget else None

    def _cut_by_meaning(self, start: int) -> Slice | None:
        """A slice that ends at the highest boundary in the last half of what fits."""
        alignment = self._alignment
        last = min(alignment.first_from(start) + self._budget, len(alignment.ids)) - 1
        last = alignment.last_gap(last) if last >= 0 else -1
        gap = alignment.gap_after(last) if last >= 0 else None
        if gap is None or gap.end <= start:
            return None
        brim = gap.end
        middle = start + (brim - start) // 2
        for end in cuts_before(self._text, middle, brim):
            if self._graphemes.is_boundary(end):
                tokens = self._count(self._text[start:end])
                if tokens <= self._budget:
                    return Slice(start, end, tokens)
        return None

    def _fit(self, start: int, *, whole_clusters: bool = True) -> Slice | None:
        """The longest run of whole ids from `start` that fits when it is counted alone."""
        alignment, text = self._alignment, self._text
        first = alignment.first_from(start)
        count = len(alignment.ids)
        index = min(first + self._budget, count) - 1
        while index >= first:
            end: int | None = len(text)
            if index < count - 1:
                index = alignment.last_gap(index)
                if index < first:
                    break
                gap = alignment.gap_after(index)
                end = self._cut_in(gap) if whole_clusters else gap and gap.start
            index -= 1
            if end is None or end <= start:
                continue
            tokens = self._count(text[start:end])
            if tokens <= self._budget:
                return Slice(start, end, tokens)
        if first == count and self._count(text[start:]) == 0:
            return Slice(start, len(text), 0)
        return None

    def _cut_in(self, gap: Offset | None) -> int | None:
        """The first place in a gap between ids that cuts no cluster."""
        if gap is None or self._graphemes.is_boundary(gap.start):
            return None if gap is None else gap.start
        end = self._graphemes.end_after(gap.start)
        return end if end <= gap.end else None

    def _cluster_at_start(self) -> Slice | None:
        """The first cluster, which may fit although none of the text's ids ends with it."""
        end = self._graphemes.end_after(0) if self._text else 0
        tokens = self._count(self._text[:end])
        return Slice(0, end, tokens) if tokens <= self._budget else None

    def _part_of_cluster(self, start: int) -> Slice:
        """A cluster that does not end with any id, or as many of its code points as fit."""
        end = self._graphemes.end_after(start)
        ids = self._alignment.last_until(end) - self._alignment.first_from(start)
        # Counting a cluster of a megabyte again for each of its parts would never end.
        whole = self._counted(start, end) if ids <= 2 * self._budget else None
        part = whole or self._fit(start, whole_clusters=False) or self._counted(start, start + 1)
        if part is None:
            raise BudgetTooSmall("One code point of the text is more tokens than max_tokens.")
        return part

    def _counted(self, start: int, end: int) -> Slice | None:
        """A slice, if it fits when it is counted alone."""
        tokens = self._count(self._text[start:end])
        return Slice(start, end, tokens) if tokens <= self._budget else None

    def _overlap(self, chunk: Slice, plan: Plan) -> int:
        """Where the next chunk begins: inside `chunk` by at most the overlap, or at its end."""
        alignment = self._alignment
        last = alignment.last_until(chunk.end)
        tries = 0
        for index in range(max(last - plan.overlap, 0), last):
            gap = alignment.gap_before(index)
            start = None if gap is None else gap.end
            if start is not None and plan.by_meaning:
                start = words_from(self._text, start, chunk.end)
            if start is None or start <= chunk.start or not self._graphemes.is_boundary(start):
                continue
            if self._count(self._text[start : chunk.end]) <= plan.overlap:
                return start
            tries += 1
            if tries == _OVERLAP_TRIES:
                break
        return chunk.end
