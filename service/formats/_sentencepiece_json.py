"""A SentencePiece BPE model as a tokenizer.json, for engines that read no .model.

SentencePiece merges whichever neighbours make the piece with the best score, wherever that piece
is one of text; a tokenizer.json lists the pairs in the order in which they merge. So every way of
cutting a piece in two pieces becomes a merge, in the order of the scores. A user-defined or unused
piece follows other rules, and so do a character map and blanks that are dropped: a model with
these is not put this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from service.formats._common import stand_in
from service.formats._definition import definition_of
from service.formats._sentencepiece_model import BLANK, Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = frozenset({Piece.NORMAL, Piece.CONTROL, Piece.UNKNOWN, Piece.BYTE})


def literal_json(model: Any) -> str | None:  # noqa: ANN401 - protobuf
    """The tokenizer.json with the model's ids for literal text; None where there is none."""
    if not _is_plain(model):
        return None
    pieces = [(piece.piece, piece.type, piece.score) for piece in model.pieces]
    # No merge makes a control piece; under its name it is out of reach as a character, too.
    vocab = {
        stand_in(piece) if kind in (Piece.CONTROL, Piece.UNKNOWN) else piece: token_id
        for token_id, (piece, kind, _) in enumerate(pieces)
    }
    scores = {piece: score for piece, kind, score in pieces if kind == Piece.NORMAL}
    model_part = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": _merges(sorted(scores, key=scores.__getitem__, reverse=True)),
    }
    definition = definition_of(
        model_part,
        normalizer=_normalizer(dummy_prefix=model.normalizer_spec.add_dummy_prefix),
    )
    return msgspec.json.encode(definition).decode()


def _is_plain(model: Any) -> bool:  # noqa: ANN401 - protobuf
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    return (
        trainer.model_type == type(trainer).BPE
        and trainer.byte_fallback
        and not trainer.treat_whitespace_as_suffix
        and normalizer.escape_whitespaces
        and not normalizer.remove_extra_whitespaces
        and not normalizer.precompiled_charsmap
        and all(piece.type in _KINDS for piece in model.pieces)
    )


def _normalizer(*, dummy_prefix: bool) -> dict[str, object]:
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    prefix = [{"type": "Prepend", "prepend": BLANK}] if dummy_prefix else []
    return {"type": "Sequence", "normalizers": [*prefix, blanks]}


def _merges(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Each way of making a piece of two others, the pieces in the order of their scores."""
    known = frozenset(pieces)
    return [
        (left, right)
        for piece in pieces
        for cut in range(1, len(piece))
        if (left := piece[:cut]) in known and (right := piece[cut:]) in known
    ]
