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
from service.core.policy import DecodeMode
from service.core.utf8 import read_utf8
from service.errors import RequestError, TooManyItems

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
    expected_fingerprint: Fingerprint | UnsetType = UNSET


class DecodedIds(Response, frozen=True, kw_only=True):
    """The text, or the bytes, of one list of ids."""

    text: str | UnsetType = UNSET
    bytes_base64: str | UnsetType = UNSET
    replacements: int


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
    entry = call.catalog.resolve(request.tokenizer)
    entry.expect(request.expected_fingerprint or None)
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
    tokenizer = entry.tokenizer
    started = clock()
    try:
        joined = tokenizer.decode_bytes(kept)
        if request.output == "bytes":
            return {"bytes_base64": base64.b64encode(joined).decode(), "replacements": 0}
        text, replacements = read_utf8(
            joined, request.mode, kept, lambda: tokenizer.byte_parts(kept)
        )
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
    use.text_bytes += len(joined)
    use.replacements += replacements
    return {"text": text, "replacements": replacements}


OPERATION = Operation(
    name="decode",
    summary="Turn token ids into text.",
    request=DecodeRequest,
    responses=(DecodeResponse, DecodeBatchResponse),
    parts=(DecodedIds, ItemError),
    run=decode,
    codes=("invalid_token_id", "invalid_utf8", "engine_limit"),
)
