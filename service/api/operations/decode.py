"""POST /decode: token ids to text, strictly or with U+FFFD, never silently lossy."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from service.api.operations import Operation, as_request_error, clock
from service.api.problems import item_error
from service.api.structs import (
    Fingerprint,
    ItemError,
    Request,
    Response,
    TokenizerName,
    any_of,
    exactly_one,
)
from service.core.pieces import cut_parts, hold_back, pieces_of
from service.core.policy import DecodeMode
from service.core.utf8 import read_utf8
from service.errors import EngineFailure, RequestError, TooManyItems, Validation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.operations import Call, Use
    from service.catalog.catalog import Entry

Ids = list[int]


class DecodeRequest(Request, frozen=True, kw_only=True):
    """Turn one list of ids, or several, into text or bytes."""

    tokenizer: TokenizerName
    ids: Annotated[Ids, msgspec.Meta(description="Ids of one text.")] | UnsetType = UNSET
    batch: Annotated[list[Ids], msgspec.Meta(description="Several lists of ids.")] | UnsetType = (
        UNSET
    )
    mode: Annotated[
        DecodeMode,
        msgspec.Meta(description="What becomes of bytes that are not UTF-8: an error, or U+FFFD."),
    ] = DecodeMode.STRICT
    skip_special_tokens: Annotated[
        bool, msgspec.Meta(description="Leave control ids out instead of spelling them.")
    ] = False
    output: Annotated[
        Literal["text", "bytes"],
        msgspec.Meta(description="bytes: as base64, as they are, whatever the mode."),
    ] = "text"
    pieces: Annotated[
        bool, msgspec.Meta(description="Give the text that became complete with each id.")
    ] = False
    final: Annotated[
        bool,
        msgspec.Meta(
            description="false: more ids follow. What they could change is held back, and "
            "pending_ids says how many trailing ids to send again before the next ones."
        ),
    ] = True
    expected_fingerprint: Fingerprint | UnsetType = UNSET


class DecodedIds(Response, frozen=True, kw_only=True):
    """The text, or the bytes, of one list of ids."""

    text: str | UnsetType = UNSET
    bytes_base64: str | UnsetType = UNSET
    replacements: int
    pieces: list[str] | UnsetType = UNSET
    pending_ids: int | UnsetType = UNSET


class DecodeResponse(DecodedIds, frozen=True, kw_only=True):
    """The answer for `ids`."""

    tokenizer: str
    fingerprint: str
    mode: str


class DecodeBatchResponse(Response, frozen=True, kw_only=True):
    """The answer for `batch`."""

    tokenizer: str
    fingerprint: str
    mode: str
    results: Annotated[
        list[Any], msgspec.Meta(extra_json_schema={"items": any_of(DecodedIds, ItemError)})
    ]


def decode(request: DecodeRequest, call: Call) -> DecodeResponse | DecodeBatchResponse:
    """Run one request. Raises RequestError."""
    exactly_one(request, "ids", "batch")
    if request.output == "bytes" and (request.pieces or not request.final):
        raise Validation("pieces and final belong to output 'text'.", {"pointer": "/output"})
    entry = call.entry(request.tokenizer, request.expected_fingerprint)
    use = call.use(entry)
    head: dict[str, Any] = {
        "tokenizer": entry.name,
        "fingerprint": entry.fingerprint,
        "mode": request.mode.value,
    }
    if request.ids is not UNSET:
        return DecodeResponse(**head, **_decode_one(entry, request, request.ids, call, use))
    batch = request.batch or []
    if len(batch) > call.limits.max_batch_items:
        raise TooManyItems("lists of ids", call.limits.max_batch_items)
    results: list[DecodedIds | ItemError] = []
    for ids in batch:
        try:
            results.append(DecodedIds(**_decode_one(entry, request, ids, call, use)))
        except EngineFailure:
            raise  # no fault of the item's own
        except RequestError as error:
            results.append(ItemError(error=item_error(error)))
    return DecodeBatchResponse(**head, results=results)


def _decode_one(
    entry: Entry, request: DecodeRequest, ids: Ids, call: Call, use: Use
) -> dict[str, Any]:
    """The fields of a DecodedIds. Raises TooManyItems, InvalidTokenId, InvalidUtf8."""
    if len(ids) > call.limits.max_ids:
        raise TooManyItems("ids", call.limits.max_ids)
    kept: Sequence[int] = ids
    places: Sequence[int] = range(len(ids))
    if request.skip_special_tokens:
        places = [place for place, token_id in enumerate(ids) if token_id not in entry.control_ids]
        kept = [ids[place] for place in places]
    started = clock()
    try:
        fields, text_bytes = _decoded(entry, request, kept)
    except BaseException as error:
        failure = as_request_error(error)
        # The caller counts its own ids, those that were left out included.
        index = failure.members.get("index")
        if isinstance(index, int):
            failure.members["index"] = places[index]
        raise failure from error
    finally:
        use.engine_seconds += clock() - started
        use.tokens += len(ids)
    use.text_bytes += text_bytes
    use.replacements += fields["replacements"]
    if "pieces" in fields:
        pieces = [""] * len(ids)
        for place, piece in zip(places, fields["pieces"], strict=True):
            pieces[place] = piece
        fields["pieces"] = pieces
    pending = fields.get("pending_ids")
    if pending:
        fields["pending_ids"] = len(ids) - places[len(kept) - pending]
    return fields


def _decoded(
    entry: Entry, request: DecodeRequest, ids: Sequence[int]
) -> tuple[dict[str, Any], int]:
    """The fields of a DecodedIds, its places those of `ids`, and the bytes decoded."""
    tokenizer = entry.tokenizer
    if request.output == "bytes":
        joined = tokenizer.decode_bytes(ids)
        return {"bytes_base64": base64.b64encode(joined).decode(), "replacements": 0}, len(joined)
    if request.final and not request.pieces:
        joined = tokenizer.decode_bytes(ids)
        text, replacements = read_utf8(joined, request.mode, ids, lambda: tokenizer.byte_parts(ids))
        return {"text": text, "replacements": replacements}, len(joined)
    parts = tokenizer.byte_parts(ids)
    joined = b"".join(parts)
    fields: dict[str, Any] = {}
    if not request.final:
        held = hold_back(tokenizer, ids, parts)
        joined = joined[: held.ready_bytes]
        parts = cut_parts(parts, held.ready_bytes)
        fields["pending_ids"] = held.pending_ids
    text, fields["replacements"] = read_utf8(joined, request.mode, ids, lambda: parts)
    fields["text"] = text
    if request.pieces:
        fields["pieces"] = pieces_of(parts, request.mode)
    return fields, len(joined)


OPERATION = Operation(
    name="decode",
    summary="Turn token ids into text.",
    request=DecodeRequest,
    responses=(DecodeResponse, DecodeBatchResponse),
    parts=(DecodedIds, ItemError),
    run=decode,
    codes=("invalid_token_id", "invalid_utf8", "engine_limit"),
    costs=1,
)
