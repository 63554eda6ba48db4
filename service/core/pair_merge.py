"""Byte-pair merging by pairs of ids: minbpe's ids, in O(n log n) at most."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOTHING = -1
"""Stands where no symbol is; no merge names it, so a pair with it never applies."""


def merge_pairs(symbols: Iterable[int], merges: Mapping[tuple[int, int], int]) -> list[int]:
    """Apply `merges` (pair of ids to the id that replaces it) to `symbols` until none applies.

    The pair with the lowest new id goes first, at all its occurrences, from left to right and
    without overlap: `aaa` becomes `aa a`. Each new id must be unique, and greater than the two
    ids of its pair.

    Equal to searching the whole sequence for its lowest pair after every round. Whatever the
    round that makes id N brings about is a pair that holds N, so its own new id is greater
    than N. Hence a pair comes about either at the start or in one round alone, that of the
    greater of its two ids, and all its occurrences are known before its own round begins. They
    are found from left to right, because each round runs that way over a list found that way.
    The id at a position only grows, so a pair that has gone from a position never comes back
    to it, and a look at the pair that stands there now tells a stale occurrence from a live one.
    """
    # One more symbol, `_NOTHING`, is the neighbour at both ends: on the right by its position,
    # on the left because position -1 is the last of a list.
    ids = [*symbols, _NOTHING]
    count = len(ids) - 1
    before = list(range(-1, count))
    after = list(range(1, count + 2))

    waiting: dict[int, list[int]] = {}
    for left in range(count - 1):
        new = merges.get((ids[left], ids[left + 1]))
        if new is not None:
            waiting.setdefault(new, []).append(left)
    rounds = list(waiting)
    heapq.heapify(rounds)

    while rounds:
        new = heapq.heappop(rounds)
        for left in waiting.pop(new):
            right = after[left]
            if merges.get((ids[left], ids[right])) != new:
                continue  # an earlier merge has taken one of the two
            ids[left], ids[right] = new, _NOTHING
            after[left] = after[right]
            before[after[left]] = left
            for start, end in ((before[left], left), (left, after[left])):
                later = merges.get((ids[start], ids[end]))
                if later is None:
                    continue
                if later not in waiting:
                    waiting[later] = []
                    heapq.heappush(rounds, later)
                waiting[later].append(start)
    return [token_id for token_id in ids if token_id != _NOTHING]
