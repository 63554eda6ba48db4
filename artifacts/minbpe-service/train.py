"""Train `minbpe-service.model` from `corpus.txt`, in the format of minbpe.

    python train.py            write the model
    python train.py --check    write nothing; exit 1 when training gives other bytes

The same corpus gives the same bytes, always:

- The text is cut by PATTERN, and no pair reaches across a cut.
- Each round counts the pairs of neighbours, overlapping ones too (`aaa` holds `aa` twice), and
  merges the most frequent pair everywhere, from left to right.
- Tie rule: of the pairs that occur most often, the one that stands first in the text wins.
  This is what minbpe's `max(stats, key=stats.get)` does: a dict keeps the order of insertion.
- Stop rule: VOCABULARY_SIZE is reached, or no pair occurs at least FEWEST times.
- The special tokens take the ids after the last merge; training does not know them.

It needs the `regex` module, whose tables say what a letter is, and nothing of the service: what
makes an artifact must not change with the code that reads it.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
from collections import Counter
from typing import TYPE_CHECKING

import regex  # type: ignore[import-untyped]  # it ships no types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Pair = tuple[int, int]

FOLDER = pathlib.Path(__file__).resolve().parent
CORPUS = FOLDER / "corpus.txt"
MODEL = FOLDER / "minbpe-service.model"

VOCABULARY_SIZE = 1024
"""Bytes and merges; the special tokens come on top, as in minbpe."""
FEWEST = 2
"""A pair that occurs less often is not merged."""
SPECIAL_TOKENS = ("<|endoftext|>", "<|startoftext|>")
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
"""minbpe's GPT4_SPLIT_PATTERN."""


def chunk_counts(text: str) -> dict[tuple[int, ...], int]:
    """The chunks of the text as bytes, each with its count, in the order of first occurrence.

    Equal chunks stay equal through all merges. Counting each once, with its weight, gives the
    counts of the whole text and leaves the order in which pairs are met as it is.
    """
    return Counter(tuple(chunk.encode()) for chunk in regex.findall(PATTERN, text))


def pair_counts(sequences: Sequence[tuple[Sequence[int], int]]) -> dict[Pair, int]:
    """How often each pair of neighbours occurs, in the order of first occurrence."""
    counts: dict[Pair, int] = {}
    for ids, weight in sequences:
        for pair in itertools.pairwise(ids):
            counts[pair] = counts.get(pair, 0) + weight
    return counts


def replace(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """`ids` with every occurrence of `pair` replaced, from left to right without overlap."""
    replaced: list[int] = []
    position = 0
    while position < len(ids):
        if (ids[position], *ids[position + 1 : position + 2]) == pair:
            replaced.append(new)
            position += 2
        else:
            replaced.append(ids[position])
            position += 1
    return replaced


def learn(
    chunks: Mapping[tuple[int, ...], int], first_id: int, last_id: int
) -> Iterator[tuple[Pair, int]]:
    """The merges that make the ids `first_id` to `last_id`, each with the count of its pair."""
    sequences: list[tuple[Sequence[int], int]] = list(chunks.items())
    for new in range(first_id, last_id + 1):
        counts = pair_counts(sequences)
        # max() keeps the first of equals, and the dict is in the order of the text.
        pair = max(counts, key=counts.__getitem__, default=None)
        if pair is None or counts[pair] < FEWEST:
            return
        yield pair, counts[pair]
        sequences = [
            # The test for the first id alone spares most chunks the slow walk.
            (replace(ids, pair, new) if pair[0] in ids else ids, weight)
            for ids, weight in sequences
        ]


def model_bytes(text: str) -> bytes:
    """The `.model` file for a corpus."""
    merges = [pair for pair, _ in learn(chunk_counts(text), 256, VOCABULARY_SIZE - 1)]
    first_special = 256 + len(merges)
    lines = ["minbpe v1", PATTERN, str(len(SPECIAL_TOKENS))]
    lines += [f"{spelling} {first_special + i}" for i, spelling in enumerate(SPECIAL_TOKENS)]
    lines += [f"{left} {right}" for left, right in merges]
    return "".join(line + "\n" for line in lines).encode()


def main() -> str | None:
    """Write or check the model; what is wrong, if anything is."""
    parser = argparse.ArgumentParser(description="Train minbpe-service.model from corpus.txt.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    # Bytes, not text mode: newlines are part of the corpus and stay as they are everywhere.
    trained = model_bytes(CORPUS.read_bytes().decode())
    if not arguments.check:
        MODEL.write_bytes(trained)
    elif not MODEL.is_file() or MODEL.read_bytes() != trained:
        return f"{MODEL.name} is not what training on {CORPUS.name} gives"
    return None


if __name__ == "__main__":
    # A message goes to stderr, with exit status 1.
    sys.exit(main())
