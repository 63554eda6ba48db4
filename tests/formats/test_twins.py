"""Renaming control spellings in a model: which merges are left out of the literal twin."""

from __future__ import annotations

import pytest

from service.formats._twins import _may_mention, _mentions

NAMES = {"<s>": "x", "ab": "y"}

MERGES: dict[str, list[str | list[str]]] = {
    "none": ["a c", "< s", "s >", "c d"],
    "none, as it turns out": ["a b c", "c d"],
    "none, as pairs": [["a", "c"], ["< ", "s"]],
    "taken first": ["c d", "<s> c"],
    "taken second": [["c", "d"], ["c", "ab"]],
    "made": ["c d", "a b"],
    "made, as a pair": [["<", "s>"]],
    "none at all": [],
}


@pytest.mark.parametrize("name", MERGES)
def test_looking_at_all_merges_at_once_misses_none(name: str) -> None:
    merges = MERGES[name]
    mentioned = any(_mentions(merge, "", NAMES) for merge in merges)
    assert mentioned == (not name.startswith("none"))
    assert _may_mention(merges, NAMES) == (mentioned or name == "none, as it turns out")
