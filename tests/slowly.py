"""Slow and obvious answers about texts, and the texts on which quick ones go wrong."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import regex
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.core.alignment import Unit

Pair = tuple[int, int]

_FLAGS = "\U0001f1e9\U0001f1ea"
_HANGUL = "\u1100\u1160\u11a8\uac00\uac01\ud4db\ua960\ud7b0\ud7cb"
_MARKS = "\u0301\u0308\u0488\u20e3\ufe0f\u093f\u0e33\u0e31\u094d\u0d4d\u1b44\U0001f3fd\U000e0041"
_JOINERS = "\u200d\u200c\u0600\u0d4e\U000110bd"
_PICTURES = "\U0001f469\U0001f52c\u2764\u00a9\u2194"
_LETTERS = "ab\u00e9\u0915\u0937\u0d15\u4f60\u0e01"
_CONTROLS = "\r\n\t\0\u200b\u2028\u00ad\ufeff"
GRAPHEME_LETTERS = (
    *(_FLAGS, _HANGUL, _MARKS, _JOINERS, _PICTURES, _LETTERS, _CONTROLS),
    "\r\n",
)
"""Alphabets of characters that join: in a text of one of them sure boundaries are rare."""


def joining_texts(max_size: int = 90) -> st.SearchStrategy[str]:
    """Texts in which grapheme clusters are long, many, or hard to tell apart."""
    everything = "".join(GRAPHEME_LETTERS)
    alphabets = st.sampled_from([*GRAPHEME_LETTERS, everything, everything, _FLAGS + "a"])
    return alphabets.flatmap(lambda letters: st.text(st.sampled_from(letters), max_size=max_size))


@functools.lru_cache(maxsize=64)
def cluster_edges(text: str) -> frozenset[int]:
    """The places between grapheme clusters, both ends included: one pass over all of the text."""
    return frozenset({0} | {found.end() for found in regex.finditer(r"\X", text)})


def cluster_around(text: str, offset: int) -> str:
    """The cluster that a place inside it cuts."""
    edges = cluster_edges(text)
    return text[max(e for e in edges if e < offset) : min(e for e in edges if e > offset)]


def in_unit(text: str, offset: int, unit: Unit) -> int:
    """A code-point offset in another unit."""
    before = text[:offset]
    return {
        "codepoint": len(before),
        "byte": len(before.encode()),
        "utf16": len(before.encode("utf-16-le")) // 2,
    }[unit.value]


def pairs_in_unit(text: str, pairs: Iterable[Pair], unit: Unit) -> list[Pair]:
    """Ranges of code points in another unit."""
    return [(in_unit(text, start, unit), in_unit(text, end, unit)) for start, end in pairs]


def codepoint_ranges(text: str, parts: Sequence[bytes]) -> list[Pair]:
    """The code points that each of the parts touches; joined they are the text's bytes."""
    codepoint_of = [place for place, char in enumerate(text) for _ in char.encode()]
    ranges = []
    start = 0
    for part in parts:
        end = start + len(part)
        ranges.append((codepoint_of[start], codepoint_of[end - 1] + 1))
        start = end
    assert start == len(codepoint_of)
    return ranges


def sliced(text: str, places: Iterable[int]) -> list[str]:
    """The text in parts, cut at some places."""
    edges = [0, *sorted({place for place in places if 0 < place < len(text)}), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]
