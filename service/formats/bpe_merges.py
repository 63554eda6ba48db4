"""Word BPE with an end-of-word suffix, from a merges file, by the tokenizers library.

Two families share the file: CLIP's merges are over GPT-2's letters for bytes, subword-nmt's
over characters.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import msgspec

from service.core.tokenizer import Facts
from service.formats import Format, FormatError, Options
from service.formats._byte_level import LETTER_OF_BYTE, letters_to_bytes
from service.formats._common import (
    Template,
    check_ids_distinct,
    check_spellings,
    checked_parts,
    roles_by_spelling,
)
from service.formats._definition import definition_of
from service.formats._twins import Twins, special_added_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.tokenizer import PairFrame
    from service.formats._definition import Definition

_NORMALIZERS: dict[str, dict[str, object]] = {
    "nfc": {"type": "NFC"},
    "nfkc": {"type": "NFKC"},
    "lowercase": {"type": "Lowercase"},
    "collapse_whitespace": {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
}

Normalizer = Literal["nfc", "nfkc", "lowercase", "collapse_whitespace", "strip"]
Merge = tuple[str, str]


class BpeMergesOptions(Options, frozen=True):
    """What a merges file does not say."""

    base_alphabet: Literal["bytes", "characters"]
    pattern: str
    """The regular expression that finds the words; text between its matches is dropped."""
    end_of_word_suffix: str = "</w>"
    unk_token: str | None = None
    normalizers: list[Normalizer] = []
    special_tokens: dict[str, int] = {}
    template: Template | None = None


class BpeMergesTokenizer:
    """Word BPE: the last symbol of a word carries the end-of-word suffix."""

    def __init__(
        self, vocab: Mapping[str, int], merges: Sequence[Merge], options: BpeMergesOptions
    ) -> None:
        self.controls: Mapping[str, int] = options.special_tokens
        definition = _definition(vocab, merges, options)
        self._twins = Twins(definition, self.controls)
        self._suffix = options.end_of_word_suffix
        self._by_bytes = options.base_alphabet == "bytes"
        special_ids = set(options.special_tokens.values())
        pieces = {
            token_id: piece for piece, token_id in vocab.items() if token_id not in special_ids
        }
        self._words = {token_id: self._split_suffix(piece) for token_id, piece in pieces.items()}
        self._words |= {
            token_id: (spelling.encode(), False)
            for spelling, token_id in options.special_tokens.items()
        }
        self.frame = (options.template or Template()).frame(self.controls)
        self.unknown_id = vocab.get(options.unk_token) if options.unk_token else None
        known = {} if self.unknown_id is None else {"unk": self.unknown_id}
        self.facts = Facts(
            library="tokenizers",
            pipeline={
                "normalizer": definition["normalizer"],
                "pre_tokenizer": definition["pre_tokenizer"],
                "model": {
                    "type": "BPE",
                    "alphabet": options.base_alphabet,
                    "end_of_word_suffix": options.end_of_word_suffix,
                    "unk_token": options.unk_token,
                },
                "post_processor": None,
                "decoder": {"type": "BPEDecoder", "suffix": options.end_of_word_suffix},
            },
            roles=roles_by_spelling(self.controls) | known,
            coverage="every_byte" if self._by_bytes else "unknown_token",
            round_trip="lossy",
        )
        # A frame of one text, which the option is, says nothing of two.
        self.pair_frame: PairFrame | None = None
        self.sizes = None
        self.word_by_word = self._twins.word_by_word
        self.encode = self._twins.encode
        self.encode_each = self._twins.encode_each
        self.count = self._twins.count
        self.encode_special = self._twins.encode_special
        self.encode_spans = self._twins.encode_spans
        self.find_controls = self._twins.find_controls
        self.align = self._twins.align

    def _split_suffix(self, piece: str) -> tuple[bytes, bool]:
        """The bytes of a piece without its suffix, and whether it has one."""
        stem = piece.removesuffix(self._suffix) if self._suffix else piece
        return letters_to_bytes(stem) if self._by_bytes else stem.encode(), stem != piece

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, a blank after each word but the last. Raises InvalidTokenId."""
        return b"".join(self.byte_parts(ids))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """What each id adds to the decoded bytes. Raises InvalidTokenId.

        The rule of the library's BPEDecoder: the suffix is a blank, but nothing at the end.
        """
        words = checked_parts(ids, self._words.__getitem__)
        last = len(words) - 1
        return [
            stem + b" " if ends_word and place != last else stem
            for place, (stem, ends_word) in enumerate(words)
        ]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id, with its end-of-word suffix."""
        stem, ends_word = self._words[token_id]
        return stem + self._suffix.encode() if ends_word else stem

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every id with its bytes; the end-of-word suffix stays."""
        return {token_id: self.token_bytes(token_id) for token_id in self._words}


def parse_merges(data: bytes) -> list[Merge]:
    """The merges in the order of their rank. Raises FormatError."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"expected UTF-8, found other bytes: {error.reason}", role="merges"
        ) from None
    if lines[-1] == "":
        lines.pop()
    merges: dict[Merge, None] = {}
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith("#version"):
            continue
        left, blank, right = line.removesuffix("\r").partition(" ")
        if not (left and blank and right) or " " in right:
            raise FormatError(f"line {number}: expected two symbols and a blank", role="merges")
        if (left, right) in merges:
            raise FormatError(f"line {number}: a merge stands twice", role="merges")
        merges[left, right] = None
    return list(merges)


def derived_vocabulary(merges: Sequence[Merge], suffix: str) -> dict[str, int]:
    """Piece to id as CLIP numbers them: letters, letters with the suffix, merges in order."""
    letters = list(LETTER_OF_BYTE.values())
    pieces = [
        *letters,
        *(letter + suffix for letter in letters if suffix),
        *(left + right for left, right in merges),
    ]
    vocab: dict[str, int] = {}
    for piece in pieces:
        if piece in vocab:
            raise FormatError(f"two merges make {piece!r}, so its id is not defined", role="merges")
        vocab[piece] = len(vocab)
    return vocab


def _parse_vocab(data: bytes) -> dict[str, int]:
    try:
        vocab = msgspec.json.decode(data, type=dict[str, int])
    except msgspec.DecodeError as error:
        raise FormatError(f"expected a JSON object of piece to id: {error}", role="vocab") from None
    check_ids_distinct(vocab.values(), role="vocab")
    return vocab


def _check_merges_make_pieces(vocab: Mapping[str, int], merges: Sequence[Merge]) -> None:
    taken = itertools.chain.from_iterable(merges)
    if all(map(vocab.__contains__, itertools.chain(taken, map("".join, merges)))):
        return
    for number, (left, right) in enumerate(merges, start=1):
        for piece in (left, right, left + right):
            if piece not in vocab:
                raise FormatError(
                    f"merge {number}: {piece!r} is not in the vocabulary", role="merges"
                )


def _definition(
    vocab: Mapping[str, int], merges: Sequence[Merge], options: BpeMergesOptions
) -> Definition:
    """The tokenizer.json of a merges file."""
    find_words = {
        "type": "Split",
        "pattern": {"Regex": options.pattern},
        "behavior": "Removed",
        "invert": True,
    }
    to_letters = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    steps = [find_words, to_letters] if options.base_alphabet == "bytes" else [find_words]
    normalizers = [_NORMALIZERS[name] for name in options.normalizers]
    return definition_of(
        {
            "type": "BPE",
            "dropout": None,
            "unk_token": options.unk_token,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": options.end_of_word_suffix or None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": dict(vocab),
            "merges": [list(merge) for merge in merges],
        },
        added_tokens=special_added_tokens(options.special_tokens),
        normalizer={"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        pre_tokenizer={"type": "Sequence", "pretokenizers": steps},
    )


def build(files: Mapping[str, bytes], options: Options) -> BpeMergesTokenizer:
    """Build from a verified merges file and, where ids can't be derived, a vocabulary.

    Raises FormatError.
    """
    assert isinstance(options, BpeMergesOptions)  # noqa: S101 - Format ties the two together
    merges = parse_merges(files["merges"])
    if "vocab" in files:
        vocab = _parse_vocab(files["vocab"])
    elif options.base_alphabet == "bytes":
        vocab = derived_vocabulary(merges, options.end_of_word_suffix)
    else:
        raise FormatError("base_alphabet 'characters' needs a vocab file: ids are not derivable")
    _check_merges_make_pieces(vocab, merges)
    if options.base_alphabet == "bytes":
        missing = [letter for letter in LETTER_OF_BYTE.values() if letter not in vocab]
        if missing:
            raise FormatError(f"{len(missing)} of the 256 bytes have no piece", role="vocab")
    elif options.unk_token is None:
        raise FormatError(
            "base_alphabet 'characters' needs unk_token: without it the library drops "
            "characters outside the vocabulary in silence"
        )
    if options.unk_token is not None and options.unk_token not in vocab:
        raise FormatError(f"the unknown token {options.unk_token!r} is not in the vocabulary")
    outside = {
        spelling: token_id
        for spelling, token_id in options.special_tokens.items()
        if vocab.get(spelling) != token_id
    }
    check_spellings(outside, taken=vocab.values())
    return BpeMergesTokenizer(vocab, merges, options)


FORMAT = Format(
    name="bpe_merges",
    required_roles=frozenset({"merges"}),
    optional_roles=frozenset({"vocab"}),
    options=BpeMergesOptions,
    build=build,
)
