"""Grapheme clusters (UAX #29): where a text may be cut without splitting what a reader sees as one.

Finding all clusters of a text costs more than encoding it, so only the neighbourhood of a cut is
looked at. Between two characters that neither join nor are joined by rule there is always a
boundary; such a pair is near almost everywhere, and the clusters from there on are found in order.
"""

from __future__ import annotations

from bisect import bisect_right, insort

import regex

_SURE_PAIR = regex.compile(
    r"(?r)(?:\p{GCB=Other}|\p{GCB=Control}|\n)(?:\p{GCB=Other}|\p{GCB=Control}|\r)"
)
"""Two characters with a boundary between them by GB4, GB5 or GB999: the first is no CR, prepended
mark, joiner, Hangul or regional indicator, the second no extending or spacing mark and none of
those. Searched backwards."""

_CLUSTER = regex.compile(r"\X")

_WINDOW = 32
"""Code points looked at first for the end of a cluster; four times as many each time that is too
few."""

_MARK_EVERY = 32
"""Of a long walk over clusters, each so-manieth boundary is remembered."""


class Graphemes:
    """Grapheme-cluster boundaries of one text; questions may come in any order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = self._end = 0
        # Boundaries met on long walks, so that a text without sure pairs (nothing but flags, or
        # Hangul) is walked only once.
        self._marks = [0]

    def is_boundary(self, offset: int) -> bool:
        """Whether a cluster begins, or the text ends, at this code-point offset."""
        text = self._text
        if offset <= 0 or offset >= len(text):
            return True
        before, after = text[offset - 1], text[offset]
        if before.isascii() and after.isascii():
            return not (before == "\r" and after == "\n")
        return self._cluster_at(offset)[0] == offset

    def end_after(self, offset: int) -> int:
        """The end of the cluster that `offset` is at the start of or inside."""
        return self._cluster_at(offset)[1]

    def _cluster_at(self, offset: int) -> tuple[int, int]:
        """Start and end of the cluster that holds the character at `offset`."""
        if not self._start <= offset < self._end:
            mark = self._marks[bisect_right(self._marks, offset) - 1]
            pair = _SURE_PAIR.search(self._text, mark, offset + 1, concurrent=False)
            start = end = pair.start() + 1 if pair else mark
            steps = 0
            while end <= offset:
                start, end = end, self._end_of_cluster(end)
                steps += 1
                if steps % _MARK_EVERY == 0:
                    insort(self._marks, start)
            self._start, self._end = start, end
        return self._start, self._end

    def _end_of_cluster(self, start: int) -> int:
        """The end of the cluster that begins at a boundary."""
        # Matched in a slice, because the library looks back to the start of what it is given
        # (to count regional indicators), and the boundary makes what is before irrelevant.
        window = _WINDOW
        while True:
            match = _CLUSTER.match(self._text[start : start + window], concurrent=False)
            assert match is not None  # noqa: S101 - there is a cluster wherever there is text
            end = match.end()
            if end < window or start + end >= len(self._text):
                return start + end
            window *= 4
