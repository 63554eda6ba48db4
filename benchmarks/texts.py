"""The texts: English out of Python's own documentation, mixed scripts, words never seen before."""

from __future__ import annotations

import functools
import json
import random
import sys
from pathlib import Path
from pydoc_data import topics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import msgspec
from golden_texts import TEXTS

_WORD_BYTES = 9
_LETTERS = bytes(ord("a") + byte % 26 for byte in range(256))


@functools.cache
def _english() -> str:
    """Prose and some code, all ASCII, white space made single blanks."""
    text = " ".join(" ".join(topics.topics[name].split()) for name in sorted(topics.topics))
    return text.encode("ascii", "ignore").decode()


def english(size: int, number: int) -> list[str]:
    """`number` different texts of `size` bytes."""
    source = _english()
    whole = source * (size // len(source) + 2)
    step = len(source) // number
    return [whole[start * step : start * step + size] for start in range(number)]


def mixed(size: int, number: int) -> list[str]:
    """`number` different texts of at most `size` bytes, in some thirty languages."""
    prose = [text for name, text in TEXTS.items() if name.startswith("prose-")]
    words = [word for text in prose for word in text.split()]
    chosen = []
    for seed in range(number):
        picks = random.Random(seed).choices(words, k=size // 4)
        chosen.append(" ".join(picks).encode()[:size].decode(errors="ignore"))
    return chosen


def new_words(size: int, seed: int) -> Iterator[str]:
    """Texts of about `size` bytes, without end, of words of nine letters that don't come again."""
    chance = random.Random(seed)
    words = size // (_WORD_BYTES + 1)
    while True:
        text = bytearray(chance.randbytes(words * (_WORD_BYTES + 1)).translate(_LETTERS))
        text[_WORD_BYTES :: _WORD_BYTES + 1] = b" " * words
        yield text.decode()


def single(tokenizer: str, chosen: Iterable[str]) -> list[bytes]:
    """A request for each text."""
    return [_body(tokenizer=tokenizer, text=text) for text in chosen]


def packed(tokenizer: str, chosen: Iterable[str]) -> list[bytes]:
    """The same in MessagePack, for texts without line ends: a load's bodies are lines."""
    return [msgspec.msgpack.encode({"tokenizer": tokenizer, "text": text}) for text in chosen]


def batch(tokenizer: str, chosen: Iterable[str]) -> list[bytes]:
    """One request for all texts."""
    return [_body(tokenizer=tokenizer, texts=list(chosen))]


def _body(**fields: object) -> bytes:
    """One line, as load.lua takes it; scripts are not escaped, as most clients send them."""
    return json.dumps(fields, ensure_ascii=False).encode()
