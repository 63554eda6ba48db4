"""POST /count: how many tokens a text is, by one tokenizer or by several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from service.api.chat import encode_chat
from service.api.operations import Operation
from service.api.structs import (
    Fingerprint,
    ItemError,
    Response,
    TokenizerName,
    any_of,
    exactly_one,
)
from service.api.text_fields import ChatRequest, check_source
from service.api.texts import Encoded, TextEncoder, each_text, encode_source
from service.errors import TokenizerRequired, Validation

if TYPE_CHECKING:
    from service.api.operations import Call
    from service.catalog.catalog import Entry

Budget = Annotated[
    int, msgspec.Meta(ge=0, le=2**63 - 1, description="How many tokens there is room for.")
]


class CountRequest(ChatRequest, frozen=True, kw_only=True):
    """Count one text, or several, under one tokenizer or several."""

    tokenizer: TokenizerName | UnsetType = UNSET
    tokenizers: (
        Annotated[
            list[TokenizerName],
            msgspec.Meta(min_length=1, description="Instead of tokenizer: distinct tokenizers."),
        ]
        | UnsetType
    ) = UNSET
    budget: Budget | UnsetType = UNSET
    expected_fingerprint: (
        Fingerprint
        | Annotated[
            dict[str, Fingerprint],
            msgspec.Meta(description="With tokenizers: fingerprint by name."),
        ]
        | UnsetType
    ) = UNSET


class CountedText(Response, frozen=True, kw_only=True):
    """The count of one text; `count` equals the number of ids of the same /encode."""

    count: int
    bytes: int
    tokens_per_byte: float | None
    special_tokens_added: int
    unknown_tokens: int
    budget: int | UnsetType = UNSET
    fits: bool | UnsetType = UNSET
    remaining: int | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    content_count: int | UnsetType = UNSET
    overhead: int | UnsetType = UNSET
    rendered: str | UnsetType = UNSET


class CountedTexts(Response, frozen=True, kw_only=True):
    """The counts of several texts; `count` and `bytes` sum the items that were answered."""

    results: Annotated[
        list[Any], msgspec.Meta(extra_json_schema={"items": any_of(CountedText, ItemError)})
    ]
    count: int
    bytes: int
    tokens_per_byte: float | None


class CountResponse(CountedText, frozen=True, kw_only=True):
    """The answer for `text` and `tokenizer`."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


class CountBatchResponse(CountedTexts, frozen=True, kw_only=True):
    """The answer for `texts` and `tokenizer`."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


class CountByTokenizer(CountedText, frozen=True, kw_only=True):
    """One tokenizer's count of `text`."""

    fingerprint: str


class CountBatchByTokenizer(CountedTexts, frozen=True, kw_only=True):
    """One tokenizer's counts of `texts`."""

    fingerprint: str


class CountManyResponse(Response, frozen=True, kw_only=True):
    """The answer for `tokenizers`: the counts by the artifacts' names."""

    special_policy: str
    add_special_tokens: bool
    counts: Annotated[
        dict[str, Any],
        msgspec.Meta(
            extra_json_schema={
                "additionalProperties": any_of(CountByTokenizer, CountBatchByTokenizer)
            }
        ),
    ]


def count(
    request: CountRequest, call: Call
) -> CountResponse | CountBatchResponse | CountManyResponse:
    """Run one request. Raises RequestError."""
    if request.tokenizer is UNSET and request.tokenizers is UNSET:
        raise TokenizerRequired
    exactly_one(request, "tokenizer", "tokenizers")
    check_source(request)
    asked: dict[str, Any] = {
        "special_policy": request.special_policy.value,
        "add_special_tokens": request.add_special_tokens,
    }
    if request.tokenizer is not UNSET:
        if isinstance(request.expected_fingerprint, dict):
            raise Validation(
                "Beside tokenizer, expected_fingerprint is one fingerprint.",
                {"pointer": "/expected_fingerprint"},
            )
        entry = call.entry(request.tokenizer, request.expected_fingerprint)
        shape = CountResponse if request.texts is UNSET else CountBatchResponse
        head: dict[str, Any] = {"tokenizer": entry.name, "fingerprint": entry.fingerprint, **asked}
        return shape(**head, **_count_with(entry, request, call))
    entries = _distinct_entries(request, call)
    by_tokenizer = CountByTokenizer if request.texts is UNSET else CountBatchByTokenizer
    counts = {
        entry.name: by_tokenizer(fingerprint=entry.fingerprint, **_count_with(entry, request, call))
        for entry in entries
    }
    return CountManyResponse(**asked, counts=counts)


def _distinct_entries(request: CountRequest, call: Call) -> list[Entry]:
    """The entries of `tokenizers`, each expectation met. Raises Validation for a second of one."""
    entries = [call.catalog.resolve(name) for name in request.tokenizers or []]
    if len({entry.name for entry in entries}) != len(entries):
        raise Validation("Two of the tokenizers are the same one.", {"pointer": "/tokenizers"})
    expected = request.expected_fingerprint or {}
    if not isinstance(expected, dict):
        raise Validation(
            "Beside tokenizers, expected_fingerprint maps names to fingerprints.",
            {"pointer": "/expected_fingerprint"},
        )
    for name, fingerprint in expected.items():
        entry = call.catalog.resolve(name)
        if entry not in entries:
            raise Validation(
                "expected_fingerprint names a tokenizer that is not asked for.",
                {"pointer": "/expected_fingerprint"},
            )
        entry.expect(fingerprint)
    return entries


def _count_with(entry: Entry, request: CountRequest, call: Call) -> dict[str, Any]:
    """The fields of a CountedText or CountedTexts for one tokenizer."""
    encoder = TextEncoder(call, entry, request)
    if request.messages is not UNSET:
        chat = encode_chat(encoder, request, call)
        return {**_counted(chat.encoded, request), **chat.fields}
    if request.texts is UNSET:
        return _counted(encode_source(encoder, request), request)
    results = each_text(
        request.texts,
        call.limits.max_batch_items,
        lambda text, pointer: CountedText(**_counted(encoder.encode(text, pointer), request)),
    )
    answered = [result for result in results if isinstance(result, CountedText)]
    tokens = sum(result.count for result in answered)
    text_bytes = sum(result.bytes for result in answered)
    return {
        "results": results,
        "count": tokens,
        "bytes": text_bytes,
        "tokens_per_byte": tokens / text_bytes if text_bytes else None,
    }


def _counted(encoded: Encoded, request: CountRequest) -> dict[str, Any]:
    """The fields of a CountedText."""
    tokens = len(encoded.ids)
    fields: dict[str, Any] = {
        "count": tokens,
        "bytes": encoded.text_bytes,
        "tokens_per_byte": tokens / encoded.text_bytes if encoded.text_bytes else None,
        "special_tokens_added": encoded.special_tokens_added,
        "unknown_tokens": encoded.unknown_tokens,
        "warnings": encoded.warnings,
    }
    if request.budget is not UNSET:
        fields["budget"] = request.budget
        fields["fits"] = tokens <= request.budget
        fields["remaining"] = request.budget - tokens
    return fields


OPERATION = Operation(
    name="count",
    summary="Count the tokens of text.",
    request=CountRequest,
    responses=(CountResponse, CountBatchResponse, CountManyResponse),
    parts=(CountedText, ItemError, CountByTokenizer, CountBatchByTokenizer),
    run=count,
    codes=(
        "special_token_in_text",
        "text_too_large",
        "engine_limit",
        "chat_template_missing",
        "chat_template_failed",
    ),
    costs=4,
)
