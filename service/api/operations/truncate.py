"""POST /truncate: the longest beginning or end of a text that fits a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET

from service.api.budgets import BudgetRequest, budgeted, content_budget
from service.api.operations import Operation
from service.api.structs import ItemError, Response, any_of, exactly_one
from service.api.text_fields import TextHead
from service.api.texts import TextEncoder, each_text
from service.core.alignment import Measure

if TYPE_CHECKING:
    from service.api.operations import Call


class TruncateRequest(BudgetRequest, frozen=True, kw_only=True):
    """Cut one text, or several, to a budget."""

    keep: Annotated[
        Literal["start", "end"], msgspec.Meta(description="Which end of the text stays.")
    ] = "start"


class TruncatedText(Response, frozen=True, kw_only=True):
    """What is kept: text[start:end] of the source, and its count when it is counted alone."""

    text: str
    start: int
    end: int
    count: int
    bytes: int
    truncated: bool


class TruncateResponse(TruncatedText, frozen=True, kw_only=True):
    """The answer for `text`."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


class TruncateBatchResponse(TextHead, frozen=True, kw_only=True):
    """The answer for `texts`."""

    results: Annotated[
        list[Any], msgspec.Meta(extra_json_schema={"items": any_of(TruncatedText, ItemError)})
    ]


def truncate(request: TruncateRequest, call: Call) -> TruncateResponse | TruncateBatchResponse:
    """Run one request. Raises RequestError."""
    exactly_one(request, "text", "texts")
    entry = call.entry(request.tokenizer, request.expected_fingerprint)
    encoder = TextEncoder(call, entry, request)
    budget = content_budget(encoder, request)
    head = encoder.head()
    if request.text is not UNSET:
        return TruncateResponse(
            **head, **_truncated(encoder, request, request.text, "/text", budget)
        )
    results = each_text(
        request.texts or [],
        call.limits.max_batch_items,
        lambda text, pointer: TruncatedText(**_truncated(encoder, request, text, pointer, budget)),
    )
    return TruncateBatchResponse(**head, results=results)


def _truncated(
    encoder: TextEncoder, request: TruncateRequest, text: str, pointer: str, budget: int
) -> dict[str, Any]:
    """The fields of a TruncatedText."""
    content = encoder.read(text, pointer)
    if len(content.ids) <= budget:
        start, end, tokens = 0, len(text), len(content.ids)
    else:
        search = budgeted(encoder, content, budget)
        start, end, tokens = search.first() if request.keep == "start" else search.last()
    kept = text[start:end]
    measure = Measure(text, request.unit)
    return {
        "text": kept,
        "start": measure.at(start),
        "end": measure.at(end),
        "count": tokens + request.max_tokens - budget,
        "bytes": len(kept.encode()),
        "truncated": kept != text,
    }


OPERATION = Operation(
    name="truncate",
    summary="Cut text to a budget of tokens.",
    request=TruncateRequest,
    responses=(TruncateResponse, TruncateBatchResponse),
    parts=(TruncatedText, ItemError),
    run=truncate,
    codes=("special_token_in_text", "text_too_large", "engine_limit", "budget_too_small"),
    costs=1024,
)
