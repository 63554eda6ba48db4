"""Loading artifacts: what stops a start, each with one line, and what a loaded catalog is."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import json
from typing import TYPE_CHECKING, Any

import pytest
from sentencepiece import sentencepiece_model_pb2 as model_proto

from service.catalog.loading import load_catalog
from service.catalog.probes import probe_count, probes_digest
from service.errors import ArtifactError, FingerprintMismatch, UnknownTokenizer
from tests.locks import DATA, EMBEDDED_LOCK, LockedFolder

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Sequence

    from service.catalog.catalog import Catalog, Entry

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1681126\n"
PAGE = b"<!doctype html><title>Sign in</title>"


class Case:
    """Files and options of one artifact. `changed` gives another case with other ones."""

    def __init__(
        self,
        artifact_format: str,
        files: dict[str, bytes],
        options: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.format, self.files, self.options, self.more = (
            artifact_format,
            files,
            options or {},
            more,
        )

    def with_options(self, **options: Any) -> Case:
        """With further options, or other values of those; None leaves one out."""
        merged = {**self.options, **options}
        kept = {name: value for name, value in merged.items() if value is not None}
        return Case(self.format, self.files, kept, **self.more)

    def with_files(self, **files: bytes | None) -> Case:
        """With further files, or other bytes; None leaves one out."""
        merged = {**self.files, **files}
        kept = {role: data for role, data in merged.items() if data is not None}
        return Case(self.format, kept, self.options, **self.more)

    def with_keys(self, **more: Any) -> Case:
        """With further keys of the artifact."""
        return Case(self.format, self.files, self.options, **more)

    def add_to(self, folder: LockedFolder, name: str = "case") -> None:
        folder.add(name, self.format, self.files, self.options, **self.more)


# ---- small artifacts of every format ------------------------------------------------------


def rank_lines(ranks: Sequence[tuple[bytes, object]]) -> bytes:
    return b"".join(
        base64.b64encode(token) + b" %s\n" % str(rank).encode() for token, rank in ranks
    )


RANKS: list[tuple[bytes, object]] = [(bytes([byte]), byte) for byte in range(256)]
RANKS += [(b"he", 256), (b"ll", 257), (b"hell", 258)]
END, MIDDLE = "<|end|>", "<|middle|>"

TIKTOKEN = Case(
    "tiktoken",
    {"ranks": rank_lines(RANKS)},
    {"pattern": r"\w+|\s+|[^\w\s]+", "special_tokens": {END: 300}},
)


def ranks(*changed: tuple[bytes, object], leave_out: bytes | None = None) -> Case:
    kept = [(token, rank) for token, rank in RANKS if token != leave_out]
    return TIKTOKEN.with_files(ranks=rank_lines([*kept, *changed]))


def added(content: str, token_id: int, **flags: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": token_id, "content": content, **plain, **flags}


def definition(**parts: Any) -> dict[str, Any]:
    """A small tokenizer.json with a word-level model."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added("[UNK]", 0, special=True)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
        **parts,
    }


def tokenizer_json(**parts: Any) -> Case:
    return Case("tokenizer_json", {"tokenizer": json.dumps(definition(**parts)).encode()})


UNKNOWN = {"unk_token": "<unk>"}
ANOTHER_UNKNOWN = {"unk_token": "[UNK]"}


def words(vocab: dict[str, int]) -> dict[str, Any]:
    return {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}


def bpe(vocab: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"type": "BPE", "vocab": vocab, "merges": [], **more}


def letters() -> list[str]:
    """GPT-2's letters for bytes (openai/gpt-2, encoder.py), in the order of the bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def byte_level(without: Sequence[int] = (), **model: Any) -> Case:
    kept = [letter for byte, letter in enumerate(letters()) if byte not in without]
    part = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocab = {letter: number for number, letter in enumerate(kept)}
    return tokenizer_json(
        added_tokens=[], pre_tokenizer=part, decoder=part, model=bpe(vocab, **model)
    )


def byte_fallback(without: Sequence[int] = ()) -> Case:
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256) if byte not in without), "a"]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    return tokenizer_json(
        added_tokens=[added("<unk>", 0, special=True)],
        pre_tokenizer=None,
        decoder={
            "type": "Sequence",
            "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}],
        },
        model=bpe(vocab, **UNKNOWN, byte_fallback=True, fuse_unk=True),
    )


NEVER_IN_UTF8 = [0xC0, 0xC1, *range(0xF5, 0x100)]

UNIGRAM = Case(
    "sentencepiece",
    {"model": (DATA / "synthetic" / "uni_nmt_nfkc.model").read_bytes()},
    {"ordinary_pieces": ["<sep>"]},
)
BYTE_FALLBACK = Case(
    "sentencepiece", {"model": (DATA / "synthetic" / "uni_bytefb.model").read_bytes()}
)


def edited_model(case: Case, edit: Callable[[Any], None]) -> Case:
    """The case with its SentencePiece model edited."""
    model = model_proto.ModelProto()
    model.ParseFromString(case.files["model"])
    edit(model)
    return case.with_files(model=model.SerializeToString())


def without_byte_piece(byte: int, model: Any) -> None:
    (piece,) = (piece for piece in model.pieces if piece.piece == f"<0x{byte:02X}>")
    piece.piece, piece.type = "qqqq", model_proto.ModelProto.SentencePiece.NORMAL


def with_piece_twice(model: Any) -> None:
    model.pieces[-1].piece = model.pieces[-2].piece


def with_marker(spelling: str, model: Any) -> None:
    piece = model.pieces.add()
    piece.piece, piece.score = spelling, 0.0
    piece.type = model_proto.ModelProto.SentencePiece.USER_DEFINED


VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s"]
WORDPIECE = Case(
    "wordpiece",
    {"vocab": "".join(f"{piece}\n" for piece in VOCAB).encode()},
    {"lowercase": True, "template": {"before": ["[CLS]"], "after": ["[SEP]"]}},
)

MERGES = Case(
    "bpe_merges",
    {"merges": b"#version: 0.2\nh e\nl l</w>\nhe l</w>\n"},
    {
        "base_alphabet": "bytes",
        "pattern": r"\w+|[^\w\s]+",
        "special_tokens": {END: 515},
        "template": {"after": [END]},
    },
)
CHARACTERS = Case(
    "bpe_merges",
    {
        "merges": b"a b</w>\n",
        "vocab": json.dumps({"<unk>": 0, "a": 1, "b": 2, "b</w>": 3, "ab</w>": 4}).encode(),
    },
    {"base_alphabet": "characters", "pattern": r"\w+", "unk_token": "<unk>"},
)

MINBPE = Case("minbpe", {"model": b"minbpe v1\n\n1\n<|end|> 300\n104 101\n256 108\n"})


def minbpe(*lines: str) -> Case:
    return MINBPE.with_files(model="".join(f"{line}\n" for line in lines).encode())


GOOD: dict[str, Case] = {
    "tiktoken": TIKTOKEN,
    "tiktoken without specials": TIKTOKEN.with_options(special_tokens={}),
    "tiktoken with a hole": ranks((b"hello", 299)),
    "tokenizer_json": tokenizer_json(),
    "tokenizer_json without added tokens": tokenizer_json(added_tokens=[]),
    "tokenizer_json with files beside": tokenizer_json().with_files(
        config=b'{"unk_token": "[UNK]"}', chat_template=b"{{ messages }}"
    ),
    "byte-level": byte_level(),
    "byte-level without bytes that no text has": byte_level(NEVER_IN_UTF8),
    "byte-level with dropout 0": byte_level(dropout=0.0),
    "byte fallback": byte_fallback(),
    "byte fallback without bytes that no text has": byte_fallback(NEVER_IN_UTF8),
    "unigram": UNIGRAM,
    "unigram with a marker that is special": UNIGRAM.with_options(
        ordinary_pieces=None, parse_special=["<sep>"]
    ),
    "unigram with byte fallback": BYTE_FALLBACK,
    "sentencepiece with a template file": UNIGRAM.with_files(chat_template=b"{{ messages }}"),
    "wordpiece": WORDPIECE,
    "wordpiece with CRLF": WORDPIECE.with_files(vocab="\r\n".join(VOCAB).encode() + b"\r\n"),
    "bpe_merges": MERGES,
    "bpe_merges of characters": CHARACTERS,
    "minbpe": MINBPE,
}

BAD: dict[str, tuple[Case, Sequence[str]]] = {
    # the artifact as such
    "unknown format": (Case("gguf", {"model": b"x"}), ["'gguf'", "tiktoken", "minbpe"]),
    "format in capitals": (Case("TikToken", TIKTOKEN.files, TIKTOKEN.options), ["'TikToken'"]),
    "a role that the format has not": (TIKTOKEN.with_files(vocab=b"x"), ["vocab", "ranks"]),
    "a role that the format needs": (
        Case("tiktoken", {"model": b"x"}, TIKTOKEN.options),
        ["ranks", "model"],
    ),
    "a chat template that nothing could render": (
        TIKTOKEN.with_files(chat_template=b"x"),
        ["chat_template"],
    ),
    "unknown option": (TIKTOKEN.with_options(patern="x"), ["patern"]),
    "unknown option of a template": (
        WORDPIECE.with_options(template={"front": ["[CLS]"]}),
        ["front"],
    ),
    "option of another format": (TIKTOKEN.with_options(lowercase=True), ["lowercase"]),
    "option of another type": (WORDPIECE.with_options(lowercase="yes"), ["bool", "lowercase"]),
    "probes that moved": (TIKTOKEN.with_keys(probes="sha256:" + "0" * 64), ["probe", "0" * 64]),
    "fingerprint that moved": (
        TIKTOKEN.with_keys(fingerprint="sha256:" + "0" * 64),
        ["fingerprint", "0" * 64],
    ),
    # tiktoken
    "ranks: two tokens on one id": (ranks((b"hi", 256)), ["256", "2 tokens", "ranks.data"]),
    "ranks: a token twice": (ranks((b"he", 259)), ["line 260", "twice"]),
    "ranks: a byte is missing": (ranks(leave_out=b"!"), ["256 bytes", "0x21"]),
    "ranks: a byte that no text has is missing": (ranks(leave_out=b"\xff"), ["0xff"]),
    "ranks: a negative rank": (ranks((b"hi", -1)), ["-1"]),
    "ranks: a rank that is no number": (ranks((b"hi", "abc")), ["line 260"]),
    "ranks: a rank with an underscore": (ranks((b"hi", "2_59")), ["line 260"]),
    "ranks: a rank with a sign": (ranks((b"hi", "+259")), ["line 260"]),
    "ranks: a rank beyond 32 bits": (ranks((b"hi", 2**32)), []),
    "ranks: a line without rank": (TIKTOKEN.with_files(ranks=b"IQ==\n"), ["line 1"]),
    "ranks: a line with more": (TIKTOKEN.with_files(ranks=b"IQ== 0 0\n"), ["line 1"]),
    "ranks: an empty line": (TIKTOKEN.with_files(ranks=b"\n"), ["line 1"]),
    "ranks: no base64": (TIKTOKEN.with_files(ranks=b"I!== 0\n"), ["line 1"]),
    "ranks: cut within a line": (TIKTOKEN.with_files(ranks=TIKTOKEN.files["ranks"][:-6]), []),
    "ranks: an empty file": (TIKTOKEN.with_files(ranks=b""), ["256"]),
    "ranks: a Git LFS pointer": (TIKTOKEN.with_files(ranks=LFS), ["Git LFS", "ranks.data"]),
    "ranks: a page": (TIKTOKEN.with_files(ranks=PAGE), ["line 1"]),
    "ranks: a special id is an ordinary one": (
        TIKTOKEN.with_options(special_tokens={END: 258}),
        [END, "258"],
    ),
    "ranks: one id for two specials": (
        TIKTOKEN.with_options(special_tokens={END: 300, MIDDLE: 300}),
        ["300"],
    ),
    "ranks: a special begins another": (
        TIKTOKEN.with_options(special_tokens={"<|end": 300, END: 301}),
        ["'<|end'", repr(END)],
    ),
    "ranks: an empty special": (TIKTOKEN.with_options(special_tokens={"": 300}), ["empty"]),
    "ranks: a negative special": (TIKTOKEN.with_options(special_tokens={END: -5}), ["-5"]),
    "ranks: a special id in quotes": (TIKTOKEN.with_options(special_tokens={END: "300"}), ["int"]),
    "ranks: no pattern": (TIKTOKEN.with_options(pattern=None), ["pattern"]),
    "ranks: no specials": (TIKTOKEN.with_options(special_tokens=None), ["special_tokens"]),
    "ranks: a bad pattern": (TIKTOKEN.with_options(pattern="(a"), ["pattern"]),
    # tokenizer_json
    "json: cut": (
        Case("tokenizer_json", {"tokenizer": tokenizer_json().files["tokenizer"][:-40]}),
        ["tokenizer.data", "JSON"],
    ),
    "json: a list": (Case("tokenizer_json", {"tokenizer": b"[]"}), ["tokenizer.data"]),
    "json: an empty file": (Case("tokenizer_json", {"tokenizer": b""}), ["tokenizer.data"]),
    "json: a Git LFS pointer": (Case("tokenizer_json", {"tokenizer": LFS}), ["Git LFS"]),
    "json: a page": (Case("tokenizer_json", {"tokenizer": PAGE}), ["tokenizer.data"]),
    "json: no UTF-8": (
        Case("tokenizer_json", {"tokenizer": b'{"model": {"vocab": {"\xff": 0}}}'}),
        [],
    ),
    "json: no model": (tokenizer_json(model=None), ["model"]),
    "json: no vocabulary": (tokenizer_json(model={"type": "WordLevel"}), ["vocab"]),
    "json: a vocabulary of another type": (tokenizer_json(model=words("a b")), []),  # type: ignore[arg-type]
    "json: an id of another type": (tokenizer_json(model=words({"[UNK]": 0, "a": "1"})), []),  # type: ignore[dict-item]
    "json: an unknown pre-tokenizer": (
        tokenizer_json(pre_tokenizer={"type": "FutureSplit"}),
        ["tokenizer.data"],
    ),
    "json: an unknown normalizer": (tokenizer_json(normalizer={"type": "Future"}), []),
    "json: an unknown decoder": (tokenizer_json(decoder={"type": "Future"}), []),
    "json: an unknown post-processor": (tokenizer_json(post_processor={"type": "Future"}), []),
    "json: an unknown model": (
        tokenizer_json(model={"type": "Future", "vocab": {"[UNK]": 0, "a": 1}}),
        [],
    ),
    "json: dropout": (byte_level(dropout=0.1), ["dropout"]),
    "json: two pieces on one id": (
        tokenizer_json(model=words({"[UNK]": 0, "a": 1, "b": 1})),
        ["id 1", "2 tokens"],
    ),
    "json: a piece twice": (
        Case(
            "tokenizer_json",
            {"tokenizer": tokenizer_json().files["tokenizer"].replace(b'"b": 2', b'"a": 2')},
        ),
        ["'a'"],
    ),
    "json: a unigram piece twice": (
        tokenizer_json(
            added_tokens=[],
            model={
                "type": "Unigram",
                "unk_id": 0,
                "vocab": [["<unk>", 0.0], ["a", -1.0], ["a", -2.0]],
            },
        ),
        ["'a'"],
    ),
    "json: a negative id": (tokenizer_json(model=words({"[UNK]": 0, "a": -1})), ["-1"]),
    "json: an added token on the id of a piece": (
        tokenizer_json(added_tokens=[added("[UNK]", 0), added("<x>", 2, special=True)]),
        ["'<x>'", "2", "'b'"],
    ),
    "json: two added tokens on one id": (
        tokenizer_json(added_tokens=[added("<x>", 3), added("<y>", 3)]),
        ["id 3"],
    ),
    "json: an added token twice": (
        tokenizer_json(added_tokens=[added("<x>", 3), added("<x>", 4)]),
        [],
    ),
    "json: an added token whose id the library would change": (
        tokenizer_json(added_tokens=[added("[UNK]", 0), added("<x>", 99, special=True)]),
        ["'<x>'", "99"],
    ),
    "json: a piece that is added under another id": (
        tokenizer_json(added_tokens=[added("a", 3, special=True)]),
        ["'a'", "3"],
    ),
    "json: an added token without id": (
        tokenizer_json(added_tokens=[{"content": "<x>", "special": True}]),
        [],
    ),
    "json: byte-level without a byte": (byte_level([0x21]), ["byte", "0x21"]),
    "json: byte-level without a byte of four-byte characters": (byte_level([0xF0]), ["0xf0"]),
    "json: byte fallback without a byte": (byte_fallback([0x41]), ["byte", "0x41"]),
    "json: an ordinary added token that is none": (
        tokenizer_json().with_options(ordinary_added_tokens=["<x>"]),
        ["'<x>'"],
    ),
    "json: a config that is cut": (tokenizer_json().with_files(config=b'{"a"'), ["config.data"]),
    # sentencepiece
    "model: an unlisted marker": (
        UNIGRAM.with_options(ordinary_pieces=None),
        ["'<sep>'", "parse_special", "ordinary_pieces", "model.data"],
    ),
    "model: an unlisted marker in brackets": (
        edited_model(UNIGRAM, functools.partial(with_marker, "[INST]")),
        ["'[INST]'"],
    ),
    "model: a marker both special and ordinary": (
        UNIGRAM.with_options(parse_special=["<sep>"]),
        ["'<sep>'", "both"],
    ),
    "model: a special piece that is none": (
        UNIGRAM.with_options(parse_special=["<cls>"]),
        ["'<cls>'"],
    ),
    "model: an ordinary piece that is none": (
        UNIGRAM.with_options(ordinary_pieces=["<sep>", "<cls>"]),
        ["'<cls>'"],
    ),
    "model: a template of what is not special": (
        UNIGRAM.with_options(template={"before": ["<sep>"]}),
        ["'<sep>'", "template"],
    ),
    "model: byte fallback without a byte": (
        edited_model(BYTE_FALLBACK, functools.partial(without_byte_piece, 0x41)),
        ["byte", "0x41"],
    ),
    "model: a piece twice": (edited_model(UNIGRAM, with_piece_twice), ["twice"]),
    "model: cut": (UNIGRAM.with_files(model=UNIGRAM.files["model"][:-1000]), ["model.data"]),
    "model: an empty file": (UNIGRAM.with_files(model=b""), ["model.data"]),
    "model: a Git LFS pointer": (UNIGRAM.with_files(model=LFS), ["Git LFS"]),
    "model: a page": (UNIGRAM.with_files(model=PAGE), ["model.data"]),
    # wordpiece
    "vocab: no unknown token": (WORDPIECE.with_files(vocab=b"[PAD]\nhello\n"), ["'[UNK]'"]),
    "vocab: another unknown token": (WORDPIECE.with_options(**UNKNOWN), ["'<unk>'"]),
    "vocab: a piece twice": (
        WORDPIECE.with_files(vocab=WORDPIECE.files["vocab"] + b"hello\n"),
        ["line 9", "line 6"],
    ),
    "vocab: no UTF-8": (WORDPIECE.with_files(vocab=b"[UNK]\n\xff\n"), ["UTF-8"]),
    "vocab: an empty file": (WORDPIECE.with_files(vocab=b""), ["'[UNK]'"]),
    "vocab: a Git LFS pointer": (WORDPIECE.with_files(vocab=LFS), ["Git LFS"]),
    "vocab: a special id is an ordinary one": (
        WORDPIECE.with_options(special_tokens={"<x>": 5}),
        ["'<x>'", "5"],
    ),
    "vocab: a special that is a piece of another id": (
        WORDPIECE.with_options(special_tokens={"hello": 8}),
        ["'hello'"],
    ),
    "vocab: a special id that the library would change": (
        WORDPIECE.with_options(special_tokens={"<x>": 99}),
        ["'<x>'", "99"],
    ),
    "vocab: a template of what is not special": (
        WORDPIECE.with_options(template={"before": ["hello"]}),
        ["'hello'"],
    ),
    "vocab: nothing said of case": (WORDPIECE.with_options(lowercase=None), ["lowercase"]),
    # bpe_merges
    "merges: a line of one symbol": (MERGES.with_files(merges=b"h\n"), ["line 1"]),
    "merges: a line of three symbols": (MERGES.with_files(merges=b"h e l\n"), ["line 1"]),
    "merges: a merge twice": (MERGES.with_files(merges=b"h e\nh e\n"), ["line 2", "twice"]),
    "merges: two that make one piece": (
        MERGES.with_files(merges=b"h e\nl l\nhe l\nel l\nh el\n"),
        [],
    ),
    "merges: a symbol that nothing makes": (MERGES.with_files(merges=b"xyz e\n"), ["'xyz'"]),
    "merges: no UTF-8": (MERGES.with_files(merges=b"h \xff\n"), ["UTF-8"]),
    "merges: a Git LFS pointer": (MERGES.with_files(merges=LFS), ["Git LFS"]),
    "merges: a special id is an ordinary one": (
        MERGES.with_options(special_tokens={END: 5}),
        [END, "5"],
    ),
    "merges: one id for two specials": (
        MERGES.with_options(special_tokens={END: 515, MIDDLE: 515}),
        ["515"],
    ),
    "merges: a special id that the library would change": (
        MERGES.with_options(special_tokens={END: 600}),
        [END, "600"],
    ),
    "merges: a bad pattern": (MERGES.with_options(pattern="(a"), []),
    "merges: an unknown normalizer": (MERGES.with_options(normalizers=["nfd"]), ["normalizers"]),
    "merges: an unknown alphabet": (MERGES.with_options(base_alphabet="utf-8"), ["base_alphabet"]),
    "merges: a template of what is not special": (
        MERGES.with_options(template={"after": ["he"]}),
        ["'he'"],
    ),
    "merges: bytes without a byte": (
        MERGES.with_files(
            merges=b"",
            vocab=json.dumps({letter: n for n, letter in enumerate(letters()[:-1])}).encode(),
        ),
        ["byte"],
    ),
    "merges: characters without a vocabulary": (CHARACTERS.with_files(vocab=None), ["vocab"]),
    "merges: characters without an unknown token": (
        CHARACTERS.with_options(unk_token=None),
        ["unk_token"],
    ),
    "merges: an unknown token that is no piece": (
        CHARACTERS.with_options(**ANOTHER_UNKNOWN),
        ["'[UNK]'"],
    ),
    "merges: two pieces on one id": (
        CHARACTERS.with_files(vocab=b'{"<unk>": 0, "a": 1, "b": 1, "b</w>": 3, "ab</w>": 4}'),
        ["id 1"],
    ),
    "merges: a vocabulary that is cut": (CHARACTERS.with_files(vocab=b'{"<unk>": 0'), ["vocab"]),
    # minbpe
    "minbpe: another header": (minbpe("minbpe v2", "", "0"), ["line 1"]),
    "minbpe: a special id is an ordinary one": (
        minbpe("minbpe v1", "", "1", "<|end|> 256", "104 101"),
        ["line 4"],
    ),
    "minbpe: a special id is a byte": (minbpe("minbpe v1", "", "1", "<|end|> 65"), ["line 4"]),
    "minbpe: one id for two specials": (
        minbpe("minbpe v1", "", "2", "<|end|> 300", "<|middle|> 300"),
        ["300"],
    ),
    "minbpe: a special begins another": (
        minbpe("minbpe v1", "", "2", "<|end 300", "<|end|> 301"),
        ["'<|end'"],
    ),
    "minbpe: a merge of what is not yet made": (minbpe("minbpe v1", "", "0", "104 300"), ["300"]),
    "minbpe: a pair twice": (minbpe("minbpe v1", "", "0", "104 101", "104 101"), ["twice"]),
    "minbpe: a bad pattern": (minbpe("minbpe v1", "(a", "0"), ["pattern"]),
    "minbpe: cut": (MINBPE.with_files(model=MINBPE.files["model"][:-3]), []),
    "minbpe: an empty file": (MINBPE.with_files(model=b""), []),
    "minbpe: a Git LFS pointer": (MINBPE.with_files(model=LFS), ["Git LFS"]),
}


def refusal(folder: LockedFolder) -> str:
    """The one line with which a folder is refused."""
    with pytest.raises(ArtifactError) as caught:
        load_catalog(folder.root)
    line = str(caught.value)
    assert len(line.splitlines()) == 1, line
    return line


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> LockedFolder:
    return LockedFolder(tmp_path / "artifacts")


@pytest.mark.parametrize("name", GOOD)
def test_a_good_artifact(folder: LockedFolder, name: str) -> None:
    """Each refusal below is one change of one of these."""
    GOOD[name].add_to(folder)
    (entry,) = load_catalog(folder.root)
    assert entry.name == "case"


@pytest.mark.parametrize("name", BAD)
def test_a_refusal(folder: LockedFolder, name: str) -> None:
    case, words_of_the_line = BAD[name]
    case.add_to(folder)
    line = refusal(folder)
    assert "'case'" in line, line
    for part in words_of_the_line:
        assert part in line, line


OF_A_FILE = {
    "ranks": TIKTOKEN,
    "json": tokenizer_json(),
    "model": UNIGRAM,
    "vocab": WORDPIECE,
    "merges": MERGES,
    "minbpe": MINBPE,
}


def faults_of_a_file() -> list[str]:
    """The refusals whose only change is in the artifact's one file."""
    return [
        name
        for name, (case, _) in BAD.items()
        if (base := OF_A_FILE.get(name.split(":")[0])) is not None
        and case.options == base.options
        and set(case.files) == set(base.files)
    ]


@pytest.mark.parametrize("name", faults_of_a_file())
def test_a_refusal_of_a_file_names_it(folder: LockedFolder, name: str) -> None:
    BAD[name][0].add_to(folder)
    (file,) = folder.artifacts[0]["file"]
    line = refusal(folder)
    assert repr(file["path"]) in line
    assert file["sha256"] in line or "Git LFS" in line, "which bytes were refused"


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "post_processor", "decoder"])
def test_a_component_that_the_library_does_not_know_is_named(
    folder: LockedFolder, part: str
) -> None:
    """LD08: the library says "untagged enum", which tells a person nothing."""
    tokenizer_json(**{part: {"type": "FutureThing"}}).add_to(folder)
    line = refusal(folder)
    assert "FutureThing" in line
    assert importlib.metadata.version("tokenizers") in line


@pytest.mark.parametrize("name", ["tiktoken", "tokenizer_json", "unigram", "wordpiece", "minbpe"])
def test_tampered_with_after_the_lock_was_made(folder: LockedFolder, name: str) -> None:
    case = GOOD[name]
    ((role, data),) = case.files.items()
    middle = len(data) // 2
    other = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    folder.add("case", case.format, case.files, case.options, written={role: other})
    line = refusal(folder)
    assert "sha256" in line
    assert folder.artifacts[0]["file"][0]["path"] in line


def test_the_first_refusal_stops_the_start(folder: LockedFolder) -> None:
    TIKTOKEN.add_to(folder, "good")
    BAD["ranks: a byte is missing"][0].add_to(folder, "first-bad")
    BAD["json: cut"][0].add_to(folder, "second-bad")
    line = refusal(folder)
    assert "'first-bad'" in line
    assert "second-bad" not in line


def test_pinned_probes_and_fingerprint_that_hold(folder: LockedFolder) -> None:
    for name, case in GOOD.items():
        case.add_to(folder, name.replace(" ", "_"))
    for artifact, entry in zip(folder.artifacts, load_catalog(folder.root), strict=True):
        artifact["probes"] = probes_digest(entry.tokenizer, entry.chat)
        artifact["fingerprint"] = entry.fingerprint
    folder.write()
    assert len(list(load_catalog(folder.root))) == len(GOOD)


def test_a_library_that_gives_other_ids_stops_the_start(
    folder: LockedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    TIKTOKEN.add_to(folder)
    (entry,) = load_catalog(folder.root)
    folder.artifacts[0]["probes"] = probes_digest(entry.tokenizer, entry.chat)
    folder.write()
    load_catalog(folder.root)
    really = type(entry.tokenizer).encode
    # The same bytes under another segmentation, as a library with another pattern engine gives.
    monkeypatch.setattr(
        type(entry.tokenizer),
        "encode",
        lambda self, text: [i for part in text for i in really(self, part)],
    )
    line = refusal(folder)
    assert "probe" in line
    assert folder.artifacts[0]["probes"] in line


def test_a_literal_text_that_leaks_stops_the_start(
    folder: LockedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    TIKTOKEN.add_to(folder)
    (entry,) = load_catalog(folder.root)
    kind = type(entry.tokenizer)
    monkeypatch.setattr(kind, "encode", kind.encode_special)
    assert "300" in refusal(folder)


def test_a_round_trip_that_breaks_stops_the_start(
    folder: LockedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    TIKTOKEN.add_to(folder)
    (entry,) = load_catalog(folder.root)
    kind = type(entry.tokenizer)
    really = kind.decode_bytes
    monkeypatch.setattr(kind, "decode_bytes", lambda self, ids: really(self, ids).strip())
    assert "decode" in refusal(folder)


# ---- the loaded catalog -------------------------------------------------------------------


def test_names_and_aliases(folder: LockedFolder) -> None:
    TIKTOKEN.with_keys(aliases=["other", "third"]).add_to(folder, "one")
    WORDPIECE.add_to(folder, "two")
    catalog = load_catalog(folder.root)
    assert [entry.name for entry in catalog] == ["one", "two"]
    for name in ("one", "other", "third"):
        assert catalog.resolve(name).name == "one"
    for name in ("One", "on", "", "oth*"):
        with pytest.raises(UnknownTokenizer) as caught:
            catalog.resolve(name)
        assert caught.value.members == {"tokenizers": ["one", "two"]}


def test_an_entry_expects(folder: LockedFolder) -> None:
    TIKTOKEN.add_to(folder)
    (entry,) = load_catalog(folder.root)
    entry.expect(None)
    entry.expect(entry.fingerprint)
    with pytest.raises(FingerprintMismatch):
        entry.expect("sha256:" + "0" * 64)


def test_sizes_and_holes(folder: LockedFolder) -> None:
    ranks((b"hello", 262)).with_options(special_tokens={END: 264}).add_to(folder)
    (entry,) = load_catalog(folder.root)
    assert entry.vocabulary_size == 261
    assert entry.max_id == 264
    assert entry.holes == [259, 260, 261, 263]


def loaded(case: Case, folder: LockedFolder, name: str = "case") -> Entry:
    """The case alone, loaded, in a folder of its own."""
    own = LockedFolder(folder.root / f"{len(list(folder.root.iterdir()))}")
    case.add_to(own, name)
    (entry,) = load_catalog(own.root)
    return entry


CHANGED: dict[str, tuple[Case, Case]] = {
    "two ids swapped": (
        TIKTOKEN,
        TIKTOKEN.with_files(
            ranks=rank_lines([*RANKS[:256], (b"he", 257), (b"ll", 256), (b"hell", 258)])
        ),
    ),
    "another pattern": (TIKTOKEN, TIKTOKEN.with_options(pattern=r"\w+|\s|[^\w\s]+")),
    "another special token": (TIKTOKEN, TIKTOKEN.with_options(special_tokens={MIDDLE: 300})),
    "another special id": (TIKTOKEN, TIKTOKEN.with_options(special_tokens={END: 301})),
    "no special token": (TIKTOKEN, TIKTOKEN.with_options(special_tokens={})),
    "another option": (WORDPIECE, WORDPIECE.with_options(lowercase=False)),
    "another limit": (WORDPIECE, WORDPIECE.with_options(max_input_chars_per_word=99)),
    "another frame": (WORDPIECE, WORDPIECE.with_options(template={"before": ["[CLS]"]})),
    "another normalizer": (MERGES, MERGES.with_options(normalizers=["lowercase"])),
    "another byte of a file": (WORDPIECE, GOOD["wordpiece with CRLF"]),
    "a chat template": (UNIGRAM, GOOD["sentencepiece with a template file"]),
    "a marker that is special": (UNIGRAM, GOOD["unigram with a marker that is special"]),
}


@pytest.mark.parametrize("change", CHANGED)
def test_the_fingerprint_moves(folder: LockedFolder, change: str) -> None:
    before, after = (loaded(case, folder) for case in CHANGED[change])
    assert before.fingerprint != after.fingerprint


SAME: dict[str, tuple[Case, Case]] = {
    "an alias": (TIKTOKEN, TIKTOKEN.with_keys(aliases=["other"])),
    "a licence": (TIKTOKEN, TIKTOKEN.with_keys(license="MIT")),
    "a source": (TIKTOKEN, TIKTOKEN.with_keys(source="elsewhere")),
    "a default written out": (WORDPIECE, WORDPIECE.with_options(max_input_chars_per_word=100)),
    "the order of special tokens": (
        TIKTOKEN.with_options(special_tokens={END: 300, MIDDLE: 301}),
        TIKTOKEN.with_options(special_tokens={MIDDLE: 301, END: 300}),
    ),
}


@pytest.mark.parametrize("change", SAME)
def test_the_fingerprint_stays(folder: LockedFolder, change: str) -> None:
    before, after = (loaded(case, folder) for case in SAME[change])
    assert before.fingerprint == after.fingerprint
    assert loaded(SAME[change][0], folder, "another-name").fingerprint == before.fingerprint


def test_the_embedded_artifacts(catalog: Catalog) -> None:
    assert [entry.name for entry in catalog] == list(EMBEDDED_LOCK)
    for entry in catalog:
        assert entry.fingerprint == EMBEDDED_LOCK[entry.name]["fingerprint"]
        assert probes_digest(entry.tokenizer, entry.chat) == EMBEDDED_LOCK[entry.name]["probes"]
        assert probe_count(entry.tokenizer, entry.chat) > 60


def test_padding_and_truncation_of_a_file_are_dropped(catalog: Catalog) -> None:
    """The file of all-minilm-l6-v2 cuts at 128 and pads to 128."""
    tokenizer = catalog.resolve("all-minilm-l6-v2").tokenizer
    assert len(tokenizer.encode("hello " * 500)) == 500
    assert len(tokenizer.encode("hello")) == 1
