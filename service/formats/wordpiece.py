"""WordPiece from BERT's vocab.txt, by the tokenizers library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.core.tokenizer import Facts
from service.formats import Format, FormatError, Options
from service.formats._common import Template, check_spellings, checked_parts, roles_by_spelling
from service.formats._definition import definition_of
from service.formats._library import parts_by_pairs
from service.formats._twins import Twins, special_added_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.tokenizer import PairFrame
    from service.formats._definition import Definition

_BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The tokens that BERT's own code treats as special (google-research/bert, tokenization.py)."""


class WordPieceOptions(Options, frozen=True):
    """What BERT's code takes as arguments beside the vocabulary."""

    lowercase: bool
    strip_accents: bool | None = None
    """None: as `lowercase` says, which is what BERT does."""
    tokenize_chinese_chars: bool = True
    clean_text: bool = True
    max_input_chars_per_word: int = 100
    unk_token: str = "[UNK]"  # noqa: S105 - the unknown token, no password
    special_tokens: dict[str, int] = {}
    """Further special tokens, spelling to id, beside the five of BERT that the vocabulary has."""
    continuing_subword_prefix: str = "##"
    template: Template | None = None

    def in_force(self) -> dict[str, Any]:
        """See Options; `strip_accents` as `lowercase` says is what its absence means."""
        values = super().in_force()
        if values.get("strip_accents") == self.lowercase:
            del values["strip_accents"]
        return values


class WordPieceTokenizer:
    """BERT's tokenizer: the longest match first, one unknown token for a word that fails."""

    def __init__(self, pieces: Mapping[str, int], options: WordPieceOptions) -> None:
        self._pieces = {token_id: piece for piece, token_id in pieces.items()}
        self.controls: Mapping[str, int] = {
            spelling: pieces[spelling] for spelling in _BERT_TOKENS if spelling in pieces
        } | options.special_tokens
        definition = _definition(pieces, self.controls, options)
        self._twins = Twins(definition, self.controls)
        self.frame = (options.template or Template()).frame(self.controls)
        self.unknown_id: int | None = pieces[options.unk_token]
        self.facts = Facts(
            library="tokenizers",
            pipeline={
                "normalizer": definition["normalizer"],
                "pre_tokenizer": definition["pre_tokenizer"],
                "model": {
                    key: value for key, value in definition["model"].items() if key != "vocab"
                },
                "post_processor": None,
                "decoder": definition["decoder"],
            },
            roles=roles_by_spelling(self.controls) | {"unk": pieces[options.unk_token]},
            coverage="unknown_token",
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

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The text that the library decodes, as UTF-8. Raises InvalidTokenId."""
        text: str = self._twins.reference.decoder.decode(self._spelled(ids))
        return text.encode()

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """What each id adds to the decoded text. Raises InvalidTokenId."""
        return parts_by_pairs(self._twins.reference, self._spelled(ids))

    def _spelled(self, ids: Sequence[int]) -> list[str]:
        return checked_parts(ids, self._pieces.__getitem__)

    def token_bytes(self, token_id: int) -> bytes:
        """The piece of one id as it stands in the file."""
        return self._pieces[token_id].encode()

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every piece as it stands in the file, `##` included."""
        return {token_id: piece.encode() for token_id, piece in self._pieces.items()}


def parse_vocabulary(data: bytes) -> dict[str, int]:
    """Piece to id, the id being the number of the line, from 0.

    Lines end at LF alone, and one CR before it is dropped: other line separators, U+2028 among
    them, are content, and splitting at them would shift every later id.
    Raises FormatError for a file that is not UTF-8 or names a piece twice.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"expected UTF-8, found other bytes: {error.reason}", role="vocab"
        ) from None
    if lines[-1] == "":
        lines.pop()
    pieces: dict[str, int] = {}
    for token_id, line in enumerate(lines):
        piece = line.removesuffix("\r")
        if piece in pieces:
            raise FormatError(
                f"line {token_id + 1}: the piece of line {pieces[piece] + 1} stands again",
                role="vocab",
            )
        pieces[piece] = token_id
    return pieces


def _definition(
    pieces: Mapping[str, int], controls: Mapping[str, int], options: WordPieceOptions
) -> Definition:
    """The tokenizer.json of a vocab.txt."""
    return definition_of(
        {
            "type": "WordPiece",
            "unk_token": options.unk_token,
            "continuing_subword_prefix": options.continuing_subword_prefix,
            "max_input_chars_per_word": options.max_input_chars_per_word,
            "vocab": dict(pieces),
        },
        added_tokens=special_added_tokens(controls),
        normalizer={
            "type": "BertNormalizer",
            "clean_text": options.clean_text,
            "handle_chinese_chars": options.tokenize_chinese_chars,
            "strip_accents": options.strip_accents,
            "lowercase": options.lowercase,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={
            "type": "WordPiece",
            "prefix": options.continuing_subword_prefix,
            "cleanup": True,
        },
    )


def build(files: Mapping[str, bytes], options: Options) -> WordPieceTokenizer:
    """Build from a verified vocab.txt. Raises FormatError."""
    assert isinstance(options, WordPieceOptions)  # noqa: S101 - Format ties the two together
    pieces = parse_vocabulary(files["vocab"])
    if options.unk_token not in pieces:
        raise FormatError(
            f"expected the unknown token {options.unk_token!r} among the pieces", role="vocab"
        )
    outside = {
        spelling: token_id
        for spelling, token_id in options.special_tokens.items()
        if pieces.get(spelling) != token_id
    }
    check_spellings(outside, taken=pieces.values())
    return WordPieceTokenizer(pieces, options)


FORMAT = Format(
    name="wordpiece",
    required_roles=frozenset({"vocab"}),
    optional_roles=frozenset(),
    options=WordPieceOptions,
    build=build,
)
