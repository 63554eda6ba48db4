"""Merging by pairs of ids, against minbpe's loop and the worked examples."""

# ruff: noqa: S311 - seeds make these texts repeat; nothing here is a secret

from __future__ import annotations

import itertools
import json
import pathlib
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.core.pair_merge import merge_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    Merges = dict[tuple[int, int], int]

_DATA = pathlib.Path(__file__).parents[1] / "data" / "worked_examples.json"
EXAMPLES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads(_DATA.read_text(encoding="utf-8"))
}


def reference(symbols: Sequence[int], merges: Merges) -> list[int]:
    """The algorithm as minbpe publishes it: search all pairs, merge the lowest, start again."""
    ids = list(symbols)
    while len(ids) >= 2:
        pair = min(itertools.pairwise(ids), key=lambda p: merges.get(p, float("inf")))
        if pair not in merges:
            break
        merged = []
        i = 0
        while i < len(ids):
            if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
                merged.append(merges[pair])
                i += 2
            else:
                merged.append(ids[i])
                i += 1
        ids = merged
    return ids


@st.composite
def merge_tables(draw: st.DrawFn, first: int = 4) -> Merges:
    """Tables over the symbols 0 to `first` - 1, small enough that pairs compete for symbols."""
    merges: Merges = {}
    for _ in range(draw(st.integers(0, 24))):
        new = first + len(merges)
        pair = draw(st.tuples(st.integers(0, new - 1), st.integers(0, new - 1)))
        merges.setdefault(pair, new)
    return merges


TWO_PATHS = {(0, 1): 4, (1, 2): 5, (4, 2): 6, (0, 5): 7}
"""Of symbols 0 1 2, both 6 and 7 are spellings; only the order of the merges tells which."""


@settings(max_examples=500, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60), merge_tables())
@example([0, 1, 2], TWO_PATHS)
@example([0, 0, 1, 2, 1, 2, 0, 1], TWO_PATHS)
@example([0, 0, 0], {(0, 0): 4})
@example([0] * 7, {(0, 0): 4, (4, 0): 5, (0, 4): 6, (5, 5): 7, (4, 4): 8})
def test_equals_the_published_loop(symbols: list[int], merges: Merges) -> None:
    assert merge_pairs(symbols, merges) == reference(symbols, merges)


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_published_loop_on_long_sequences(seed: int) -> None:
    rng = random.Random(seed)
    merges: Merges = {}
    for _ in range(60):
        new = 3 + len(merges)
        merges.setdefault((rng.randrange(new), rng.randrange(new)), new)
    symbols = rng.choices(range(3), k=1500)
    assert merge_pairs(symbols, merges) == reference(symbols, merges)


@pytest.mark.parametrize(
    ("merges", "expected"),
    [
        ({(0, 1): 4, (1, 2): 5, (4, 2): 6, (0, 5): 7}, [6]),
        ({(1, 2): 4, (0, 1): 5, (5, 2): 6, (0, 4): 7}, [7]),
    ],
)
def test_the_same_symbols_by_two_paths_keep_the_id_of_the_path_taken(
    merges: Merges, expected: list[int]
) -> None:
    assert merge_pairs([0, 1, 2], merges) == expected


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, []), (1, [0]), (2, [1]), (3, [1, 0]), (4, [1, 1]), (5, [1, 1, 0])],
)
def test_overlapping_pairs_apply_from_the_left(length: int, expected: list[int]) -> None:
    assert merge_pairs([0] * length, {(0, 0): 1}) == expected


def test_no_merge_leaves_the_symbols() -> None:
    assert merge_pairs(b"abc", {}) == [97, 98, 99]


def test_the_symbols_that_are_given_stay_as_they_are() -> None:
    symbols = [0, 0]
    merge_pairs(symbols, {(0, 0): 1})
    assert symbols == [0, 0]


def _pieces(symbols: Sequence[str], rules: Sequence[Sequence[str]]) -> list[str]:
    """Merge by rules that are written as text."""
    names = sorted({*symbols, *(part for rule in rules for part in rule[:2])})
    names = [name for name in names if name not in {a + b for a, b, *_ in rules}]
    merges: Merges = {}
    for left, right, *_ in rules:
        merges[names.index(left), names.index(right)] = len(names)
        names.append(left + right)
    return [names[token] for token in merge_pairs(map(names.index, symbols), merges)]


@pytest.mark.parametrize(
    "case", ["merge-order-beats-longest-match", "a-rule-becomes-applicable-after-another"]
)
def test_worked_example_of_rules(case: str) -> None:
    example_ = EXAMPLES[case]
    assert _pieces(example_["text"], example_["rules_in_order"]) == example_["pieces"]


@pytest.mark.parametrize(
    ("case", "word", "pieces"),
    [
        pytest.param(case, word, pieces, id=f"{case}-{word}")
        for case, data in EXAMPLES.items()
        if "merges" in data and "encodings" in data
        for word, pieces in data["encodings"].items()
    ],
)
def test_worked_example_of_words(case: str, word: str, pieces: list[str]) -> None:
    end = ["</w>"] if pieces[-1].endswith("</w>") else []
    assert _pieces([*word, *end], EXAMPLES[case]["merges"]) == pieces


def test_worked_example_of_bytes() -> None:
    case = EXAMPLES["byte-bpe-basic"]
    merges = {(left, right): new for left, right, new in case["merges"]}
    assert merge_pairs(case["text"].encode(), merges) == case["ids"]


def test_worked_example_of_overlap() -> None:
    case = EXAMPLES["overlapping-pairs"]
    assert _pieces(case["symbols"], [case["pair"]]) == case["merged"]


@pytest.mark.timeout(60)
def test_time_of_one_long_sequence_of_one_symbol() -> None:
    doubling = {(new, new): new + 1 for new in range(4)}
    assert merge_pairs([0] * 300_000, doubling) == [4] * (300_000 // 16)


@pytest.mark.timeout(60)
def test_time_of_one_long_random_sequence() -> None:
    rng = random.Random(1)
    merges: Merges = {}
    while len(merges) < 700:
        new = 26 + len(merges)
        merges.setdefault((rng.randrange(new), rng.randrange(new)), new)
    symbols = rng.choices(range(26), k=300_000)
    spelled: dict[int, tuple[int, ...]] = {symbol: (symbol,) for symbol in range(26)}
    for (left, right), new in merges.items():
        spelled[new] = spelled[left] + spelled[right]
    ids = merge_pairs(symbols, merges)
    assert [symbol for token in ids for symbol in spelled[token]] == symbols
    assert not any(pair in merges for pair in itertools.pairwise(ids))
