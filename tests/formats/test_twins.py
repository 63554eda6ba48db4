"""Renaming control spellings in a model: which merges are left out of the literal twin."""

from __future__ import annotations

import pytest

from service.formats._twins import _may_mention, _mentions

NAMES = {"<s>": "x", "ab": "y"}

MERGES: dict[str, list[str | list[str]]] = {
    "none": ["a b c", "< s", "s >", "c d"],
    "none, as pairs": [["a", "c"], ["< ", "s"]],
    "taken first": ["c d", "<s> c"],
    "taken second": [["c", "d"], ["c", "ab"]],
    "made": ["c d", "a b"],
    "made, as a pair": [["<", "s>"]],
    "none at all": [],
}


@pytest.mark.parametrize("name", MERGES)
def test_looking_at_all_merges_at_once_finds_what_looking_at_each_does(name: str) -> None:
    merges = MERGES[name]
    assert _may_mention(merges, NAMES) == any(_mentions(merge, "", NAMES) for merge in merges)
    assert _may_mention(merges, NAMES) == (not name.startswith("none"))
