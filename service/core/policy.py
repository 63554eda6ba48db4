"""What the spelling of a control token inside a text means, and how bytes become text."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from service.errors import SpecialTokenInText, Validation

if TYPE_CHECKING:
    from service.core.tokenizer import Tokenizer


class SpecialPolicy(enum.Enum):
    """What becomes of a special token's spelling that stands inside a text."""

    LITERAL = "literal"
    """Ordinary pieces, never a control id."""
    SPECIAL = "special"
    """The control id."""
    REJECT = "reject"
    """An error that names the token and its place."""


class DecodeMode(enum.Enum):
    """What becomes of bytes that are not UTF-8 when ids are decoded."""

    STRICT = "strict"
    """An error that names the byte and the id."""
    REPLACE = "replace"
    """One U+FFFD for each maximal ill-formed part."""


def resolve_allowed(
    tokenizer: Tokenizer, policy: SpecialPolicy, allowed: list[str] | None
) -> frozenset[str] | None:
    """The control spellings that `special` recognises; None for all of them.

    Raises Validation when `allowed` stands beside another policy or names a spelling that the
    tokenizer does not have: a misspelt name must not silently stay literal.
    """
    if allowed is None:
        return None
    if policy is not SpecialPolicy.SPECIAL:
        raise Validation(
            "allowed_special needs special_policy 'special'.", {"pointer": "/allowed_special"}
        )
    for index, spelling in enumerate(allowed):
        if spelling not in tokenizer.controls:
            raise Validation(
                "allowed_special names a spelling that is no special token of this tokenizer.",
                {"pointer": f"/allowed_special/{index}"},
            )
    return frozenset(allowed)


def encode_by_policy(
    tokenizer: Tokenizer,
    text: str,
    policy: SpecialPolicy,
    allowed: frozenset[str] | None,
    pointer: str,
) -> list[int]:
    """Content ids of `text` (no template ids) under a policy.

    `pointer` says where in the request the text stands (RFC 6901), for the error.
    Raises SpecialTokenInText under `reject`, and whatever the tokenizer raises.
    """
    if policy is SpecialPolicy.LITERAL:
        return tokenizer.encode(text)
    if policy is SpecialPolicy.REJECT:
        for span in tokenizer.find_controls(text, None):
            raise SpecialTokenInText(span.spelling, span.start, pointer)
        return tokenizer.encode(text)
    if allowed is None:
        return tokenizer.encode_special(text)
    return tokenizer.encode_spans(text, tokenizer.find_controls(text, allowed))
