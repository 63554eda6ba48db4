"""POST /encode: text to token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from service.api.operations import Operation
from service.api.structs import (
    Fingerprint,
    ItemError,
    Response,
    TokenizerName,
    any_of,
    exactly_one,
)
from service.api.texts import Encoded, TextEncoder, TextHead, TextRequest, each_text

if TYPE_CHECKING:
    from service.api.operations import Call


class EncodeRequest(TextRequest, frozen=True, kw_only=True):
    """Turn one text, or several, into ids."""

    tokenizer: TokenizerName
    expected_fingerprint: Fingerprint | UnsetType = UNSET


class EncodedText(Response, frozen=True, kw_only=True):
    """The ids of one text."""

    ids: list[int]
    count: int
    bytes: int
    special_tokens_added: int
    unknown_tokens: int
    warnings: list[str] | UnsetType = UNSET


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
    exactly_one(request, "text", "texts")
    entry = call.catalog.resolve(request.tokenizer)
    entry.expect(request.expected_fingerprint or None)
    encoder = TextEncoder(call, entry, request)
    head: dict[str, Any] = {
        "tokenizer": entry.name,
        "fingerprint": entry.fingerprint,
        "special_policy": request.special_policy.value,
        "add_special_tokens": request.add_special_tokens,
    }
    if request.text is not UNSET:
        return EncodeResponse(**head, **_fields(encoder.encode(request.text, "/text")))
    results = each_text(
        request.texts or [],
        call.limits.max_batch_items,
        lambda text, pointer: EncodedText(**_fields(encoder.encode(text, pointer))),
    )
    answered = [result for result in results if isinstance(result, EncodedText)]
    return EncodeBatchResponse(
        **head,
        results=results,
        count=sum(result.count for result in answered),
        bytes=sum(result.bytes for result in answered),
    )


def _fields(encoded: Encoded) -> dict[str, Any]:
    return {
        "ids": encoded.ids,
        "count": len(encoded.ids),
        "bytes": encoded.text_bytes,
        "special_tokens_added": encoded.special_tokens_added,
        "unknown_tokens": encoded.unknown_tokens,
        "warnings": encoded.warnings,
    }


OPERATION = Operation(
    name="encode",
    summary="Turn text into token ids.",
    request=EncodeRequest,
    responses=(EncodeResponse, EncodeBatchResponse),
    parts=(EncodedText, ItemError),
    run=encode,
    codes=("special_token_in_text", "text_too_large", "engine_limit"),
)
