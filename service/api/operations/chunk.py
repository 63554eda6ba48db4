"""POST /chunk: a text as slices that each fit a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from service.api.budgets import BudgetRequest, budgeted, content_budget
from service.api.operations import Operation
from service.api.structs import ItemError, Response, any_of, exactly_one
from service.api.text_fields import TextHead
from service.api.texts import TextEncoder, each_text
from service.core.alignment import Measure
from service.core.boundaries import BOUNDARY_VERSION
from service.core.budget import Plan
from service.errors import BudgetTooSmall, Validation

if TYPE_CHECKING:
    from service.api.operations import Call


class ChunkRequest(BudgetRequest, frozen=True, kw_only=True):
    """Cut one text, or several, into chunks."""

    overlap_tokens: Annotated[
        int,
        msgspec.Meta(
            ge=0, description="How many tokens a chunk may share with the one before; at most half."
        ),
    ] = 0
    boundary: Annotated[
        Literal["auto", "token"],
        msgspec.Meta(
            description="auto: end at a paragraph, else a line, a sentence, a word, in the last "
            "half of what fits. token: fill each chunk to the brim."
        ),
    ] = "auto"
    include_text: Annotated[bool, msgspec.Meta(description="Give the chunks' texts.")] = True


class Chunk(Response, frozen=True, kw_only=True):
    """text[start:end] of the source, and its count when it is counted alone."""

    start: int
    end: int
    count: int
    text: str | UnsetType = UNSET


class ChunkedText(Response, frozen=True, kw_only=True):
    """The chunks of one text; `count` sums theirs."""

    unit: str
    boundary_version: str
    chunks: list[Chunk]
    chunk_count: int
    count: int
    bytes: int


class ChunkResponse(ChunkedText, frozen=True, kw_only=True):
    """The answer for `text`."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


class ChunkBatchResponse(TextHead, frozen=True, kw_only=True):
    """The answer for `texts`."""

    results: Annotated[
        list[Any], msgspec.Meta(extra_json_schema={"items": any_of(ChunkedText, ItemError)})
    ]


def chunk(request: ChunkRequest, call: Call) -> ChunkResponse | ChunkBatchResponse:
    """Run one request. Raises RequestError."""
    exactly_one(request, "text", "texts")
    if request.overlap_tokens > request.max_tokens // 2:
        raise Validation(
            "overlap_tokens is more than half of max_tokens.", {"pointer": "/overlap_tokens"}
        )
    entry = call.entry(request.tokenizer, request.expected_fingerprint)
    encoder = TextEncoder(call, entry, request)
    budget = content_budget(encoder, request)
    if budget == 0:
        raise BudgetTooSmall("The template alone is max_tokens.")
    plan = Plan(
        budget=budget,
        overlap=min(request.overlap_tokens, budget // 2),
        by_meaning=request.boundary == "auto",
        max_chunks=call.limits.max_chunks,
    )
    head = encoder.head()
    if request.text is not UNSET:
        return ChunkResponse(**head, **_chunked(encoder, request, request.text, "/text", plan))
    results = each_text(
        request.texts or [],
        call.limits.max_batch_items,
        lambda text, pointer: ChunkedText(**_chunked(encoder, request, text, pointer, plan)),
    )
    return ChunkBatchResponse(**head, results=results)


def _chunked(
    encoder: TextEncoder, request: ChunkRequest, text: str, pointer: str, plan: Plan
) -> dict[str, Any]:
    """The fields of a ChunkedText."""
    content = encoder.read(text, pointer)
    slices = budgeted(encoder, content, plan.budget).chunks(plan)
    measure = Measure(text, request.unit)
    template = request.max_tokens - plan.budget
    chunks = [
        Chunk(
            start=measure.at(start),
            end=measure.at(end),
            count=tokens + template,
            text=text[start:end] if request.include_text else UNSET,
        )
        for start, end, tokens in slices
    ]
    return {
        "unit": request.unit.value,
        "boundary_version": BOUNDARY_VERSION,
        "chunks": chunks,
        "chunk_count": len(chunks),
        "count": sum(chunk.count for chunk in chunks),
        "bytes": content.text_bytes,
    }


OPERATION = Operation(
    name="chunk",
    summary="Cut text into chunks that each fit a budget of tokens.",
    request=ChunkRequest,
    responses=(ChunkResponse, ChunkBatchResponse),
    parts=(ChunkedText, ItemError),
    run=chunk,
    codes=("special_token_in_text", "text_too_large", "engine_limit", "budget_too_small"),
    costs=1024,
)
