"""Cutting a text where the ids of its parts, one after the other, are the ids of the whole.

So a long text can be encoded a little at a time, and left to a thread as soon as it turns out to be
slow. The place is between an ASCII letter and a blank that another such letter follows. None of the
split patterns below has a piece across it, whatever stands around: what matches a letter matches
letters to the last and ends before a blank, what begins with a blank begins anew, and none looks
back, or ahead over more than blanks. Pieces are encoded on their own.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from service.engines.builders import PRESETS

if TYPE_CHECKING:
    from collections.abc import Mapping

SLICE_CHARACTERS = 64 * 1024
"""At most between two cuts, but for a word: 64 KiB take the fast engine 15 ms at the worst."""

_WORD_CHARACTERS = 1024
"""A place to cut is looked for in so many more."""

_CUT = re.compile(r"[A-Za-z](?= [A-Za-z])")

_PATTERNS = frozenset(
    {
        *PRESETS,
        "bf51d578af57187876ec1c8a34fb0ee2fb3025c50ce663ac154b633ae39de092",
        "a4bb8cc38b305a24c4f49a83b058d838a487c62039db54551b6b4a7026c38e83",
    }
)
"""SHA-256 of the split patterns of which that is true: those of cl100k_base, of o200k_base, the one
that p50k_base and r50k_base have, and cl100k_base's as minbpe has it."""


def can_be_cut(pipeline: Mapping[str, object]) -> bool:
    """Whether this is true of a pipeline as `Facts` has it, for texts without added tokens."""
    split: Any = pipeline["pre_tokenizer"]
    if pipeline["normalizer"] is not None or not isinstance(split, dict):
        return False
    if split["type"] == "ByteLevel":  # its own pattern is GPT-2's
        return bool(split.get("use_regex", True)) and not split.get("add_prefix_space", True)
    pattern = split.get("pattern")
    return isinstance(pattern, str) and hashlib.sha256(pattern.encode()).hexdigest() in _PATTERNS


def ends_of_slices(text: str) -> list[int] | None:
    """Where to cut a text, its end included; None where that would leave a long slice."""
    ends: list[int] = []
    begin = 0
    while len(text) - begin > SLICE_CHARACTERS:
        least = begin + SLICE_CHARACTERS - _WORD_CHARACTERS
        cut = _CUT.search(text, least, begin + SLICE_CHARACTERS)
        if cut is None:
            return None
        begin = cut.end()
        ends.append(begin)
    return [*ends, len(text)]
