"""Texts of a request to content ids: what /encode and /count share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from service.api.operations import as_request_error, clock
from service.api.problems import item_error
from service.api.structs import ItemError
from service.core.policy import SpecialPolicy, encode_by_policy, resolve_allowed
from service.core.segments import Segment, join, recognised
from service.errors import EngineFailure, RequestError, TextTooLarge, TooManyItems, Validation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.api.operations import Call
    from service.api.text_fields import PolicyRequest, SegmentRequest, TextRequest
    from service.catalog.catalog import Entry
    from service.core.tokenizer import ControlSpan

SPELLINGS_COUNTED_CHARACTERS = 64 * 1024
"""How much of a text is searched for control spellings for the metric alone."""

Item = TypeVar("Item", bound=msgspec.Struct)
Worked = TypeVar("Worked")

DUPLICATE_SPECIAL_TOKEN = "duplicate_special_token"  # noqa: S105 - a warning, no password


@dataclasses.dataclass(slots=True)
class Content:
    """One text as content ids, template ids not among them."""

    text: str
    text_bytes: int
    """Bytes of the text as UTF-8."""
    ids: list[int]
    unknown_tokens: int
    spans: Callable[[], Sequence[ControlSpan]]
    """Gives the control spellings that were recognised."""


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of one answer: one content or a pair, with what the template puts around."""

    ids: list[int]
    contents: tuple[Content, ...]
    template: tuple[tuple[int, ...], ...]
    """The template ids before, between and after the contents; one more than there are."""
    warnings: list[str] | UnsetType

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts as UTF-8."""
        return sum(content.text_bytes for content in self.contents)

    @property
    def special_tokens_added(self) -> int:
        """How many template ids there are."""
        return sum(map(len, self.template))

    @property
    def unknown_tokens(self) -> int:
        """How many content ids stand for text outside the vocabulary."""
        return sum(content.unknown_tokens for content in self.contents)


class TextEncoder:
    """Encodes texts of one request with one tokenizer, and notes the work."""

    def __init__(
        self, call: Call, entry: Entry, request: PolicyRequest, *, max_text_bytes: int | None = None
    ) -> None:
        """Raises Validation for `allowed_special` where no part of the request is special."""
        self.entry = entry
        self.tokenizer = entry.tokenizer
        self._limit = max_text_bytes or call.limits.max_text_bytes
        self.policy = request.special_policy
        allowed = None if request.allowed_special is UNSET else request.allowed_special
        segments = getattr(request, "segments", UNSET)
        any_special = segments is not UNSET and any(
            segment.special_policy is SpecialPolicy.SPECIAL for segment in segments
        )
        self.allowed = resolve_allowed(
            self.tokenizer, SpecialPolicy.SPECIAL if any_special else self.policy, allowed
        )
        self._framed = request.add_special_tokens
        self.use = call.use(entry)

    def head(self) -> dict[str, Any]:
        """The fields of an answer that say what was asked of which tokenizer."""
        return {
            "tokenizer": self.entry.name,
            "fingerprint": self.entry.fingerprint,
            "special_policy": self.policy.value,
            "add_special_tokens": self._framed,
        }

    def encode(self, text: str, pointer: str) -> Encoded:
        """The ids of one text. Raises TextTooLarge, SpecialTokenInText, EngineLimit."""
        return self._frame(self.read(text, pointer))

    def encode_pair(self, first: str, second: str) -> Encoded:
        """The ids of a pair. Raises as encode, and Validation where no pairs are framed."""
        frame = self.tokenizer.pair_frame
        if frame is None:
            raise Validation("This tokenizer frames no pairs of texts.", {"pointer": "/text_pair"})
        contents = (self.read(first, "/text"), self.read(second, "/text_pair"))
        template = tuple(frame) if self._framed else ((), (), ())
        return self._assembled(contents, template)

    def encode_segments(self, segments: Sequence[SegmentRequest]) -> Encoded:
        """The ids of the one text that the segments are. Raises as encode, and Validation."""
        if self.policy is not SpecialPolicy.LITERAL:
            raise Validation(
                "Beside segments, special_policy belongs to each segment.",
                {"pointer": "/special_policy"},
            )
        parts = [Segment(segment.text, segment.special_policy) for segment in segments]
        text = join(parts)
        text_bytes = self._checked_size(text)
        for part in parts:
            self._count_spellings(part.text, part.policy)
        pointers = [f"/segments/{index}/text" for index in range(len(parts))]
        spans = self._timed(lambda: recognised(self.tokenizer, parts, self.allowed, pointers))
        return self._frame(self._spanned(text, text_bytes, spans))

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> Encoded:
        """The ids of a text in which the spans that are recognised are known already, unframed.

        Raises TextTooLarge, EngineLimit.
        """
        content = self._spanned(text, self._checked_size(text), spans)
        return self._assembled((content,), ((), ()))

    def note_spellings(self, text: str) -> None:
        """Count the control spellings in a text for the metric, under the request's policy."""
        self._count_spellings(text, self.policy)

    def read(self, text: str, pointer: str) -> Content:
        """The content ids of one text. Raises TextTooLarge, SpecialTokenInText, EngineLimit."""
        text_bytes = self._checked_size(text)
        self._count_spellings(text, self.policy)
        tokenizer, policy, allowed = self.tokenizer, self.policy, self.allowed
        ids = self._timed(lambda: encode_by_policy(tokenizer, text, policy, allowed, pointer))
        return self._content(text, text_bytes, ids, lambda: self.spans(text))

    def spans(self, text: str) -> Sequence[ControlSpan]:
        """The control spellings that the request's policy recognises in a text."""
        if self.policy is not SpecialPolicy.SPECIAL:
            return ()
        return self.tokenizer.find_controls(text, self.allowed)

    def count_again(self, text: str) -> int:
        """The content ids of a slice of a text that was read, under the same policy."""
        # Under reject the whole text was searched, and a slice holds no spelling that it doesn't.
        if self.policy is not SpecialPolicy.SPECIAL:
            return self._timed(lambda: self.tokenizer.count(text))
        return self._timed(
            lambda: len(encode_by_policy(self.tokenizer, text, self.policy, self.allowed, ""))
        )

    def _spanned(self, text: str, text_bytes: int, spans: Sequence[ControlSpan]) -> Content:
        """The content ids of a text in which `spans`, and no others, are recognised."""
        tokenizer = self.tokenizer
        ids = self._timed(
            lambda: tokenizer.encode_spans(text, spans) if spans else tokenizer.encode(text)
        )
        return self._content(text, text_bytes, ids, lambda: spans)

    def _checked_size(self, text: str) -> int:
        text_bytes = len(text) if text.isascii() else len(text.encode())
        if text_bytes > self._limit:
            raise TextTooLarge(self._limit)
        return text_bytes

    def _count_spellings(self, text: str, policy: SpecialPolicy) -> None:
        found = self.entry.spellings.count(text[:SPELLINGS_COUNTED_CHARACTERS])
        if found:
            spellings = self.use.special_spellings
            spellings[policy.value] = spellings.get(policy.value, 0) + found

    def _timed(self, work: Callable[[], Worked]) -> Worked:
        started = clock()
        try:
            return work()
        except BaseException as error:
            raise as_request_error(error) from error
        finally:
            self.use.engine_seconds += clock() - started

    def _content(
        self,
        text: str,
        text_bytes: int,
        ids: list[int],
        spans: Callable[[], Sequence[ControlSpan]],
    ) -> Content:
        unknown = self._count_unknown(ids, spans)
        use = self.use
        if text_bytes:
            use.tokens_per_byte.append(len(ids) / text_bytes)
        use.tokens += len(ids)
        use.text_bytes += text_bytes
        use.unknown_tokens += unknown
        return Content(text, text_bytes, ids, unknown, spans)

    def _count_unknown(self, ids: list[int], spans: Callable[[], Sequence[ControlSpan]]) -> int:
        """How many ids stand for text outside the vocabulary; a recognised spelling does not."""
        unknown_id = self.tokenizer.unknown_id
        if unknown_id is None:
            return 0
        unknown = ids.count(unknown_id)
        if not unknown:
            return 0
        controls = self.tokenizer.controls
        return unknown - sum(controls[span.spelling] == unknown_id for span in spans())

    def _frame(self, content: Content) -> Encoded:
        frame = self.tokenizer.frame
        return self._assembled((content,), tuple(frame) if self._framed else ((), ()))

    def _assembled(
        self, contents: tuple[Content, ...], template: tuple[tuple[int, ...], ...]
    ) -> Encoded:
        if not any(template):
            ids = contents[0].ids if len(contents) == 1 else contents[0].ids + contents[1].ids
            return Encoded(ids, contents, template, UNSET)
        ids = list(template[0])
        doubled = False
        for content, after, before in zip(contents, template[1:], template, strict=False):
            # Content that brings the id which the template puts beside it, too: two BOS.
            doubled = doubled or bool(
                content.ids and (content.ids[0] in before or content.ids[-1] in after)
            )
            ids += content.ids
            ids += after
        return Encoded(ids, contents, template, [DUPLICATE_SPECIAL_TOKEN] if doubled else UNSET)


def encode_source(encoder: TextEncoder, request: TextRequest) -> Encoded:
    """The ids of the request's one text, pair or list of segments."""
    if request.segments is not UNSET:
        return encoder.encode_segments(request.segments)
    text = request.text or ""
    if request.text_pair is not UNSET:
        return encoder.encode_pair(text, request.text_pair)
    return encoder.encode(text, "/text")


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
        except EngineFailure:
            raise  # no fault of the item's own
        except RequestError as error:
            results.append(ItemError(error=item_error(error)))
    return results
