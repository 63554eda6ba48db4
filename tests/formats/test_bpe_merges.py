"""The bpe_merges format: CLIP's byte letters beside a small model over characters."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from service.core.tokenizer import Frame
from service.errors import InvalidTokenId
from service.formats import FormatError
from service.formats._common import Template
from service.formats.bpe_merges import (
    FORMAT,
    BpeMergesOptions,
    BpeMergesTokenizer,
    build,
    derived_vocabulary,
    parse_merges,
)
from tests.fuzzing import property_settings
from tests.locks import DATA, embedded_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.core.tokenizer import Tokenizer

FILES = {
    "merges": (DATA / "word_bpe" / "merges.txt").read_bytes(),
    "vocab": (DATA / "word_bpe" / "vocab.json").read_bytes(),
}
VOCAB: dict[str, int] = json.loads(FILES["vocab"])
MERGES = [tuple(line.split(" ")) for line in FILES["merges"].decode().splitlines()[1:]]
SPECIAL = {"<s>": VOCAB["<s>"], "</s>": VOCAB["</s>"]}
UNK = VOCAB["<unk>"]
WORDS = r"\S+"
WHOLE = r"[\s\S]+"
OPTIONS: dict[str, Any] = {
    "base_alphabet": "characters",
    "pattern": WORDS,
    "unk_token": "<unk>",
    "special_tokens": SPECIAL,
    "template": Template(before=["<s>"], after=["</s>"]),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((DATA / "worked_examples.json").read_text(encoding="utf-8"))
}


def load(**changes: Any) -> BpeMergesTokenizer:
    return build(FILES, BpeMergesOptions(**{**OPTIONS, **changes}))


@functools.cache
def characters() -> BpeMergesTokenizer:
    return load()


@functools.cache
def library(pattern: str = WORDS) -> LibraryTokenizer:
    """The same model by the library's own classes, without special tokens."""
    tokenizer = LibraryTokenizer(
        models.BPE(VOCAB, MERGES, unk_token="<unk>", end_of_word_suffix="</w>")  # noqa: S106
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def slowly(word: str, merges: Sequence[tuple[str, ...]], suffix: str) -> list[str]:
    """subword-nmt's rule: the pair of the lowest rank first, at all its places, from the left."""
    symbols = [*word[:-1], word[-1] + suffix]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    while True:
        pairs = list(itertools.pairwise(symbols))
        best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)), default=None)
        if best not in ranks:
            return symbols
        merged: list[str] = []
        while symbols:
            if tuple(symbols[:2]) == best:
                merged.append(symbols.pop(0) + symbols.pop(0))
            else:
                merged.append(symbols.pop(0))
        symbols = merged


def ids_of(pieces: Sequence[str]) -> list[int]:
    return [VOCAB.get(piece, UNK) for piece in pieces]


TEXTS = st.lists(
    st.sampled_from(
        [
            *("low", "lower", "lowest", "newer", "newest", "widest", "wiße", "été", "日本", "本日"),
            *("inging", "ing", "in", "ne", "es", "est", "</w>", "e</w>", "<unk>", "<s>", "</s>"),
            *(" ", "  ", "\n", "\t", "\u00a0", "\u2028", "\u180e", "h", "v", "語", ".", ",", "-"),
            *("x", "Q", "é", "e\u0301", "\u00fc", "\U0001f389", "\0", "\ue000"),
        ]
    ),
    max_size=12,
).map("".join)


@property_settings(400)
@given(st.one_of(TEXTS, st.text(max_size=30)))
def test_ids_are_the_librarys(text: str) -> None:
    ids = characters().encode(text)
    assert ids == library().encode(text).ids
    assert not set(ids) & set(SPECIAL.values())
    words = library().pre_tokenizer.pre_tokenize_str(text)
    assert ids == [n for word, _ in words for n in ids_of(slowly(word, MERGES, "</w>"))]


@property_settings(200)
@given(st.lists(st.sampled_from(sorted(VOCAB.values())), max_size=12))
def test_text_is_the_librarys(ids: list[int]) -> None:
    tokens = [library().id_to_token(token_id) for token_id in ids]
    assert characters().decode_bytes(ids).decode() == library().decoder.decode(tokens)
    assert b"".join(characters().byte_parts(ids)) == characters().decode_bytes(ids)


def test_words_in_the_vocabulary() -> None:
    ids = characters().encode("lower  newest\tlowest")
    assert ids == ids_of(["lower</w>", "newest</w>", "low", "est</w>"])
    assert characters().decode_bytes(ids) == b"lower newest lowest"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("lowX", ["low", "?"]),
        ("Xlow", ["?", "lo", "w</w>"]),
        ("l\u00e6w", ["l", "?", "w</w>"]),
        ("XYZ", ["?", "?", "?"]),
        ("vh", ["v", "?"]),  # h stands in the vocabulary, but not at the end of a word
        (".a", ["?", "a</w>"]),  # the full stop only there
        ("\U0001f469\u200d\U0001f52c", ["?", "?", "?"]),
        ("e\u0301", ["e", "?"]),
    ],
)
def test_a_letter_that_is_not_in_the_vocabulary_is_unknown(text: str, pieces: list[str]) -> None:
    tokenizer = characters()
    ids = tokenizer.encode(text)
    assert ids == ids_of(pieces)
    assert ids.count(UNK) == pieces.count("?")
    assert tokenizer.unknown_id == UNK
    assert tokenizer.facts.coverage == "unknown_token"


def test_special_tokens_in_text() -> None:
    tokenizer = characters()
    text = "<s>low</s> low<s>"
    assert not set(tokenizer.encode(text)) & set(SPECIAL.values())
    low = VOCAB["low"], ids_of(["lo", "w</w>"])
    assert tokenizer.encode_special(text) == [
        SPECIAL["<s>"],
        *low[1],
        SPECIAL["</s>"],
        *low[1],
        SPECIAL["<s>"],
    ]
    spans = tokenizer.find_controls(text, frozenset({"</s>"}))
    narrowed = tokenizer.encode_spans(text, spans)
    assert SPECIAL["<s>"] not in narrowed
    assert narrowed.count(SPECIAL["</s>"]) == 1
    # The name of the unknown token is no control spelling here; its letters are as good as any.
    assert UNK not in tokenizer.encode("un")
    assert tokenizer.encode("<unk>") == ids_of(["?", "u", "n", "?", "?"])


def test_facts_frame_and_vocabulary() -> None:
    tokenizer = characters()
    assert tokenizer.frame == Frame((VOCAB["<s>"],), (VOCAB["</s>"],))
    assert tokenizer.facts.round_trip == "lossy"
    assert tokenizer.facts.library == "tokenizers"
    assert tokenizer.facts.roles == {
        "bos": VOCAB["<s>"],
        "eos": VOCAB["</s>"],
        "unk": VOCAB["<unk>"],
    }
    assert tokenizer.vocabulary() == {number: piece.encode() for piece, number in VOCAB.items()}


@pytest.mark.parametrize("bad", [-1, len(VOCAB), 2**70])
def test_decoding_refuses_an_unknown_id(bad: int) -> None:
    with pytest.raises(InvalidTokenId) as caught:
        characters().decode_bytes([UNK, bad])
    assert caught.value.members == {"index": 1, "id": bad}


LIBRARY_NORMALIZERS = {
    "nfc": normalizers.NFC(),
    "nfkc": normalizers.NFKC(),
    "lowercase": normalizers.Lowercase(),
    "collapse_whitespace": normalizers.Replace(Regex(r"\s+"), " "),
    "strip": normalizers.Strip(),
}


@pytest.mark.parametrize(
    "chosen", [*([name] for name in LIBRARY_NORMALIZERS), [*LIBRARY_NORMALIZERS]], ids=str
)
def test_normalizers_are_the_librarys(chosen: list[str]) -> None:
    tokenizer = load(normalizers=chosen, pattern=WHOLE)
    reference = LibraryTokenizer.from_str(library(WHOLE).to_str())
    reference.normalizer = normalizers.Sequence([LIBRARY_NORMALIZERS[name] for name in chosen])

    @property_settings(60)
    @given(st.one_of(TEXTS, TEXTS.map(str.upper)))
    def check(text: str) -> None:
        assert tokenizer.encode(text) == reference.encode(text).ids

    check()


def test_normalizers_apply_in_their_order() -> None:
    trade_mark = "\u2122"
    assert load(normalizers=["nfkc", "lowercase"]).encode(trade_mark) == ids_of(["t", "m</w>"])
    assert load(normalizers=["lowercase", "nfkc"]).encode(trade_mark) == [UNK, UNK]


# CLIP's byte letters


def test_bytes_need_no_vocabulary(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    clip = tokenizer_of("clip-vit-large-patch14")
    ids = clip.encode("a \U0001f389\u00e9")
    assert clip.unknown_id is None
    assert clip.facts.coverage == "every_byte"
    assert clip.decode_bytes(ids).decode() == "a \U0001f389 \u00e9"
    assert clip.frame == Frame((49406,), (49407,))
    merges = parse_merges(embedded_bytes("clip-vit-large-patch14", "merges"))
    vocab = derived_vocabulary(merges, "</w>")
    assert len(vocab) == 49406
    assert (vocab["!"], vocab["!</w>"], vocab["in"]) == (0, 256, 512)
    assert set(clip.vocabulary()) == set(range(49408))


def test_bytes_of_a_word_that_is_cut(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    clip = tokenizer_of("clip-vit-large-patch14")
    party = clip.encode("\U0001f389\U0001fae0")
    parts = clip.byte_parts(party)
    assert b"".join(parts) == clip.decode_bytes(party) == "\U0001f389\U0001fae0".encode()
    assert any(not _is_text(part) for part in parts)


def _is_text(data: bytes) -> bool:
    return data.decode(errors="ignore").encode() == data


def test_the_suffix_is_a_blank_but_at_the_end(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    clip = tokenizer_of("clip-vit-large-patch14")
    ids = clip.encode("hello world")
    assert clip.byte_parts(ids) == [b"hello ", b"world"]
    assert clip.decode_bytes([*ids, 49407]) == b"hello world <|endoftext|>"
    assert clip.vocabulary()[ids[0]] == b"hello</w>"


# Worked examples


def _model_of(case: dict[str, Any]) -> tuple[dict[str, int], bytes]:
    """Vocabulary and merges of an example without an end-of-word mark."""
    merges = [(left, right) for left, right, _ in case["merges"]]
    words = [*case["words"], *case["encodings"]]
    pieces = ["<unk>", *sorted(set("".join(words))), *(left + right for left, right in merges)]
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    return {piece: number for number, piece in enumerate(pieces)}, lines.encode()


@pytest.mark.parametrize("case", ["word-bpe-without-end-marker", "word-bpe-without-end-marker-2"])
def test_worked_example_without_end_mark(case: str) -> None:
    vocab, merges = _model_of(EXAMPLES[case])
    tokenizer = build(
        {"merges": merges, "vocab": json.dumps(vocab).encode()},
        BpeMergesOptions(
            base_alphabet="characters",
            pattern=WORDS,
            unk_token="<unk>",  # noqa: S106 - a piece
            end_of_word_suffix="",
        ),
    )
    for word, pieces in EXAMPLES[case]["encodings"].items():
        assert tokenizer.encode(word) == [vocab[piece] for piece in pieces]
        assert tokenizer.decode_bytes(tokenizer.encode(word)).decode() == word


@pytest.mark.parametrize("case", ["word-bpe-training", "word-bpe-six-merges"])
def test_worked_example_with_the_mark_on_the_last_letter(case: str) -> None:
    """The examples have `</w>` as a symbol of its own; subword-nmt's files have it on a letter.

    So a rule that joins it to `est` is, in a file, the rule that makes `est</w>` out of `t</w>`,
    and a last letter that no rule joins keeps it.
    """
    example = EXAMPLES[case]
    merges = [(left, right) for left, right, _ in example["merges"] if right != "</w>"]
    merges.insert(2, ("es", "t</w>"))
    assert example["merges"][2][:2] == ["est", "</w>"]
    letters = sorted(set("".join(example["encodings"])))
    pieces = ["<unk>", *letters, *(f"{letter}</w>" for letter in letters), *map("".join, merges)]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    tokenizer = build(
        {"merges": lines.encode(), "vocab": json.dumps(vocab).encode()},
        BpeMergesOptions(base_alphabet="characters", pattern=WORDS, unk_token="<unk>"),  # noqa: S106
    )
    for word, expected in example["encodings"].items():
        *before, last = expected
        on_a_letter = [*before[:-1], before[-1] + last] if last == "</w>" else expected
        assert tokenizer.encode(word) == [vocab[piece] for piece in on_a_letter], word


# What is refused


def _vocab_without(*pieces: str) -> bytes:
    return json.dumps({piece: n for piece, n in VOCAB.items() if piece not in pieces}).encode()


REFUSED: dict[str, tuple[dict[str, bytes], dict[str, Any], str]] = {
    "no vocab": ({"vocab": b""}, {}, "expected a JSON object"),
    "vocab is a list": ({"vocab": b'["a"]'}, {}, "expected a JSON object"),
    "id is no integer": ({"vocab": b'{"a": 1.5}'}, {}, "expected a JSON object"),
    "one id twice": ({"vocab": FILES["vocab"].replace(b": 1,", b": 0,", 1)}, {}, "id 0 stands for"),
    "negative id": ({"vocab": FILES["vocab"].replace(b": 1,", b": -1,", 1)}, {}, "is negative"),
    "a merge makes no piece": ({"vocab": _vocab_without("newest</w>")}, {}, "'newest</w>'"),
    "a merge of no piece": ({"vocab": _vocab_without("t</w>")}, {}, "'t</w>'"),
    "a line of one symbol": ({"merges": b"lo\n"}, {}, "line 1"),
    "a line of three symbols": ({"merges": b"l o w\n"}, {}, "line 1"),
    "an empty line": ({"merges": b"l o\n\nlo w\n"}, {}, "line 2"),
    "a merge twice": ({"merges": b"l o\nlo w\nl o\n"}, {}, "line 3: a merge stands twice"),
    "not UTF-8": ({"merges": b"l o\n\xff o\n"}, {}, "expected UTF-8"),
    "no unknown token": ({}, {"unk_token": None}, "needs unk_token"),
    "another unknown token": ({}, {"unk_token": "<oov>"}, "'<oov>' is not in the vocabulary"),
    "special token on a piece": ({}, {"special_tokens": {"<x>": 5}, "template": None}, "'<x>'"),
    "special tokens on one id": (
        {},
        {"special_tokens": {"<x>": 76, "<y>": 76}, "template": None},
        "id 76 stands for 2 tokens",
    ),
    "a hole before a special token": (
        {},
        {"special_tokens": {"<x>": 100}, "template": None},
        "'<x>' declares id 100",
    ),
    "template of an ordinary piece": ({}, {"template": Template(before=["low"])}, "'low'"),
    "pattern that does not compile": ({}, {"pattern": "("}, "can't use the pre_tokenizer"),
}


@pytest.mark.parametrize(("files", "options", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(files: dict[str, bytes], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        build({**FILES, **files}, BpeMergesOptions(**{**OPTIONS, **options}))


def test_characters_need_a_vocab_file() -> None:
    with pytest.raises(FormatError, match="needs a vocab file"):
        build({"merges": FILES["merges"]}, BpeMergesOptions(**OPTIONS))
    assert FORMAT.required_roles == {"merges"}
    assert FORMAT.optional_roles == {"vocab"}


@pytest.mark.parametrize(
    ("merges", "reason"),
    [
        (b"a b\na b\n", "stands twice"),
        (b"a b\nb c\na bc\nab c\n", "two merges make 'abc'"),
        ("a b\n日 本\n".encode(), "not in the vocabulary"),
    ],
)
def test_merges_of_bytes_that_are_refused(merges: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        build({"merges": merges}, BpeMergesOptions(base_alphabet="bytes", pattern=WORDS))
