"""The memory of words: what it asks of the reference, what it keeps."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.tokenizer import WordByWord
from service.engines import words as module
from service.engines.certify import random_texts
from service.engines.fast import FastTokenizer
from service.engines.words import MAX_WORD_BYTES, WordMemory

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog
    from service.core.tokenizer import Tokenizer

WORD_BY_WORD = ("all-minilm-l6-v2", "bert-base-uncased", "clip-vit-large-patch14")


class Reference:
    """Gives each letter its code point, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode_each(self, texts: list[str]) -> list[list[int]]:
        self.asked.append(texts)
        return [[ord(letter) for word in text.split() for letter in word] for text in texts]


@pytest.fixture
def reference() -> Reference:
    return Reference()


@pytest.fixture
def memory(reference: Reference) -> WordMemory:
    return WordMemory(reference.encode_each)


def test_what_has_come_before_is_not_asked_again(memory: WordMemory, reference: Reference) -> None:
    memory.learns_all = True
    assert memory.encode("ab c ab") == [97, 98, 99, 97, 98]
    assert reference.asked == [["ab", "c", ""]]
    assert memory.encode("\tc\n\nab ") == [99, 97, 98]
    assert memory.encode("") == memory.encode(" \r\n") == []
    assert len(reference.asked) == 1


def test_both_ways_give_the_same(memory: WordMemory) -> None:
    assert memory.encode("ab \u00e9").ids == [97, 98, 0xE9]
    buffer, lengths = memory.encode_batch_flat(["ab", "\u00e9 \U0001f600"])
    assert buffer == struct.pack("<4I", 97, 98, 0xE9, 0x1F600)
    assert lengths == struct.pack("<2I", 2, 2)


NEW = [f"w{number}" for number in range(320)]
SIZE = len("".join(NEW))


def test_of_many_new_words_a_few_are_learnt_and_the_rest_is_one_text(
    memory: WordMemory, reference: Reference
) -> None:
    """In one call: each has to wait for the interpreter, which the event loop may keep."""
    expected = [ord(letter) for letter in "".join(NEW)]
    assert memory.encode("\n".join(NEW)) == expected
    learnt = 1 + SIZE // 128
    assert reference.asked == [[*NEW[:learnt], " ".join(NEW[learnt:])]]
    reference.asked.clear()
    assert memory.encode(" ".join([*NEW, *NEW])) == expected * 2
    (asked,) = reference.asked
    assert asked[:-1] == NEW[learnt : len(asked) - 1 + learnt]
    assert asked[-1] == " ".join([*NEW, *NEW][len(asked) - 1 + learnt :])


def test_a_few_new_words_are_all_learnt(memory: WordMemory, reference: Reference) -> None:
    memory.learns_all = True
    memory.encode(" ".join(NEW[:30]))
    memory.learns_all = False
    few = [*NEW[:15], "x", *NEW[15:30], "y", "x", *NEW[:8]]
    assert memory.encode(" ".join(few)) == [ord(letter) for letter in "".join(few)]
    assert reference.asked[1:] == [["x", "y", ""]]


def test_all_can_be_looked_at_alone(memory: WordMemory, reference: Reference) -> None:
    memory.learns_all = True
    memory.encode(" ".join(NEW))
    assert reference.asked == [[*NEW, ""]]


def test_a_long_word_is_not_kept(memory: WordMemory, reference: Reference) -> None:
    memory.learns_all = True
    kept, long = "a" * MAX_WORD_BYTES, "\u00e9" * (MAX_WORD_BYTES // 2) + "a"
    for _ in range(2):
        assert memory.encode(f"{kept} {long}").ids[-2:] == [0xE9, 97]
    assert reference.asked == [[kept, long, ""], [long, ""]]


def test_so_much_is_kept(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3 * 170)
    memory = WordMemory(reference.encode_each)
    for word in ("a", "b", "c", "a", "d", "d", "a"):
        assert memory.encode(word) == [ord(word)]
    assert [asked[0] for asked in reference.asked] == ["a", "b", "c", "d", "a"]


@pytest.mark.parametrize("odd", ["\x0b", "\x0c"])
def test_what_parts_no_word_leaves_the_text_whole(
    memory: WordMemory, reference: Reference, odd: str
) -> None:
    memory.encode(f"a b{odd}c")
    assert reference.asked == [[f"a b{odd}c"]]


def test_what_the_reference_raises_leaves_nothing_behind(reference: Reference) -> None:
    def failing(texts: list[str]) -> list[list[int]]:
        if "bad" in texts:
            raise RecursionError
        return reference.encode_each(texts)

    memory = WordMemory(failing)
    memory.learns_all = True
    with pytest.raises(RecursionError):
        memory.encode("good bad")
    assert memory.encode("good") == [ord(letter) for letter in "good"]
    assert reference.asked == [["good", ""]]


@pytest.fixture(scope="module", params=WORD_BY_WORD)
def pair(catalog: Catalog, request: pytest.FixtureRequest) -> tuple[Tokenizer, WordMemory]:
    fast = catalog.resolve(request.param).tokenizer
    assert isinstance(fast, FastTokenizer)
    assert isinstance(fast.reference, WordByWord)
    memory = WordMemory(fast.reference.encode_each)
    memory.learns_all = True
    return fast.reference, memory


BLANKS = (
    *" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\0",
    *"\u00a0\u1680\u180e\u2003\u2028\u202f\u3000\u200b\ufeff",
)
LETTERS = ("a", "B", "'s", "1", ".", "\u00e9", "\u0301", "\u093f", "\u4e00", "\u1112", "\u1161")


@settings(max_examples=400, deadline=None)
@given(text=st.lists(st.sampled_from([*BLANKS, *LETTERS]), max_size=14).map("".join))
def test_any_blank_may_stand_between(pair: tuple[Tokenizer, WordMemory], text: str) -> None:
    tokenizer, memory = pair
    assert memory.encode(text).ids == tokenizer.encode(text)


def test_learning_changes_no_ids(pair: tuple[Tokenizer, WordMemory]) -> None:
    tokenizer, memory = pair
    texts = [" ".join(random_texts(40, tokenizer.controls)), *random_texts(200, tokenizer.controls)]
    expected = [*map(tokenizer.encode, texts)]
    for memory.learns_all in (False, False, True, True):
        assert [*map(memory.encode, texts)] == expected
