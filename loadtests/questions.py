"""Requests with answers that are known beforehand, as the reference libraries give them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random
from typing import TYPE_CHECKING, Any

from known_answers import Known, asked, encoded, first_difference, known_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LARGE_BYTES, HUGE_BYTES = 200_000, 1_000_000

HUGE_OF = ("cl100k_base", "o200k_base", "gpt2", "bert-base-uncased", "mistral-7b-v0.3", "t5-base")
"""Two of each of three reference libraries."""

HOSTILE_BYTES = 100_000
HOSTILE = {
    "one letter": "a",
    "spaces": " ",
    "newlines": "\n",
    "combining marks": "\u0301",
    "one emoji": "\N{WAVING HAND SIGN}",
}
HOSTILE_OF = ("cl100k_base", "o200k_base", "gpt2", "all-minilm-l6-v2", "mistral-7b-v0.3", "t5-base")

BATCH_ITEMS = 16
SMALL_BYTES = 2_000
"""Texts of operations whose answers the reference library checks while the load runs."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One POST and what is wrong with an answer to it."""

    kind: str
    path: str
    body: bytes
    wrong: Callable[[Mapping[str, Any]], str | None]
    """The first thing in a 200's body that is not as it has to be."""


Deck = dict[str, list[Question]]
"""By kind: what to draw from."""


def small_and_huge() -> Deck:
    """Counts and ids of short texts in all scripts, and of 1 MB."""
    known = list(itertools.chain(*known_answers().values()))
    huge = [asked(name, HUGE_BYTES) for name in HUGE_OF]
    return {
        "count": [_count("count", one) for one in known],
        "encode": [_encode("encode", one) for one in known],
        "count 1 MB": [_count("count 1 MB", one) for one in huge],
        "encode 1 MB": [_encode("encode 1 MB", one) for one in huge],
    }


def everything() -> Deck:
    """Those, and every other operation, batches and texts that are hard on an engine."""
    by_tokenizer = known_answers()
    for name in by_tokenizer:
        encoded(name, "")  # loads the libraries now, and not while the load runs
    known = list(itertools.chain(*by_tokenizer.values()))
    short = [one for one in known if 0 < len(one.text.encode()) <= SMALL_BYTES]
    large = [asked(name, LARGE_BYTES) for name in HUGE_OF]
    batches = [random.choices(of_one, k=BATCH_ITEMS) for of_one in by_tokenizer.values()] * 4
    return {
        **small_and_huge(),
        "decode": [_decode(one) for one in known],
        "truncate": [_truncate(one) for one in short],
        "chunk": [_chunk(one) for one in short],
        "count 200 KB": [_count("count 200 KB", one) for one in large],
        "encode 200 KB": [_encode("encode 200 KB", one) for one in large],
        "encode batch": [_encode_batch(batch) for batch in batches],
        "count batch": [_count_batch(batch) for batch in batches],
        "decode batch": [_decode_batch(batch) for batch in batches],
        "count hostile": [_count("count hostile", one) for one in hostile()],
    }


def hostile() -> list[Known]:
    """Texts that are all one character, on which careless engines take quadratic time."""
    return [
        _bare(name, letter * (HOSTILE_BYTES // len(letter.encode())))
        for name in HOSTILE_OF
        for letter in HOSTILE.values()
    ]


def draw(deck: Deck, weights: Mapping[str, float]) -> Iterable[Question]:
    """Questions without end: kinds as often as their weights say, each of a kind alike."""
    kinds, often = list(weights), list(weights.values())
    while True:
        for kind in random.choices(kinds, often, k=256):
            yield random.choice(deck[kind])


def _bare(name: str, text: str) -> Known:
    return Known(name, text, encoded(name, text), "")


def _ask(
    kind: str,
    path: str,
    body: Mapping[str, Any],
    wrong: Mapping[str, Any] | Callable[[Mapping[str, Any]], str | None],
) -> Question:
    check = wrong if callable(wrong) else functools.partial(first_difference, expected=wrong)
    return Question(kind, path, json.dumps(body).encode(), check)


def _count(kind: str, known: Known) -> Question:
    expected = {"count": len(known.ids), "bytes": len(known.text.encode())}
    return _ask(kind, "/count", {"tokenizer": known.tokenizer, "text": known.text}, expected)


def _encode(kind: str, known: Known) -> Question:
    expected = {"ids": known.ids, "count": len(known.ids), "bytes": len(known.text.encode())}
    return _ask(kind, "/encode", {"tokenizer": known.tokenizer, "text": known.text}, expected)


def _decode(known: Known) -> Question:
    body = {"tokenizer": known.tokenizer, "ids": known.ids}
    return _ask("decode", "/decode", body, {"text": known.decoded, "replacements": 0})


def _encode_batch(batch: Sequence[Known]) -> Question:
    body = {"tokenizer": batch[0].tokenizer, "texts": [known.text for known in batch]}
    return _ask("encode batch", "/encode", body, {"results.ids": [known.ids for known in batch]})


def _count_batch(batch: Sequence[Known]) -> Question:
    body = {"tokenizer": batch[0].tokenizer, "texts": [known.text for known in batch]}
    counts = [len(known.ids) for known in batch]
    return _ask("count batch", "/count", body, {"results.count": counts, "count": sum(counts)})


def _decode_batch(batch: Sequence[Known]) -> Question:
    body = {"tokenizer": batch[0].tokenizer, "batch": [known.ids for known in batch]}
    expected = {"results.text": [known.decoded for known in batch]}
    return _ask("decode batch", "/decode", body, expected)


def _truncate(known: Known) -> Question:
    budget = max(1, len(known.ids) // 2)

    def wrong(answer: Mapping[str, Any]) -> str | None:
        kept = answer["text"]
        if not known.text.startswith(kept) or answer["truncated"] != (kept != known.text):
            return "text"
        count = answer["count"]
        return None if count == _counted(known.tokenizer, kept) <= budget else "count"

    body = {"tokenizer": known.tokenizer, "text": known.text, "max_tokens": budget}
    return _ask("truncate", "/truncate", body, wrong)


def _chunk(known: Known) -> Question:
    budget = max(16, len(known.ids) // 4)

    def wrong(answer: Mapping[str, Any]) -> str | None:
        chunks = answer["chunks"]
        if "".join(chunk["text"] for chunk in chunks) != known.text:
            return "text"
        counts = [_counted(known.tokenizer, chunk["text"]) for chunk in chunks]
        if counts != [chunk["count"] for chunk in chunks] or max(counts) > budget:
            return "count"
        return None

    body = {"tokenizer": known.tokenizer, "text": known.text, "max_tokens": budget}
    return _ask("chunk", "/chunk", body, wrong)


@functools.lru_cache(maxsize=100_000)
def _counted(name: str, text: str) -> int:
    return len(encoded(name, text))
