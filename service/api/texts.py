"""Texts of a request to content ids: what /encode and /count share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from service.api.operations import as_request_error, clock
from service.api.problems import item_error
from service.api.structs import POLICY_FIELD, ItemError, Request, Response
from service.core.policy import SpecialPolicy, encode_by_policy, resolve_allowed
from service.errors import RequestError, TextTooLarge, TooManyItems

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.api.operations import Call, Use
    from service.catalog.catalog import Entry

SPELLINGS_COUNTED_CHARACTERS = 64 * 1024
"""How much of a text is searched for control spellings for the metric alone."""

Item = TypeVar("Item", bound=msgspec.Struct)

DUPLICATE_SPECIAL_TOKEN = "duplicate_special_token"  # noqa: S105 - a warning, no password


class TextRequest(Request, frozen=True, kw_only=True):
    """The fields that say which text, and how it is to be read."""

    text: Annotated[str, msgspec.Meta(description="One text.")] | UnsetType = UNSET
    texts: Annotated[list[str], msgspec.Meta(description="Several texts.")] | UnsetType = UNSET
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


class TextHead(Response, frozen=True, kw_only=True):
    """What was asked of which tokenizer."""

    tokenizer: str
    fingerprint: str
    special_policy: str
    add_special_tokens: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """One text as ids."""

    ids: list[int]
    """Template ids included."""
    text_bytes: int
    """Bytes of the text as UTF-8."""
    special_tokens_added: int
    unknown_tokens: int
    warnings: list[str] | UnsetType


class TextEncoder:
    """Encodes texts of one request with one tokenizer, and notes the work."""

    def __init__(self, call: Call, entry: Entry, request: TextRequest) -> None:
        self._entry = entry
        self._tokenizer = entry.tokenizer
        self._limit = call.limits.max_text_bytes
        self._policy = request.special_policy
        allowed = None if request.allowed_special is UNSET else request.allowed_special
        self._allowed = resolve_allowed(self._tokenizer, self._policy, allowed)
        self._framed = request.add_special_tokens
        self._use: Use = call.use(entry, self._policy.value)

    def encode(self, text: str, pointer: str) -> Encoded:
        """The ids of one text. Raises TextTooLarge, SpecialTokenInText, EngineLimit."""
        use = self._use
        text_bytes = len(text) if text.isascii() else len(text.encode())
        if text_bytes > self._limit:
            raise TextTooLarge(self._limit)
        use.special_spellings += self._entry.spellings.count(text[:SPELLINGS_COUNTED_CHARACTERS])
        started = clock()
        try:
            content = encode_by_policy(self._tokenizer, text, self._policy, self._allowed, pointer)
        except BaseException as error:
            raise as_request_error(error) from error
        finally:
            use.engine_seconds += clock() - started
        unknown = self._count_unknown(content, text)
        if text_bytes:
            use.tokens_per_byte.append(len(content) / text_bytes)
        use.tokens += len(content)
        use.text_bytes += text_bytes
        use.unknown_tokens += unknown
        return self._framed_ids(content, text_bytes, unknown)

    def _count_unknown(self, content: list[int], text: str) -> int:
        """How many ids stand for text outside the vocabulary; a recognised spelling does not."""
        tokenizer = self._tokenizer
        if tokenizer.unknown_id is None:
            return 0
        unknown = content.count(tokenizer.unknown_id)
        if unknown and self._policy is SpecialPolicy.SPECIAL:
            spans = tokenizer.find_controls(text, self._allowed)
            spelt = sum(tokenizer.controls[span.spelling] == tokenizer.unknown_id for span in spans)
            return unknown - spelt
        return unknown

    def _framed_ids(self, content: list[int], text_bytes: int, unknown: int) -> Encoded:
        if not self._framed:
            return Encoded(content, text_bytes, 0, unknown, UNSET)
        before, after = self._tokenizer.frame
        doubled = bool(content) and (content[0] in before or content[-1] in after)
        return Encoded(
            [*before, *content, *after],
            text_bytes,
            len(before) + len(after),
            unknown,
            [DUPLICATE_SPECIAL_TOKEN] if doubled else UNSET,
        )


def each_text(
    texts: list[str], limit: int, answer: Callable[[str, str], Item]
) -> list[Item | ItemError]:
    """`answer(text, pointer)` for each text; an item's own fault stands in its place.

    Raises TooManyItems when there are more texts than `limit`.
    """
    if len(texts) > limit:
        raise TooManyItems("texts", limit)
    results: list[Item | ItemError] = []
    for index, text in enumerate(texts):
        try:
            results.append(answer(text, f"/texts/{index}"))
        except RequestError as error:
            results.append(ItemError(error=item_error(error)))
    return results
