"""Messages to content ids: the pinned template's markers are control ids, the caller's are not."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from service.core import provenance
from service.core.chat import prepared_messages
from service.core.policy import SpecialPolicy
from service.core.segments import Segment, recognised
from service.errors import (
    ChatTemplateFailed,
    ChatTemplateMissing,
    SpecialTokenInText,
    TooManyItems,
    Validation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.api.operations import Call
    from service.api.text_fields import ChatRequest
    from service.api.texts import Encoded, TextEncoder
    from service.core.chat import ChatTemplate
    from service.core.tokenizer import ControlSpan

MISSING_SPECIAL_TOKEN = "missing_special_token"  # noqa: S105 - a warning, no password

_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_KNOWN_KEYS = frozenset(
    {
        "role",
        "content",
        "name",
        "text",
        "type",
        "tool_calls",
        "tool_call_id",
        "function",
        "arguments",
    }
)
"""Keys that a pointer names; others are the caller's words, which an error may not hold."""

_MAX_DEPTH = 64
"""How deep lists and objects may nest in messages, tools and arguments."""


class UserText(NamedTuple):
    """A string that the caller wrote, and where in the request it stands (RFC 6901)."""

    pointer: str
    text: str


class EncodedChat(NamedTuple):
    """A chat as ids, and the fields that its answer has beside those of a text."""

    encoded: Encoded
    fields: dict[str, Any]


def encode_chat(encoder: TextEncoder, request: ChatRequest, call: Call) -> EncodedChat:
    """The ids of the rendering of a request's messages.

    Raises Validation, ChatTemplateMissing, ChatTemplateFailed, SpecialTokenInText, TextTooLarge.
    """
    template = encoder.entry.chat_template(tools=bool(request.tools))
    if template is None:
        raise ChatTemplateMissing
    _check(request, template, call)
    chat = _Chat(encoder, request, template, call.limits.max_text_bytes)
    text = chat.render()
    encoded = encoder.encode_spans(text, chat.recognised(text))
    before = encoder.tokenizer.frame.before
    if before and encoded.ids[: len(before)] != list(before):
        encoded = dataclasses.replace(encoded, warnings=[MISSING_SPECIAL_TOKEN])
    content = _content_tokens(encoder, request)
    fields: dict[str, Any] = {
        "content_count": content,
        "overhead": len(encoded.ids) - content,
        "rendered": text if request.rendered else UNSET,
    }
    return EncodedChat(encoded, fields)


def _content_tokens(encoder: TextEncoder, request: ChatRequest) -> int:
    """The content ids of each message's content alone, summed."""
    total = 0
    for message in request.messages or []:
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                total += encoder.count_again(text)
    return total


def _check(request: ChatRequest, template: ChatTemplate, call: Call) -> None:
    messages = request.messages or []
    if request.add_special_tokens:
        raise Validation(
            "The template writes its own special tokens: leave out add_special_tokens.",
            {"pointer": "/add_special_tokens"},
        )
    if not messages:
        raise Validation("Send at least one message.", {"pointer": "/messages"})
    if len(messages) > call.limits.max_batch_items:
        raise TooManyItems("messages", call.limits.max_batch_items)
    for index, message in enumerate(messages):
        role = message.get("role")
        if not (isinstance(role, str) and _ROLE.fullmatch(role)):
            raise Validation(
                "A message's role is 1 to 64 letters, digits, '_', '.' or '-'.",
                {"pointer": f"/messages/{index}/role"},
            )
    if template.reserved & (request.template_arguments or {}).keys():
        raise Validation(
            "template_arguments names what the renderer sets itself.",
            {"pointer": "/template_arguments"},
        )


class _Chat:
    """One chat, its template, and who wrote what in the rendering."""

    def __init__(
        self, encoder: TextEncoder, request: ChatRequest, template: ChatTemplate, limit: int
    ) -> None:
        """Raises Validation for what is no JSON or nests too deep."""
        self._encoder = encoder
        self._template = template
        self._limit = limit
        self._now = None if request.now is UNSET else request.now
        self._written = list(_user_texts(request))
        self._variables: dict[str, Any] = {
            "messages": prepared_messages(request.messages or []),
            "tools": request.tools or None,
            "documents": None,
            "add_generation_prompt": request.add_generation_prompt,
            **(request.template_arguments or {}),
        }

    def render(self) -> str:
        """The text that is encoded. Raises ChatTemplateFailed."""
        return self._template.render(self._variables, self._now, self._limit)

    def recognised(self, text: str) -> Sequence[ControlSpan]:
        """The control spellings in the rendering that become control ids.

        Those that the template wrote do; those that the caller wrote follow the policy.
        Raises SpecialTokenInText, ChatTemplateFailed.
        """
        encoder = self._encoder
        held = self._spellings_held()
        everywhere = encoder.tokenizer.find_controls(text, None)
        if encoder.policy is SpecialPolicy.SPECIAL and encoder.allowed is None:
            return everywhere
        if not held and not _could_be_part(everywhere, self._written):
            return everywhere
        spans = self._written_by_template(text, held)
        if encoder.policy is SpecialPolicy.SPECIAL:
            allowed = encoder.allowed or frozenset()
            places = {(span.start, span.end) for span in spans}
            spans += [
                span
                for span in everywhere
                if span.spelling in allowed and (span.start, span.end) not in places
            ]
        return sorted(spans)

    def _spellings_held(self) -> frozenset[str]:
        """The control spellings in what the caller wrote. Raises SpecialTokenInText."""
        held: set[str] = set()
        for pointer, text in self._written:
            self._encoder.note_spellings(text)
            for span in self._encoder.tokenizer.find_controls(text, None):
                if self._encoder.policy is SpecialPolicy.REJECT:
                    raise SpecialTokenInText(span.spelling, span.start, pointer)
                held.add(span.spelling)
        return frozenset(held)

    def _written_by_template(self, text: str, held: frozenset[str]) -> list[ControlSpan]:
        """The control spellings that the template wrote. Raises ChatTemplateFailed.

        A second rendering, in which each character knows its writer, tells them apart. It must
        be the first one to the letter.
        """
        traced = self._template.render(
            _traced(self._variables), self._now, self._limit, traced=True
        )
        if traced != text:
            raise ChatTemplateFailed("content_dependent")
        writers = provenance.writers_of(traced)
        segments = _segments(text, writers)
        spans = recognised(self._encoder.tokenizer, segments, None, [""] * len(segments))
        for span in spans:
            # What came out of an operation that is not traced may be the caller's.
            if provenance.UNKNOWN in writers[span.start : span.end] and span.spelling in held:
                raise ChatTemplateFailed("content_dependent")
        # A role may be the middle of a marker, but none of its own.
        role = provenance.ROLE
        return [span for span in spans if writers[span.start : span.end].strip(role)]


def _could_be_part(spans: Sequence[ControlSpan], written: Sequence[UserText]) -> bool:
    """Whether a text of the caller could be the beginning or the end of one of the spellings.

    The template's own text beside it would have to complete the spelling; a role may be the
    middle of one, which is what some templates write (`<|` and the role and `|>`).
    """
    spellings = {span.spelling for span in spans}
    return any(
        text[-size:] == spelling[:size] or text[:size] == spelling[-size:]
        for _, text in written
        for spelling in spellings
        for size in range(1, len(spelling))
    )


def _traced(variables: dict[str, Any]) -> dict[str, Any]:
    """The variables with their writer on every string."""
    traced: dict[str, Any] = provenance.traced_values(variables, provenance.USER)
    for message in traced["messages"]:
        role = message["role"]
        message["role"] = provenance.Traced(str(role), provenance.ROLE * len(role))
    return {str.__str__(name): value for name, value in traced.items()}


def _segments(text: str, writers: bytes) -> list[Segment]:
    """The runs of the caller's text, which is literal, and of all other."""
    segments: list[Segment] = []
    position = 0
    user = provenance.USER[0]
    for is_user, run in itertools.groupby(writers, lambda writer: writer == user):
        end = position + len(list(run))
        policy = SpecialPolicy.LITERAL if is_user else SpecialPolicy.SPECIAL
        segments.append(Segment(text[position:end], policy))
        position = end
    return segments


def _user_texts(request: ChatRequest) -> Iterator[UserText]:
    """Every string that the caller wrote, keys included. Raises Validation past the depth."""
    for field in ("messages", "tools", "template_arguments"):
        value = getattr(request, field)
        if value is not UNSET:
            yield from _strings(value, f"/{field}", _MAX_DEPTH)


def _strings(value: Any, pointer: str, depth: int) -> Iterator[UserText]:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        yield UserText(pointer, value)
    elif isinstance(value, dict | list):
        if depth == 0:
            raise Validation(f"Nested more than {_MAX_DEPTH} deep.")
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _strings(item, f"{pointer}/{index}", depth - 1)
            return
        for number, (key, item) in enumerate(value.items()):
            place = key if key in _KNOWN_KEYS else str(number)
            yield UserText(f"{pointer}/{place}", key)
            yield from _strings(item, f"{pointer}/{place}", depth - 1)
    elif value is not None and not isinstance(value, bool | int | float):
        raise Validation("Only JSON values may stand in messages, tools and arguments.")
