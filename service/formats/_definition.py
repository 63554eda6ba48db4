"""Reading a tokenizer.json strictly: what can't give fixed ids is refused before the library."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec

from service.formats import FormatError
from service.formats._common import check_ids_distinct

Definition = dict[str, Any]
"""A tokenizer.json, parsed."""

COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")


def definition_of(model: Definition, **parts: object) -> Definition:
    """A tokenizer.json of our own: a model, the parts that are given, and nothing of the others."""
    nothing = dict.fromkeys(("truncation", "padding", *COMPONENTS))
    return {"version": "1.0", **nothing, "added_tokens": [], **parts, "model": model}


class _AddedToken(msgspec.Struct, frozen=True):
    """One of `added_tokens`, with the library's own defaults."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


def parse_object(data: bytes, role: str) -> dict[str, Any]:
    """A JSON object without a member that stands twice. Raises FormatError."""
    try:
        parsed = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # ValueError: UnicodeDecodeError is one, too
        raise FormatError(f"expected a JSON object: {error}", role=role) from None
    if not isinstance(parsed, dict):
        raise FormatError("expected a JSON object", role=role)
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r} stands twice in one object")
    return members


def parse_definition(data: bytes) -> Definition:
    """A tokenizer.json with every part present. Raises FormatError."""
    definition = parse_object(data, "tokenizer")
    model = definition.get("model")
    if not isinstance(model, dict) or "vocab" not in model:
        raise FormatError("expected a model with a vocab", role="tokenizer")
    if model.get("dropout"):
        raise FormatError("the model drops merges at random (dropout)", role="tokenizer")
    for part in COMPONENTS:
        definition.setdefault(part, None)
    piece_of = _pieces(model["vocab"])
    definition["added_tokens"] = _added_tokens(definition.get("added_tokens") or [], piece_of)
    return definition


def _pieces(vocab: object) -> dict[int, str]:
    """Id to piece of the model. Raises FormatError for what is ambiguous or of a wrong type."""
    try:
        if not isinstance(vocab, list):
            ids = msgspec.convert(vocab, dict[str, int])
            check_ids_distinct(ids.values(), role="tokenizer")
            return dict(zip(ids.values(), ids, strict=True))
        pieces = [piece for piece, _ in msgspec.convert(vocab, list[tuple[str, float]])]
    except msgspec.ValidationError as error:
        raise FormatError(f"the model's vocab: {error}", role="tokenizer") from None
    if len(set(pieces)) != len(pieces):
        twice = Counter(pieces).most_common(1)[0][0]
        raise FormatError(f"piece {twice!r} stands twice", role="tokenizer")
    return dict(enumerate(pieces))


def _added_tokens(tokens: object, piece_of: dict[int, str]) -> list[Definition]:
    """The added tokens, each with all its flags. Raises FormatError."""
    try:
        added = msgspec.convert(tokens, list[_AddedToken])
    except msgspec.ValidationError as error:
        raise FormatError(f"added_tokens: {error}", role="tokenizer") from None
    check_ids_distinct((token.id for token in added), role="tokenizer")
    for token in added:
        piece = piece_of.get(token.id, token.content)
        if piece != token.content:
            raise FormatError(
                f"added token {token.content!r} has id {token.id}, which is that of "
                f"piece {piece!r}",
                role="tokenizer",
            )
    return [msgspec.to_builtins(token) for token in added]
