"""A SentencePiece model (unigram, or BPE with byte fallback), by the sentencepiece library."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import sentencepiece

from service.core.alignment import MarkedText, Offset, RangeAlignment, Sizes
from service.core.spelling import SpellingFinder, encode_stretches, split_at
from service.core.tokenizer import ControlSpan, Facts
from service.formats import Format, FormatError, Options
from service.formats._common import Template, checked_parts, roles_by_spelling, stand_in
from service.formats._sentencepiece_json import literal_json
from service.formats._sentencepiece_model import (
    Piece,
    check_bytes_covered,
    check_marker_pieces,
    parse_model,
    piece_bytes,
    renamed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import Frame, PairFrame

_QUICK_BYTES = 50 * 1024
"""t5-base takes 1.3 ms for as much text in many scripts."""

_LONGEST = "\ufdfa"
"""It becomes 18 characters before it is split, more than any other (UAX #15, table 7): a first
text of it took 56 ms, one of U+FDFB, which becomes 8, takes 34 ms."""


class SentencePieceOptions(Options, frozen=True):
    """What a .model does not say."""

    unordered = frozenset({"parse_special", "ordinary_pieces"})

    parse_special: list[str] = []
    """Pieces that are control spellings although the model calls them user-defined."""
    ordinary_pieces: list[str] = []
    """Marker-shaped user-defined pieces that are ordinary vocabulary."""
    template: Template | None = None


class SentencePieceTokenizer:
    """A .model whose control pieces are out of reach of text.

    SentencePiece never reads a control piece out of text. It does read user-defined pieces, so
    those that are control spellings are renamed in a literal twin, at their own ids, to random
    strings that stand in for them where one is to be recognised.
    """

    def __init__(self, model: Any, options: SentencePieceOptions) -> None:  # noqa: ANN401 - protobuf
        self.quick = True
        self._model = model
        pieces = model.pieces
        self._unseen = {
            piece.piece: token_id
            for token_id, piece in enumerate(pieces)
            if piece.type == Piece.CONTROL
        }
        user_defined = {
            piece.piece: token_id
            for token_id, piece in enumerate(pieces)
            if piece.type == Piece.USER_DEFINED
        }
        parsed = {spelling: user_defined[spelling] for spelling in options.parse_special}
        self._ordinary = frozenset(user_defined) - frozenset(parsed)
        self.controls: Mapping[str, int] = self._unseen | parsed
        self._stand_ins = {spelling: stand_in(spelling) for spelling in parsed}
        self._reference = _processor(model)
        self._twin = _processor(renamed(model, self._stand_ins)) if parsed else self._reference
        self._finder = functools.lru_cache(maxsize=256)(self._build_finder)
        self._bytes = {token_id: piece_bytes(piece) for token_id, piece in enumerate(pieces)}
        self._control_ids = frozenset(self.controls.values())
        self._unknown_surface = model.trainer_spec.unk_surface.encode()
        normalizer = model.normalizer_spec
        self._drops_blank = normalizer.add_dummy_prefix or normalizer.remove_extra_whitespaces
        self._drops_all_blanks = normalizer.remove_extra_whitespaces
        self.frame: Frame = (options.template or Template()).frame(self.controls)
        self.pair_frame: PairFrame | None = None
        self.sizes = None if self._drops_blank else Sizes(self._bytes.keys(), self._bytes.values())
        self.unknown_id: int | None = self._reference.unk_id()
        self.facts = _facts(model, self._reference, self.controls)

    def _build_finder(self, allowed: frozenset[str] | None) -> SpellingFinder:
        # Ordinary user-defined pieces compete for the same text in the library, so they do here.
        wanted = frozenset(self.controls) if allowed is None else allowed
        return SpellingFinder(wanted | self._ordinary)

    def encode(self, text: str) -> list[int]:
        """Content ids with no control spelling recognised."""
        ids: list[int] = self._twin.encode(text)
        return ids

    def encode_buffer(self, text: str) -> bytes:
        """The ids of `encode`, each four bytes, little-endian."""
        buffer: bytes = self._twin.encode_as_numpy(text).astype("<u4", copy=False).tobytes()
        return buffer

    def is_quick(self, text: str, at_most: int) -> bool:
        """Whether a text of `at_most` bytes takes about a millisecond, and 50 at the worst."""
        return at_most <= _QUICK_BYTES and _LONGEST not in text

    def _ranges(
        self, stretch: str, ids: Sequence[int], pieces: Sequence[str], position: int
    ) -> list[Offset]:
        """Where each piece of a stretch comes from, moved by `position`.

        A piece that ends inside what one character became in normalization, or is a byte of it,
        has the whole character. The library's own offsets give it to the last such piece alone.
        """
        normalized, places = self._twin.normalize(stretch, with_offsets=True)
        ends = list(places[1:])
        for place in range(len(ends) - 2, -1, -1):
            if ends[place] == places[place]:
                ends[place] = ends[place + 1]
        if self._drops_blank and len(ends) > 1 and places[0] == places[1]:
            ends[0] = places[0]  # the dummy prefix is part of no character
        ranges: list[Offset] = []
        at = bytes_of_character = 0
        for token_id, piece in zip(ids, pieces, strict=True):
            last = at + len(piece) - 1
            if self._is_byte(token_id):
                last = at
                bytes_of_character += 1
            ranges.append(Offset(position + places[at], position + ends[last]))
            if not bytes_of_character or bytes_of_character == len(normalized[at].encode()):
                at, bytes_of_character = last + 1, 0
        return ranges

    def literal_json(self) -> str | None:
        """A tokenizer.json that gives the ids of `encode`; None where none does."""
        return literal_json(self._model)

    def count(self, text: str) -> int:
        """How many ids `encode` gives."""
        return len(self.encode(text))

    def encode_special(self, text: str) -> list[int]:
        """Content ids: control pieces split the text, user-defined ones are the library's own."""
        unseen = [span for span in self.find_controls(text, None) if span.spelling in self._unseen]
        return encode_stretches(text, unseen, self._reference.encode, self.controls.__getitem__)

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids with the control spellings at `spans` recognised and no others."""
        marked, unseen = self._marked(text, spans)
        return encode_stretches(marked.text, unseen, self.encode, self.controls.__getitem__)

    def _marked(
        self, text: str, spans: Sequence[ControlSpan]
    ) -> tuple[MarkedText, list[ControlSpan]]:
        """The text for the twin, and where in it the control pieces are that it never sees."""
        parsed = [span for span in spans if span.spelling in self._stand_ins]
        marked = MarkedText(text, parsed, self._stand_ins.__getitem__)
        unseen = [
            ControlSpan(*marked.marked(Offset(span.start, span.end)), span.spelling)
            for span in spans
            if span.spelling in self._unseen
        ]
        return marked, unseen

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans` with the library's own offsets, mapped back to `text`."""
        marked, unseen = self._marked(text, spans)
        ids: list[int] = []
        ranges: list[Offset] = []
        position = 0
        for stretch, span in split_at(marked.text, unseen):
            if stretch:
                aligned = self._twin.encode_as_offset_mapping(stretch)
                ids += aligned["ids"]
                ranges += self._ranges(stretch, aligned["ids"], aligned["pieces"], position)
            if span is not None:
                ids.append(self.controls[span.spelling])
                ranges.append(Offset(span.start, span.end))
                position = span.end
        return RangeAlignment(text, ids, [marked.original(pair) for pair in ranges])

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The control spellings in `text`; of two at one place the longest."""
        return [
            span for span in self._finder(allowed).find(text) if span.spelling not in self._ordinary
        ]

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, joined before anything reads them as text. Raises InvalidTokenId."""
        return b"".join(self.byte_parts(ids))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """What each id adds to the decoded bytes. Raises InvalidTokenId.

        The library's own rule (Decode in sentencepiece_processor.cc): at the start one blank of
        a dummy prefix is dropped, all blanks where the model removes extra ones. A control
        spelling begins a new start, because encoding begins a new stretch there.
        """
        parts = checked_parts(ids, self._bytes.__getitem__)
        at_start = self._drops_blank
        for place, token_id in enumerate(ids):
            if token_id in self._control_ids:
                at_start = self._drops_blank
                continue
            if token_id == self.unknown_id:
                parts[place] = self._unknown_surface
            elif at_start and parts[place].startswith(b" ") and not self._is_byte(token_id):
                parts[place] = parts[place][1:]
                at_start = self._drops_all_blanks and not parts[place]
                continue
            at_start = at_start and not parts[place]
        return parts

    def _is_byte(self, token_id: int) -> bool:
        is_byte: bool = self._reference.is_byte(token_id)
        return is_byte

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id."""
        return self._bytes[token_id]

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every id with its bytes: a blank for U+2581, one byte for a byte piece."""
        return self._bytes


def _processor(model: Any) -> sentencepiece.SentencePieceProcessor:  # noqa: ANN401 - protobuf
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    except (RuntimeError, OSError, ValueError) as error:
        raise FormatError(
            f"the sentencepiece library can't use it: {error}", role="model"
        ) from None


def _facts(
    model: Any,  # noqa: ANN401 - protobuf
    processor: sentencepiece.SentencePieceProcessor,
    controls: Mapping[str, int],
) -> Facts:
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    named = {
        "bos": processor.bos_id(),
        "eos": processor.eos_id(),
        "unk": processor.unk_id(),
        "pad": processor.pad_id(),
    }
    return Facts(
        library="sentencepiece",
        pipeline={
            "normalizer": {
                "type": normalizer.name,
                "add_dummy_prefix": normalizer.add_dummy_prefix,
                "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
                "escape_whitespaces": normalizer.escape_whitespaces,
            },
            "pre_tokenizer": None,
            "model": {
                "type": type(trainer).ModelType.Name(trainer.model_type),
                "byte_fallback": trainer.byte_fallback,
            },
            "post_processor": None,
            "decoder": {"type": "SentencePiece", "unk_surface": trainer.unk_surface},
        },
        roles=roles_by_spelling(controls)
        | {role: token_id for role, token_id in named.items() if token_id >= 0},
        coverage="every_byte" if trainer.byte_fallback else "unknown_token",
        round_trip="normalizing" if trainer.byte_fallback else "lossy",
    )


def build(files: Mapping[str, bytes], options: Options) -> SentencePieceTokenizer:
    """Build from a verified .model. Raises FormatError."""
    assert isinstance(options, SentencePieceOptions)  # noqa: S101 - Format ties the two together
    model = parse_model(files["model"])
    check_marker_pieces(model, options.parse_special, options.ordinary_pieces)
    check_bytes_covered(model)
    return SentencePieceTokenizer(model, options)


FORMAT = Format(
    name="sentencepiece",
    required_roles=frozenset({"model"}),
    optional_roles=frozenset({"chat_template"}),
    options=SentencePieceOptions,
    build=build,
)
