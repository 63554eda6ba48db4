"""Messages to content ids: the pinned template's markers are control ids, the caller's are not."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from service.core import provenance
from service.core.chat import RESERVED_NAMES, prepared_messages
from service.core.policy import SpecialPolicy
from service.core.segments import Segment, recognised
from service.errors import (
    ChatTemplateFailed,
    ChatTemplateMissing,
    SpecialTokenInText,
    TextTooLarge,
    TooManyItems,
    Validation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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

_MAX_VALUES = 262_144
"""How many values messages, tools and arguments may hold in all: each is looked at."""

_NO_JSON = "Only JSON values may stand in messages, tools and arguments."


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
    template = encoder.entry.chat_template(tools=request.tools is not UNSET)
    if template is None:
        raise ChatTemplateMissing
    _check(request, call)
    limit = call.limits.max_text_bytes
    contents = list(_contents(request))
    if sum(len(content.encode()) for content in contents) > limit:
        raise TextTooLarge(limit)
    chat = _Chat(encoder, request, template, limit)
    text = chat.render()
    encoded = encoder.encode_spans(text, chat.recognised(text))
    before = encoder.tokenizer.frame.before
    if before and encoded.ids[: len(before)] != list(before):
        encoded = dataclasses.replace(encoded, warnings=[MISSING_SPECIAL_TOKEN])
    content_count = sum(map(encoder.count_again, contents))
    fields: dict[str, Any] = {
        "content_count": content_count,
        "overhead": len(encoded.ids) - content_count,
        "rendered": text if request.rendered else UNSET,
    }
    return EncodedChat(encoded, fields)


def _contents(request: ChatRequest) -> Iterator[str]:
    """Each message's content, and each text of one that is a list of parts."""
    for message in request.messages or []:
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield text


def _check(request: ChatRequest, call: Call) -> None:
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
    if RESERVED_NAMES & (request.template_arguments or {}).keys():
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
            "tools": None if request.tools is UNSET else request.tools,
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
        find = encoder.tokenizer.find_controls
        self._note_written()
        if encoder.policy is not SpecialPolicy.SPECIAL:
            return self._written_by_template(text)
        if encoder.allowed is None:
            return find(text, None)
        allowed = encoder.allowed
        also = (span for span in find(text, None) if span.spelling in allowed)
        return _merged(self._written_by_template(text), also)

    def _note_written(self) -> None:
        """Look through what the caller wrote. Raises SpecialTokenInText."""
        for pointer, text in self._written:
            self._encoder.note_spellings(text)
            if self._encoder.policy is SpecialPolicy.REJECT:
                for span in self._encoder.tokenizer.find_controls(text, None):
                    raise SpecialTokenInText(span.spelling, span.start, pointer)

    def _written_by_template(self, text: str) -> list[ControlSpan]:
        """The control spellings that the template wrote. Raises ChatTemplateFailed.

        A second rendering, in which each character knows its writer, tells them apart. It must
        be the first one to the letter.
        """
        traced = self._template.render(
            _traced(self._variables), self._now, self._limit, traced=True
        )
        if traced != text:
            if not self._encoder.tokenizer.find_controls(text, None):
                return []  # there is nothing to tell apart
            raise ChatTemplateFailed("content_dependent")
        writers = provenance.writers_of(traced)
        segments = _segments(text, writers)
        spans = recognised(self._encoder.tokenizer, segments, None, [""] * len(segments))
        if any(provenance.UNKNOWN in writers[span.start : span.end] for span in spans):
            # What came out of an operation that is not traced may be the caller's.
            raise ChatTemplateFailed("content_dependent")
        # A role or a number may be the middle of a marker, but none of its own.
        role = provenance.ROLE
        return [span for span in spans if writers[span.start : span.end].strip(role)]


def _merged(spans: list[ControlSpan], others: Iterable[ControlSpan]) -> list[ControlSpan]:
    """The spans, and those of the others that overlap none of them; both are in order."""
    merged: list[ControlSpan] = []
    waiting = iter(spans)
    following = next(waiting, None)
    end = 0
    for other in others:
        while following is not None and following.start < other.end:
            merged.append(following)
            end = following.end
            following = next(waiting, None)
        if other.start >= end:
            merged.append(other)
    return [*merged, *([] if following is None else [following]), *waiting]


def _traced(variables: dict[str, Any]) -> dict[str, Any]:
    """The variables with their writer on every string."""
    traced: dict[str, Any] = provenance.traced_values(variables, provenance.USER)
    for message in traced["messages"]:
        role = message["role"]
        message["role"] = provenance.Traced(str(role), provenance.ROLE * len(role))
    return {str.__str__(name): value for name, value in traced.items()}


_RUN = re.compile(b"%b+|[^%b]+" % (provenance.USER, provenance.USER))


def _segments(text: str, writers: bytes) -> list[Segment]:
    """The runs of the caller's text, which is literal, and of all other."""
    return [
        Segment(
            text[run.start() : run.end()],
            SpecialPolicy.LITERAL
            if writers.startswith(provenance.USER, run.start())
            else SpecialPolicy.SPECIAL,
        )
        for run in _RUN.finditer(writers)
    ]


def _user_texts(request: ChatRequest) -> Iterator[UserText]:
    """Every string that the caller wrote, keys included. Raises Validation, TooManyItems."""
    walk = _Walk()
    for field in ("messages", "tools", "template_arguments"):
        value = getattr(request, field)
        if value is not UNSET:
            yield from walk.strings(value, f"/{field}", _MAX_DEPTH)


class _Walk:
    """Goes through all values of a request's chat."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def strings(self, value: Any, pointer: str, depth: int) -> Iterator[UserText]:  # noqa: ANN401 - JSON
        """The strings in a value. Raises Validation for what is no JSON or nests too deep."""
        self._left -= 1
        if self._left < 0:
            raise TooManyItems("values in messages, tools and arguments", _MAX_VALUES)
        if isinstance(value, str):
            yield UserText(pointer, value)
        elif isinstance(value, dict | list):
            if depth == 0:
                raise Validation(f"Nested more than {_MAX_DEPTH} deep.")
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from self.strings(item, f"{pointer}/{index}", depth - 1)
                return
            for number, (key, item) in enumerate(value.items()):
                if not isinstance(key, str):  # MessagePack allows others
                    raise Validation(_NO_JSON)
                place = f"{pointer}/{key if key in _KNOWN_KEYS else number}"
                yield UserText(place, key)
                yield from self.strings(item, place, depth - 1)
        elif not (value is None or isinstance(value, bool | int)) and not (
            isinstance(value, float) and math.isfinite(value)
        ):
            raise Validation(_NO_JSON)
