"""POST /encode: text to token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from service.api.chat import encode_chat
from service.api.details import details
from service.api.operations import Operation
from service.api.structs import (
    Fingerprint,
    ItemError,
    Response,
    TokenizerName,
    any_of,
)
from service.api.text_fields import ChatRequest, TextHead, check_source
from service.api.texts import Encoded, TextEncoder, each_text, encode_source
from service.core.alignment import Offset, Unit

if TYPE_CHECKING:
    from service.api.operations import Call


class EncodeRequest(ChatRequest, frozen=True, kw_only=True):
    """Turn one text, or several, into ids."""

    tokenizer: TokenizerName
    expected_fingerprint: Fingerprint | UnsetType = UNSET
    offsets: Annotated[
        Unit | None,
        msgspec.Meta(description="Give the range of the text behind each id, in this unit."),
    ] = None
    token_bytes: Annotated[
        bool, msgspec.Meta(description="Give the bytes of each id as base64.")
    ] = False
    special_tokens_mask: Annotated[
        bool, msgspec.Meta(description="Give 1 for each control or template id, 0 for others.")
    ] = False

    @property
    def asks_details(self) -> bool:
        """Whether something is to be said of each id."""
        return self.offsets is not None or self.token_bytes or self.special_tokens_mask


class EncodedText(Response, frozen=True, kw_only=True):
    """The ids of one text."""

    ids: list[int]
    count: int
    bytes: int
    special_tokens_added: int
    unknown_tokens: int
    offsets: list[Offset | None] | UnsetType = UNSET
    token_bytes: list[str] | UnsetType = UNSET
    special_tokens_mask: list[int] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    content_count: int | UnsetType = UNSET
    overhead: int | UnsetType = UNSET
    rendered: str | UnsetType = UNSET


class EncodeResponse(EncodedText, frozen=True, kw_only=True):
    """The answer for `text`."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


class EncodeBatchResponse(TextHead, frozen=True, kw_only=True):
    """The answer for `texts`; `count` and `bytes` sum the items that were answered."""

    results: Annotated[
        list[Any], msgspec.Meta(extra_json_schema={"items": any_of(EncodedText, ItemError)})
    ]
    count: int
    bytes: int


def encode(request: EncodeRequest, call: Call) -> EncodeResponse | EncodeBatchResponse:
    """Run one request. Raises RequestError."""
    check_source(request)
    entry = call.entry(request.tokenizer, request.expected_fingerprint)
    limits = call.limits
    encoder = TextEncoder(
        call,
        entry,
        request,
        max_text_bytes=limits.max_detail_text_bytes if request.asks_details else None,
    )
    head = encoder.head()
    if request.messages is not UNSET:
        chat = encode_chat(encoder, request, call)
        return EncodeResponse(**head, **_fields(encoder, request, chat.encoded), **chat.fields)
    if request.texts is UNSET:
        return EncodeResponse(**head, **_fields(encoder, request, encode_source(encoder, request)))
    results = each_text(
        request.texts,
        limits.max_batch_items,
        lambda text, pointer: EncodedText(
            **_fields(encoder, request, encoder.encode(text, pointer))
        ),
    )
    answered = [result for result in results if isinstance(result, EncodedText)]
    return EncodeBatchResponse(
        **head,
        results=results,
        count=sum(result.count for result in answered),
        bytes=sum(result.bytes for result in answered),
    )


def _fields(encoder: TextEncoder, request: EncodeRequest, encoded: Encoded) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "ids": encoded.ids,
        "count": len(encoded.ids),
        "bytes": encoded.text_bytes,
        "special_tokens_added": encoded.special_tokens_added,
        "unknown_tokens": encoded.unknown_tokens,
        "warnings": encoded.warnings,
    }
    if request.asks_details:
        fields |= details(
            encoder.tokenizer,
            encoded,
            unit=request.offsets,
            token_bytes=request.token_bytes,
            mask=request.special_tokens_mask,
        )
    return fields


OPERATION = Operation(
    name="encode",
    summary="Turn text into token ids.",
    request=EncodeRequest,
    responses=(EncodeResponse, EncodeBatchResponse),
    parts=(EncodedText, ItemError),
    run=encode,
    codes=(
        "special_token_in_text",
        "text_too_large",
        "engine_limit",
        "chat_template_missing",
        "chat_template_failed",
    ),
    costs=8,
)
