"""Which pipelines give for a text what they give for its words, and that these do."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.formats import formats
from service.formats._words import is_word_by_word
from tests.locks import embedded_bytes

CLIP_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"


def described(**changes: Any) -> dict[str, Any]:
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
    assert is_word_by_word(described(**changes), {"[CLS]"})


@pytest.mark.parametrize(
    "changes",
    [
        {"added_tokens": [{"content": "[CLS]"}, {"content": "two words"}]},
        {"normalizer": {"type": "Prepend", "prepend": "\u2581"}},
        {"normalizer": steps("normalizers", {"type": "NFC"}, {**TO_ONE, "content": "\u2581"})},
        {"normalizer": {"type": "Precompiled"}},
        {"normalizer": {"strip_left": True, "strip_right": True}},
        {"normalizer": {"type": "Prepend", "prepend": "x", "normalizers": []}},
        {"pre_tokenizer": {"type": "Metaspace", "pretokenizers": [{"type": "WhitespaceSplit"}]}},
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
    assert not is_word_by_word(described(**changes), {"[CLS]"})


def built(definition: dict[str, Any]) -> Any:
    of_format = formats()["tokenizer_json"]
    return of_format.build({"tokenizer": json.dumps(definition).encode()}, of_format.options())


def test_a_file_with_another_added_token_is_left_to_the_reference() -> None:
    """Such a token may have blanks in it."""
    file = json.loads(embedded_bytes("all-minilm-l6-v2", "tokenizer"))
    assert built(file).word_by_word
    token = dict(file["added_tokens"][0], content="the", special=False)
    token["id"] = file["model"]["vocab"]["the"]
    file["added_tokens"].append(token)
    assert not built(file).word_by_word


def test_a_normalizer_without_a_type_is_the_library_s() -> None:
    file = json.loads(embedded_bytes("all-minilm-l6-v2", "tokenizer"))
    del file["normalizer"]["type"]
    assert not built(file).word_by_word


BLANKS = (*" \t\n\r\x1c\x1f\x85\0\u00a0\u2003\u2028\u3000\u200b",)
LETTERS = (
    *"abAS.'1\u00e9\u0130\u03a3\u03c3\u0301\u0323\u093f\u4e00\u1112\u1161\u00a8\ufdfa\u212b",
)
FLAGS = st.booleans()
NORMALIZERS = st.one_of(
    *(st.just({"type": name}) for name in ("NFC", "NFD", "NFKC", "NFKD")),
    *(st.just({"type": name}) for name in ("Lowercase", "StripAccents")),
    st.just(TO_ONE),
    st.fixed_dictionaries({"type": st.just("Strip"), "strip_left": FLAGS, "strip_right": FLAGS}),
    st.fixed_dictionaries(
        {
            "type": st.just("BertNormalizer"),
            "clean_text": FLAGS,
            "handle_chinese_chars": FLAGS,
            "strip_accents": st.none() | FLAGS,
            "lowercase": FLAGS,
        }
    ),
)
SPLITTERS = st.sampled_from(
    [
        *({"type": name} for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
        split(),
        split(pattern={"Regex": r"\S+"}),
    ]
)


def models() -> list[dict[str, Any]]:
    """Of each kind one, for which some of the letters are unknown."""
    known = [*"abs.1\u00e9\u0301\u4e00\u1161", "ab", "ba", "as", "aba"]
    spelt = {"##" + piece: place for place, piece in enumerate(known, 100)}
    vocab = {"[UNK]": 0, "[CLS]": 1} | {piece: place for place, piece in enumerate(known, 2)}
    ended = {piece + "</w>": place for place, piece in enumerate(known, 100)}
    merges = [["a", "b</w>"], ["a", "b"], ["b", "a"], ["ab", "a"], ["a", "s"]]
    bpe = {"type": "BPE", "unk_token": "[UNK]", "merges": merges, "vocab": vocab | ended}
    return [
        {"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocab},
        {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 5,
            "vocab": vocab | spelt,
        },
        bpe | {"end_of_word_suffix": "</w>"},
        bpe | {"end_of_word_suffix": "</w>", "fuse_unk": True},
        {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [[piece, -1.0 - place / 7] for place, piece in enumerate(vocab)],
        },
    ]


@settings(max_examples=150, deadline=None)
@given(
    normalizers=st.lists(NORMALIZERS, max_size=3),
    splitter=SPLITTERS,
    model=st.sampled_from(models()),
    texts=st.lists(
        st.lists(st.sampled_from([*BLANKS, *LETTERS]), max_size=16).map("".join), max_size=20
    ),
)
def test_a_text_is_its_words(
    normalizers: list[dict[str, Any]],
    splitter: dict[str, Any],
    model: dict[str, Any],
    texts: list[str],
) -> None:
    token = {"id": 1, "content": "[CLS]", "special": True, "normalized": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    tokenizer = built(
        {
            "version": "1.0",
            "added_tokens": [token | flags],
            "normalizer": steps("normalizers", *normalizers),
            "pre_tokenizer": splitter,
            "model": model,
            **dict.fromkeys(("post_processor", "decoder", "truncation", "padding")),
        }
    )
    assert tokenizer.word_by_word
    for text in texts:
        words = tokenizer.encode_each(re.split("[ \t\n\r]+", text))
        assert [*itertools.chain(*words)] == tokenizer.encode(text), ascii(text)
