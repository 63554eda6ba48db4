"""Texts as bad as can be for a tokenizer: the reference's ids, or that it can't do them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from reference import NOTHING, reference

from service.errors import EngineLimit
from tests.locks import EMBEDDED_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.core.tokenizer import Tokenizer

LENGTH = 60_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CHANCE = random.Random(20261130)  # noqa: S311 - a corpus, no secret

WORST = {
    "one letter": "a" * LENGTH,
    "one random word": "".join(_CHANCE.choices(_LETTERS, k=LENGTH)),
    "two letters in turn": "ab" * (LENGTH // 2),
    "blanks": " " * LENGTH + "x",
    "blanks at the end": "x" + " " * LENGTH,
    "tabs and blanks": "\t " * (LENGTH // 2),
    "line ends": "\n" * LENGTH,
    "CR and LF": "\r\n" * (LENGTH // 2),
    "digits": "0123456789" * (LENGTH // 10),
    "punctuation": "^" * LENGTH,
    "apostrophes": "'s" * (LENGTH // 2),
    "combining marks": "a" + "\u0301" * (LENGTH // 2),
    "one ideograph": "\u4e00" * (LENGTH // 3),
    "emoji that join": "\U0001f469\u200d" * (LENGTH // 7),
    "NUL": "\0" * LENGTH,
    "a spelling's beginning": "<|" * (LENGTH // 2),
    "what grows when it is normalized": "\ufdfa" * (LENGTH // 30),
}


@pytest.mark.parametrize("kind", WORST)
@pytest.mark.parametrize("name", EMBEDDED_LOCK)
def test_ids_of_the_worst_texts(
    tokenizer_of: Callable[[str], Tokenizer], name: str, kind: str
) -> None:
    text = WORST[kind]
    tokenizer = tokenizer_of(name)
    expected = reference(name).encode(text, NOTHING)
    assert tokenizer.encode(text) == expected
    assert tokenizer.count(text) == len(expected)


@pytest.mark.parametrize("name", ["bert-base-uncased", "o200k_base", "gpt2", "mistral-7b-v0.3"])
@pytest.mark.parametrize("unit", ["a", " ", "\n", "\u0301"])
def test_a_megabyte_of_one_character(
    tokenizer_of: Callable[[str], Tokenizer], name: str, unit: str
) -> None:
    """Tiktoken 0.14 panics on a million blanks, so there is nobody to ask what is right."""
    tokenizer = tokenizer_of(name)
    text = unit * (1_000_000 // len(unit.encode()))
    try:
        ids = tokenizer.encode(text)
    except EngineLimit:
        assert name == "o200k_base"
        assert unit == " "
    else:
        assert tokenizer.count(text) == len(ids)
        if tokenizer.facts.round_trip == "exact":
            assert tokenizer.decode_bytes(ids) == text.encode()
