"""Blanks of split patterns, spelled out."""

from __future__ import annotations

import sys

import pytest
import regex

from service.core.split_patterns import with_properties


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\s+(?!\S)|\s", r"\p{White_Space}+(?!\P{White_Space})|\p{White_Space}"),
        (r" ?[^\s\p{L}]+", r" ?[^\p{White_Space}\p{L}]+"),
        (r"\\s|\\\s|\\\\S", r"\\s|\\\p{White_Space}|\\\\S"),
        (r"\p{Sc}|\w|s|S", r"\p{Sc}|\w|s|S"),
    ],
)
def test_blanks_alone_are_spelled_out(pattern: str, expected: str) -> None:
    assert with_properties(pattern) == expected


@pytest.mark.parametrize("pattern", [r"\s", r"\S", r"[\s\d]", r"[^\s\d]"])
def test_both_spellings_mean_the_same_characters(pattern: str) -> None:
    every = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, sys.maxunicode + 1)))
    assert regex.findall(with_properties(pattern), every) == regex.findall(pattern, every)
