"""The fields by which requests say which text it is and how it is to be read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

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


class ChatRequest(TextRequest, frozen=True, kw_only=True):
    """The fields of a chat, which stands instead of a text."""

    messages: (
        Annotated[
            list[dict[str, Any]],
            msgspec.Meta(
                description="A chat, rendered by the template that is pinned to the tokenizer. "
                "Each message has a role; the template decides what else it reads."
            ),
        ]
        | UnsetType
    ) = UNSET
    tools: (
        Annotated[
            list[dict[str, Any]], msgspec.Meta(description="With messages: what may be called.")
        ]
        | UnsetType
    ) = UNSET
    add_generation_prompt: Annotated[
        bool, msgspec.Meta(description="With messages: end with the assistant's turn begun.")
    ] = True
    template_arguments: (
        Annotated[dict[str, Any], msgspec.Meta(description="With messages: further variables.")]
        | UnsetType
    ) = UNSET
    now: (
        Annotated[
            datetime,
            msgspec.Meta(
                tz=True,
                description="With messages: the time that strftime_now tells (RFC 3339). Without "
                "it the template has no clock, so that the same request has the same ids.",
            ),
        ]
        | UnsetType
    ) = UNSET
    rendered: Annotated[
        bool, msgspec.Meta(description="With messages: give the rendered text, too.")
    ] = False


class TextHead(Response, frozen=True, kw_only=True):
    """What was asked of which tokenizer."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


_CHAT_FIELDS = ("tools", "template_arguments", "now")


def check_source(request: ChatRequest) -> None:
    """Raise Validation unless the request has exactly one text, in one of its forms."""
    exactly_one(request, "text", "texts", "segments", "messages")
    if request.text_pair is not UNSET and request.text is UNSET:
        raise Validation("text_pair stands beside text.", {"pointer": "/text_pair"})
    if request.messages is UNSET:
        for field in _CHAT_FIELDS:
            if getattr(request, field) is not UNSET:
                raise Validation(f"{field} stands beside messages.", {"pointer": f"/{field}"})
        if request.rendered:
            raise Validation("rendered stands beside messages.", {"pointer": "/rendered"})
