"""Small tokenizer.json files of every kind: the three policies against the library.

The library has no policies, so what it should give is asked of another file: one in which each
spelling that shall be ordinary text is, at its own id, the name of something that no text holds.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from service.core.utf8 import is_utf8
from service.formats import FormatError
from service.formats.tokenizer_json import TokenizerJsonOptions, TokenizerJsonTokenizer, build
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Definition = dict[str, Any]

LETTERS = [*"abcAB <>[]/xn#\u2581\u00e9\u0120", "\u0301"]
PIECES = ["<unk>", *LETTERS]
SPELLINGS = ["<a>", "</s>", "[B]", "xn", "<a>b", "<\u00e9>"]

PREFIX: Definition = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    ],
}
"""The normalizer of Llama's files."""

NORMALIZERS: list[Definition | None] = [
    None,
    {"type": "NFC"},
    {"type": "NFD"},
    {"type": "Lowercase"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    PREFIX,
]
PRE_TOKENIZERS: list[Definition | None] = [
    None,
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"},
    *(
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
        for scheme in ("always", "first", "never")
        for split in (True, False)
    ),
]


def _numbered(pieces: Iterable[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def bpe(held: Sequence[str]) -> Definition:
    merges = [["a", "b"], ["<", "a"], ["ab", "c"]]
    if "<a>" in held:
        merges.append(["<a", ">"])  # so that text could spell the token without its being added
    vocab = _numbered([*PIECES, *map("".join, merges), *held])
    return {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>"}


def unigram(held: Sequence[str]) -> Definition:
    pieces = _numbered([*PIECES, "ab", "\u2581a", "\u2581ab", "bc", "a b", *held])
    scores = [[piece, -20.0 + 3 * len(piece)] for piece in pieces]
    return {"type": "Unigram", "unk_id": 0, "vocab": scores}


def word_level(held: Sequence[str]) -> Definition:
    vocab = _numbered([*PIECES, "ab", "abc", *held])
    return {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}


def wordpiece(held: Sequence[str]) -> Definition:
    vocab = _numbered([*PIECES, *(f"##{letter}" for letter in LETTERS), "ab", "##bc", *held])
    return {
        "type": "WordPiece",
        "vocab": vocab,
        "unk_token": "<unk>",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }


def token(content: str, token_id: int, **flags: bool) -> Definition:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, "id": token_id, "special": True, **plain, **flags}


def definition(model: Definition, added: list[Definition], **parts: Any) -> Definition:
    empty = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {
        "version": "1.0",
        **dict.fromkeys(empty),
        "added_tokens": added,
        "model": model,
        **parts,
    }


FLAGS = st.fixed_dictionaries(
    dict.fromkeys(("special", "single_word", "lstrip", "rstrip", "normalized"), st.booleans())
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Files whose ids under each policy follow from CONTRACT section 2 without a doubt."""
    spellings = draw(st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=3, unique=True))
    normalizer = draw(st.sampled_from(NORMALIZERS))
    # A normalizer can turn text that is no control spelling into a piece that is one.
    held = draw(st.lists(st.sampled_from(spellings), unique=True)) if normalizer is None else []
    model = draw(st.sampled_from([bpe, unigram, word_level, wordpiece]))(held)
    vocab = model["vocab"]
    known = _numbered([piece for piece, _ in vocab]) if isinstance(vocab, list) else vocab
    added = []
    for spelling in sorted(spellings, key=lambda spelling: known.get(spelling, len(known))):
        outside = sum(entry["content"] not in known for entry in added)
        entry = token(spelling, known.get(spelling, len(known) + outside), **draw(FLAGS))
        # What a single word leaves unmatched is for a shorter token, or for a piece of the model.
        entry["single_word"] &= spelling not in known and spelling != "<a>b"
        entry["normalized"] &= normalizer is not PREFIX  # test_a_normalizer_that_puts_a_prefix
        added.append(entry)
    return definition(
        model, added, normalizer=normalizer, pre_tokenizer=draw(st.sampled_from(PRE_TOKENIZERS))
    )


def load(content: Definition, *ordinary: str) -> TokenizerJsonTokenizer:
    options = TokenizerJsonOptions(ordinary_added_tokens=list(ordinary))
    return build({"tokenizer": json.dumps(content).encode()}, options)


def library_without(content: Definition, spellings: Iterable[str]) -> LibraryTokenizer:
    """The library's tokenizer when `spellings` are no tokens."""
    names = {
        spelling: f"{spelling[0]}\U000ff000{number}\U000ff001{spelling[-1]}"
        for number, spelling in enumerate(spellings)
    }
    hidden = copy.deepcopy(content)
    for entry in hidden["added_tokens"]:
        entry["content"] = names.get(entry["content"], entry["content"])
    model = hidden["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(piece, piece): n for piece, n in model["vocab"].items()}
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if "".join(merge) not in names]
    return LibraryTokenizer.from_str(json.dumps(hidden))


def check(content: Definition, texts: Iterable[str], allowed: frozenset[str]) -> None:
    """Every policy on each of `texts`; `allowed` is cut to the spellings that there are."""
    tokenizer = load(content)
    controls = tokenizer.controls
    allowed &= frozenset(controls)
    literal = library_without(content, controls)
    special = library_without(content, ())
    narrowed = library_without(content, [name for name in controls if name not in allowed])
    control_ids = set(controls.values()) - {tokenizer.unknown_id}

    def expected(library: LibraryTokenizer, text: str) -> list[int]:
        ids: list[int] = library.encode(text, add_special_tokens=False).ids
        return ids

    for text in texts:
        ids = tokenizer.encode(text)
        assert not control_ids & set(ids), ascii(text)
        assert ids == expected(literal, text), ascii(text)
        assert tokenizer.encode_special(text) == expected(special, text), ascii(text)
        spans = tokenizer.find_controls(text, None)
        assert tokenizer.encode_spans(text, spans) == expected(special, text), ascii(text)
        spans = tokenizer.find_controls(text, allowed)
        assert all(text[s.start : s.end].strip() == text[s.start : s.end] for s in spans), spans
        found = tokenizer.encode_spans(text, spans)
        assert found == expected(narrowed, text), (ascii(text), sorted(allowed))


TEXTS = st.lists(
    st.sampled_from(
        [
            *SPELLINGS * 2,
            *LETTERS,
            *("  ", "<a>b</s>", "<A>", "[b]", "<\u00c9>", "<e\u0301>", "q", "\n"),
        ]
    ),
    max_size=8,
).map("".join)


@property_settings(400)
@given(
    definitions(),
    st.lists(TEXTS, min_size=5, max_size=5),
    st.frozensets(st.sampled_from(SPELLINGS)),
)
def test_any_file_gives_the_librarys_ids(
    content: Definition, texts: list[str], allowed: frozenset[str]
) -> None:
    check(content, texts, allowed)


PREFIXED = ["<a>", "a<a>", "a <a>", " <a>", "a <a> b", "  <a>", "<a> <a>", "<a><a>"]


@pytest.mark.parametrize("text", PREFIXED)
def test_a_normalizer_that_puts_a_prefix(text: str) -> None:
    """Llama's first files: `<s>` is looked for in normalized text, as the library does it."""
    model = bpe([])
    added = [token("<a>", len(model["vocab"]), normalized=True)]
    check(definition(model, added, normalizer=PREFIX), [text], frozenset({"<a>"}))


def test_ordinary_added_tokens_of_any_letter() -> None:
    """Whatever stands in for a control spelling must hold no ordinary added token."""
    model = bpe([*"0123456789abcdef"])
    digits = [token(letter, model["vocab"][letter], special=False) for letter in "0123456789abcdef"]
    added = [*digits, token("<x>", len(model["vocab"]), normalized=True)]
    content = definition(model, added)
    check(content, ["<x>", "n<x>n", " <x> ", "0<x>a"], frozenset({"<x>"}))


def test_a_token_that_is_ordinary_by_the_lock() -> None:
    model = bpe([])
    added = [token("<a>", len(model["vocab"])), token("[B]", len(model["vocab"]) + 1)]
    tokenizer = load(definition(model, added), "[B]")
    assert set(tokenizer.controls) == {"<a>"}
    assert tokenizer.encode("x[B]<a>")[1] == added[1]["id"]
    assert added[0]["id"] not in tokenizer.encode("x[B]<a>")
    with pytest.raises(FormatError, match="'<s>' is no added token"):
        load(definition(model, added), "<s>")


REPLACE = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
FALLBACK = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
METASPACE = {
    "type": "Metaspace",
    "replacement": "\u2581",
    "prepend_scheme": "always",
    "split": True,
}
BYTE_DECODERS = {
    "Llama": [REPLACE, FALLBACK, FUSE, STRIP],
    "Gemma": [REPLACE, FALLBACK, FUSE],
    "no Fuse": [REPLACE, FALLBACK],
    "bytes alone": [FALLBACK],
    "bytes and Fuse": [FALLBACK, FUSE],
    "bytes and Metaspace": [FALLBACK, METASPACE],
}
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


@pytest.mark.parametrize("flag", [True, False], ids=["byte_fallback", "no byte_fallback"])
@pytest.mark.parametrize("steps", BYTE_DECODERS.values(), ids=BYTE_DECODERS.keys())
def test_byte_pieces_decode_as_bytes_or_the_file_is_refused(
    steps: list[Definition], *, flag: bool
) -> None:
    """No U+FFFD that the ids do not spell, and none that the strict mode would not see."""
    vocab = _numbered(["<unk>", *BYTE_PIECES, "a", "\u2581a"])
    model = {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "<unk>"}
    content = definition(
        {**model, "byte_fallback": flag}, [], decoder={"type": "Sequence", "decoders": steps}
    )
    try:
        tokenizer = load(content)
    except FormatError:
        return
    library = LibraryTokenizer.from_str(json.dumps(content))

    @property_settings(60)
    @given(st.lists(st.sampled_from(["<0xC3>", "<0xA9>", "<0x41>", "a", "\u2581a"]), max_size=6))
    def check_decoding(pieces: list[str]) -> None:
        ids = [vocab[piece] for piece in pieces]
        joined = tokenizer.decode_bytes(ids)
        assert b"".join(tokenizer.byte_parts(ids)) == joined, pieces
        assert b"\xef\xbf\xbd" not in joined, pieces
        if is_utf8(joined):
            assert joined.decode() == library.decode(ids, skip_special_tokens=False), pieces

    check_decoding()
