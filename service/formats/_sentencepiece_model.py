"""A SentencePiece model's protobuf: its pieces, and what in it is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from service.formats import FormatError
from service.formats._byte_level import UTF8_BYTES
from service.formats._common import check_ids_distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BLANK = "\u2581"
"""SentencePiece's letter for a blank."""

_MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)
"""The shape of a user-defined piece that the lock has to call special or ordinary."""

_ModelProto: Any = sentencepiece_model_pb2.__dict__["ModelProto"]
"""Made when its module is imported, from a descriptor: type checkers don't see it."""

Piece = _ModelProto.SentencePiece


def parse_model(data: bytes) -> Any:  # noqa: ANN401 - protobuf
    """The model. Raises FormatError for one that is malformed or rewrites decoded text."""
    model = _ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise FormatError("expected a SentencePiece model (protobuf)", role="model") from None
    if model.denormalizer_spec.precompiled_charsmap:
        raise FormatError("the model rewrites decoded text (denormalizer_spec)", role="model")
    if len({piece.piece for piece in model.pieces}) != len(model.pieces):
        raise FormatError("a piece stands twice", role="model")
    return model


def piece_bytes(piece: Any) -> bytes:  # noqa: ANN401 - protobuf
    if piece.type == Piece.BYTE:
        return bytes([int(piece.piece[3:5], 16)])
    if piece.type in (Piece.CONTROL, Piece.UNKNOWN):
        return bytes(piece.piece.encode())
    return bytes(piece.piece.replace(BLANK, " ").encode())


def renamed(model: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - protobuf
    renamed = _ModelProto()
    renamed.CopyFrom(model)
    for piece in renamed.pieces:
        piece.piece = names.get(piece.piece, piece.piece)
    return renamed


def check_marker_pieces(
    model: Any,  # noqa: ANN401 - protobuf
    special: Iterable[str],
    ordinary: Iterable[str],
) -> None:
    """Raise FormatError when the lock leaves it open what a marker-shaped piece is."""
    user_defined = {piece.piece for piece in model.pieces if piece.type == Piece.USER_DEFINED}
    listed = {*special, *ordinary}
    for spelling in sorted(listed - user_defined):
        raise FormatError(f"{spelling!r} is no user-defined piece of the model", role="model")
    for spelling in sorted({*special} & {*ordinary}):
        raise FormatError(f"{spelling!r} can't be both special and ordinary")
    for spelling in sorted(user_defined - listed):
        if _MARKER.fullmatch(spelling):
            raise FormatError(
                f"user-defined piece {spelling!r} looks like a marker: list it in option "
                "parse_special or ordinary_pieces",
                role="model",
            )


def check_bytes_covered(model: Any) -> None:  # noqa: ANN401 - protobuf
    if not model.trainer_spec.byte_fallback:
        return
    present = [int(piece.piece[3:5], 16) for piece in model.pieces if piece.type == Piece.BYTE]
    check_ids_distinct(present, role="model")
    missing = sorted(UTF8_BYTES - set(present))
    if missing:
        raise FormatError(
            f"expected a byte piece for each byte that UTF-8 can contain, found none for "
            f"{len(missing)} of them, the first 0x{missing[0]:02x}",
            role="model",
        )
