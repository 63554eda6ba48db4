"""The memory of words: which pipelines it is for, what it asks of the reference, what it keeps."""

from __future__ import annotations

import copy
import json
import struct
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engines import words as module
from service.engines.certify import random_texts
from service.engines.words import MAX_WORD_BYTES, WordMemory
from service.formats import formats
from service.formats._words import is_word_by_word
from tests.locks import EMBEDDED_LOCK, embedded_bytes

if TYPE_CHECKING:
    from service.core.tokenizer import Tokenizer

WORD_BY_WORD = ("all-minilm-l6-v2", "bert-base-uncased", "clip-vit-large-patch14")
CLIP_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"


class Reference:
    """Gives each character of each word its code point, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.asked.append(text)
        return [ord(character) for word in text.split() for character in word]


@pytest.fixture
def reference() -> Reference:
    return Reference()


@pytest.fixture
def memory(reference: Reference) -> WordMemory:
    return WordMemory(reference.encode)


def test_what_has_come_before_is_not_asked_again(memory: WordMemory, reference: Reference) -> None:
    assert memory.encode("ab c ab") == [97, 98, 99, 97, 98]
    assert reference.asked == ["ab", "c"]
    assert memory.encode("\tc\n\nab ") == [99, 97, 98]
    assert memory.encode("") == memory.encode(" \r\n") == []
    assert reference.asked == ["ab", "c"]


def test_both_ways_give_the_same(memory: WordMemory) -> None:
    assert memory.encode("ab \u00e9").ids == [97, 98, 0xE9]
    buffer, lengths = memory.encode_batch_flat(["ab", "\u00e9 \U0001f600"])
    assert buffer == struct.pack("<4I", 97, 98, 0xE9, 0x1F600)
    assert lengths == struct.pack("<2I", 2, 2)


def test_of_many_new_words_a_few_are_learnt_and_the_rest_is_one_text(
    memory: WordMemory, reference: Reference
) -> None:
    new = [f"w{number}" for number in range(320)]
    expected = [ord(character) for character in "".join(new)]
    assert memory.encode("\n".join(new)) == expected
    learnt = 4 + len("\n".join(new)) // 128
    assert reference.asked == [*new[:learnt], " ".join(new[learnt:])], "and nothing twice"
    reference.asked.clear()
    assert memory.encode(" ".join(new)) == expected
    assert reference.asked[:-1] == new[learnt : 2 * learnt]


def test_a_comparison_is_one_of_words(memory: WordMemory, reference: Reference) -> None:
    memory.bytes_a_learnt = 1
    new = [f"w{number}" for number in range(320)]
    memory.encode(" ".join(new))
    assert reference.asked == new


def test_a_long_word_is_not_kept(memory: WordMemory, reference: Reference) -> None:
    kept, long = "a" * MAX_WORD_BYTES, "\u00e9" * (MAX_WORD_BYTES // 2) + "a"
    for _ in range(2):
        assert memory.encode(f"{kept} {long}").ids[-2:] == [0xE9, 97]
    assert reference.asked == [kept, long, long]


def test_so_many_words_are_kept(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3 * 170)
    memory = WordMemory(reference.encode)
    for word in ("a", "b", "c", "a", "d", "d", "a"):
        assert memory.encode(word) == [ord(word)]
    assert reference.asked == ["a", "b", "c", "d", "a"]


@pytest.mark.parametrize("odd", ["\x0b", "\x0c"])
def test_what_parts_no_word_leaves_the_text_whole(
    memory: WordMemory, reference: Reference, odd: str
) -> None:
    memory.encode(f"a b{odd}c")
    assert reference.asked == [f"a b{odd}c"]


def reference_of(name: str) -> Tokenizer:
    locked = EMBEDDED_LOCK[name]
    files = {file["role"]: embedded_bytes(name, file["role"]) for file in locked["file"]}
    of_format = formats()[locked["format"]]
    return of_format.build(files, msgspec.convert(locked.get("options", {}), of_format.options))


@pytest.fixture(scope="module", params=WORD_BY_WORD)
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, WordMemory]:
    tokenizer = reference_of(request.param)
    return tokenizer, WordMemory(tokenizer.encode)


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
    for _ in range(3):
        assert [*map(memory.encode, texts)] == expected


def definition(**changes: Any) -> dict[str, Any]:
    """BERT's, as far as words go."""
    return {
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece"},
        "added_tokens": [{"content": "[CLS]"}],
        **changes,
    }


def split(**changes: Any) -> dict[str, Any]:
    """CLIP's, which drops what is between its matches."""
    pattern = {"Regex": CLIP_PATTERN}
    return {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": True, **changes}


def steps(kind: str, *given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: [*given]}


BYTES = {"type": "ByteLevel", "add_prefix_space": False}
TO_ONE = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalizer": None},
        {"normalizer": steps("normalizers", {"type": "NFC"}, TO_ONE, {"type": "Lowercase"})},
        {"pre_tokenizer": {"type": "WhitespaceSplit"}},
        {"pre_tokenizer": split()},
        {"pre_tokenizer": split(pattern={"Regex": r"\S+"})},
        {"pre_tokenizer": steps("pretokenizers", split(), BYTES)},
    ],
)
def test_pipelines_of_words(changes: dict[str, Any]) -> None:
    assert is_word_by_word(definition(**changes), {"[CLS]"})


@pytest.mark.parametrize(
    "changes",
    [
        {"added_tokens": [{"content": "[CLS]"}, {"content": "two words"}]},
        {"model": {"type": "BPE", "dropout": 0.1}},
        {"normalizer": {"type": "Prepend", "prepend": "\u2581"}},
        {"normalizer": steps("normalizers", {"type": "NFC"}, {**TO_ONE, "content": "\u2581"})},
        {"normalizer": {"type": "Precompiled"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": BYTES},
        {"pre_tokenizer": {"type": "Metaspace"}},
        {"pre_tokenizer": split(behavior="Isolated")},
        {"pre_tokenizer": split(invert=False)},
        {"pre_tokenizer": split(pattern={"Regex": r"\S+ ?"})},
        {"pre_tokenizer": split(pattern={"String": r"\S+"})},
        {"pre_tokenizer": steps("pretokenizers", split(), {**BYTES, "add_prefix_space": True})},
        {"pre_tokenizer": steps("pretokenizers", BYTES, split())},
        {"pre_tokenizer": steps("pretokenizers", split(), BYTES, BYTES)},
    ],
)
def test_other_pipelines(changes: dict[str, Any]) -> None:
    assert not is_word_by_word(definition(**changes), {"[CLS]"})


def test_a_file_with_another_added_token_is_left_to_the_reference() -> None:
    """Such a token may have blanks in it."""
    file = json.loads(embedded_bytes("all-minilm-l6-v2", "tokenizer"))

    def word_by_word(described: dict[str, Any]) -> bool:
        of_format = formats()["tokenizer_json"]
        files = {"tokenizer": json.dumps(described).encode()}
        built: Any = of_format.build(files, of_format.options())
        found: bool = built.word_by_word
        return found

    assert word_by_word(file)
    changed = copy.deepcopy(file)
    token = dict(changed["added_tokens"][0], content="the", special=False)
    token["id"] = changed["model"]["vocab"]["the"]
    changed["added_tokens"].append(token)
    assert not word_by_word(changed)
