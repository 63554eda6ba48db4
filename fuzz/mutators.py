"""Changes that keep a file readable: most others are refused by the first parser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_VALUES: tuple[Any, ...] = (None, True, 0, -1, 1 << 31, 1 << 64, 0.5, "", "a", "<unk>", [], {})
_NUMBERS = (0, 1, 2, 3, 4, 5, 6, 255, -1, (1 << 31) - 1)
_TRAINER_FIELDS = (
    *("unk_id", "bos_id", "eos_id", "pad_id", "model_type", "vocab_size"),
    *("byte_fallback", "treat_whitespace_as_suffix"),
)
_SCORES = (0.0, -1.0, 1e38, float("inf"), float("nan"))


def mutate_json(
    data: bytes, change: Callable[[bytes], bytes], chance: random.Random
) -> bytes | None:
    """One value of a JSON document replaced, deleted or copied; half of the time None."""
    if chance.random() < 0.5:
        return None
    try:
        document = json.loads(data.split(b"\n%%%%\n")[0])
    except (ValueError, RecursionError):
        return None
    places = _places(document)
    if not places:
        return None
    where, key = chance.choice(places)
    kind = chance.randrange(4)
    if kind == 0:
        where[key] = chance.choice(_VALUES)
    elif kind == 1:
        del where[key]
    elif kind == 2 and isinstance(where[key], str):
        where[key] = change(where[key].encode(errors="replace")).decode(errors="replace")
    else:
        other, name = chance.choice(places)
        where[key] = json.loads(json.dumps(other[name]))
    return json.dumps(document).encode() + data[len(data.split(b"\n%%%%\n")[0]) :]


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    """Every place of a document, as (container, key)."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            keys: list[Any] = list(container)
        elif isinstance(container, list):
            keys = list(range(len(container)))
        else:
            continue
        places += [(container, key) for key in keys]
        waiting += [container[key] for key in keys]
    return places


def mutate_sentencepiece(
    data: bytes, change: Callable[[bytes], bytes], chance: random.Random
) -> bytes | None:
    """One field of a model changed, the protobuf kept whole; a third of the time None."""
    model: Any = sentencepiece_model_pb2.__dict__["ModelProto"]()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return None
    kind = chance.randrange(6)
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    if kind < 2:
        return None
    if kind == 2:
        normalizer.precompiled_charsmap = change(normalizer.precompiled_charsmap)
    elif kind == 3 and model.pieces:
        piece = chance.choice(model.pieces)
        old = piece.piece if isinstance(piece.piece, bytes) else piece.piece.encode()
        piece.piece = change(old).decode(errors="replace")
        piece.score = chance.choice((piece.score, *_SCORES))
    elif kind == 4 and model.pieces:
        piece = chance.choice(model.pieces)
        piece.type = chance.choice((1, 2, 3, 4, 5, 6))
        if chance.random() < 0.2:
            model.pieces.remove(chance.choice(model.pieces))
    else:
        field = chance.choice(_TRAINER_FIELDS)
        number = chance.choice(_NUMBERS)
        try:
            setattr(trainer, field, bool(number & 1) if field[:2] in ("by", "tr") else number)
        except ValueError:  # no type of model
            trainer.model_type = chance.choice((1, 2, 3, 4))
        normalizer.add_dummy_prefix = bool(chance.getrandbits(1))
        normalizer.remove_extra_whitespaces = bool(chance.getrandbits(1))
        normalizer.escape_whitespaces = bool(chance.getrandbits(1))
    changed: bytes = model.SerializeToString()
    return changed
