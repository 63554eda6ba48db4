"""The fields by which requests say which text it is and how it is to be read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from service.api.structs import POLICY_FIELD, Request, Response, exactly_one
from service.core.policy import SpecialPolicy
from service.errors import Validation


class SegmentRequest(Request, frozen=True, kw_only=True):
    """A part of one text and how far it is trusted."""

    text: str
    special_policy: POLICY_FIELD = SpecialPolicy.LITERAL


class PolicyRequest(Request, frozen=True, kw_only=True):
    """The fields that say how a text is to be read."""

    special_policy: POLICY_FIELD = SpecialPolicy.LITERAL
    allowed_special: (
        Annotated[
            list[str],
            msgspec.Meta(description="With policy special: recognise these spellings alone."),
        ]
        | UnsetType
    ) = UNSET
    add_special_tokens: Annotated[
        bool, msgspec.Meta(description="Put the tokenizer's own template around the content.")
    ] = False


class TextRequest(PolicyRequest, frozen=True, kw_only=True):
    """The fields that say which text it is."""

    text: Annotated[str, msgspec.Meta(description="One text.")] | UnsetType = UNSET
    text_pair: (
        Annotated[
            str,
            msgspec.Meta(
                description="Beside text: the second text of a pair, where the tokenizer frames "
                "pairs."
            ),
        ]
        | UnsetType
    ) = UNSET
    texts: Annotated[list[str], msgspec.Meta(description="Several texts.")] | UnsetType = UNSET
    segments: (
        Annotated[
            list[SegmentRequest],
            msgspec.Meta(
                description="One text in parts. A control spelling counts only where it lies "
                "wholly inside a part whose policy is special."
            ),
        ]
        | UnsetType
    ) = UNSET


class TextHead(Response, frozen=True, kw_only=True):
    """What was asked of which tokenizer."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


def check_source(request: TextRequest) -> None:
    """Raise Validation unless the request has exactly one text, in one of its forms."""
    exactly_one(request, "text", "texts", "segments")
    if request.text_pair is not UNSET and request.text is UNSET:
        raise Validation("text_pair stands beside text.", {"pointer": "/text_pair"})
