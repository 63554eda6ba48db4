"""Media types: what a body is, what an answer should be, and reading a body strictly."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import msgspec

from service.core.utf8 import is_utf8
from service.errors import (
    InvalidUnicode,
    MalformedBody,
    NotAcceptable,
    PayloadTooLarge,
    RequestError,
    TokenizerRequired,
    UnsupportedMediaType,
    Validation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.structs import Request

JSON = "application/json"
MSGPACK = "application/msgpack"
OFFERED = (JSON, MSGPACK)

_MSGPACK_NAMES = frozenset({MSGPACK, "application/x-msgpack"})
_ANY = frozenset({"*/*", "application/*"})

_JSON_PAIR_OR_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u]"
)
"""What is no lone surrogate: two escapes that are a pair, and an escape that is none of a code."""

_JSON_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_WRONG_TYPE = re.compile(r"Expected `([a-z0-9 |]+)`, got `([a-z0-9]+)`")
_PATH = re.compile(r" - at `\$([^`]*)`$")
_PATH_STEP = re.compile(r"\.([a-z_]+)|\[(\d+)\]|\[\.\.\.\]")


@functools.lru_cache(maxsize=256)
def media_types(content_type: bytes, content_encoding: bytes, accept: bytes) -> tuple[str, str]:
    """What a body is and what its answer is to be, each JSON or MSGPACK, by three headers.

    Raises NotAcceptable and UnsupportedMediaType.
    """
    asked = answer_media_type(accept.decode("latin-1"))
    given = body_media_type(
        content_type.decode("latin-1"), content_encoding.decode("latin-1").lower()
    )
    return given, asked


def body_media_type(content_type: str, content_encoding: str) -> str:
    """JSON or MSGPACK for the headers of a request. Raises UnsupportedMediaType."""
    if content_encoding not in ("", "identity"):
        raise UnsupportedMediaType("Send the body without Content-Encoding.")
    essence, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if essence in _MSGPACK_NAMES:
        return MSGPACK
    # JSON is always UTF-8 (RFC 8259, section 8.1); a client may say so.
    charsets = {parameter.replace('"', "") for parameter in parameters if parameter}
    if essence == JSON and charsets <= {"charset=utf-8"}:
        return JSON
    raise UnsupportedMediaType(f"Send the body as {JSON} (UTF-8) or {MSGPACK}.")


def answer_media_type(accept: str) -> str:
    """JSON or MSGPACK for an Accept header (RFC 9110, section 12.5.1); JSON where both will do.

    Raises NotAcceptable.
    """
    if not accept:
        return JSON
    weights = {JSON: -1.0, MSGPACK: -1.0}
    given: dict[str, float] = {}
    for entry in accept.split(","):
        essence, *parameters = (part.strip().lower() for part in entry.split(";"))
        given[essence] = _weight(parameters)
    for essence, weight in given.items():
        if essence in _MSGPACK_NAMES:
            weights[MSGPACK] = max(weights[MSGPACK], weight)
        elif essence == JSON:
            weights[JSON] = weight
    for offered, weight in weights.items():
        if weight < 0:
            wide = [given[any_type] for any_type in ("application/*", "*/*") if any_type in given]
            weights[offered] = wide[0] if wide else 0.0
    best = max(OFFERED, key=lambda offered: weights[offered])
    if weights[best] <= 0:
        raise NotAcceptable(OFFERED)
    return best


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def declared_length(headers: Mapping[bytes, bytes], limit: int) -> int:
    """Bytes that a body will have, 0 where its head does not say.

    Raises PayloadTooLarge for more than the limit, before a byte of them is read.
    """
    declared = headers.get(b"content-length", b"")
    # Compared by length first: int() refuses more digits than anybody needs.
    digits = declared.lstrip(b"0") if declared.isdigit() else b""
    longest = len(str(limit))
    if len(digits) > longest or (length := int(digits or b"0")) > limit:
        raise PayloadTooLarge(limit)
    return length


class BodyReader:
    """Strict decoders for one request Struct: `"1"`, `1.0` and `true` are no ids."""

    def __init__(self, request: type[Request]) -> None:
        self._fields = request.__struct_fields__
        self._json = msgspec.json.Decoder(request)
        self._msgpack = msgspec.msgpack.Decoder(request)

    def read(self, body: bytes, media_type: str) -> Request:
        """The request in `body`.

        Raises MalformedBody, InvalidUnicode, Validation, TokenizerRequired.
        """
        decoder = self._json if media_type == JSON else self._msgpack
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            raise self._explained(str(error)) from None
        except (msgspec.DecodeError, RecursionError):
            raise unreadable(body, media_type) from None

    def _explained(self, message: str) -> RequestError:
        """The parser's verdict in our words: its own can echo a field name of the request."""
        if message == "Object missing required field `tokenizer`":
            return TokenizerRequired()
        if message.startswith("Object contains unknown field"):
            # No pointer: the unknown name stands in the message and could look like a path.
            fields = ", ".join(self._fields)
            return Validation(
                f"The body has a field that this route does not know. It knows: {fields}."
            )
        members: dict[str, object] = {}
        path = _PATH.search(message)
        if path is not None:
            members["pointer"] = _pointer(path[1])
        if message.startswith("Object missing required field"):
            return Validation("The body lacks a required field.", members)
        wrong = _WRONG_TYPE.match(message)
        if wrong is not None:
            return Validation(f"Expected {wrong[1]}, found {wrong[2]}.", members)
        return Validation("A value is outside what this route takes.", members)


def _pointer(path: str) -> str:
    """An RFC 6901 pointer for msgspec's path; names in it are ours, keys of maps are left out."""
    return "".join(f"/{name or index}" for name, index in _PATH_STEP.findall(path) if name or index)


def unreadable(body: bytes, media_type: str) -> RequestError:
    """What to tell of a body that can't be parsed: MalformedBody, or InvalidUnicode."""
    if media_type == JSON:
        if not is_utf8(body) or _JSON_SURROGATE.search(_JSON_PAIR_OR_ESCAPE.sub(b" ", body)):
            return InvalidUnicode()
        return MalformedBody("The body is not JSON.")
    try:
        msgspec.msgpack.decode(body)
    except msgspec.DecodeError as error:
        if "UTF-8" in str(error):
            return InvalidUnicode()
    except RecursionError:
        pass
    return MalformedBody("The body is not MessagePack.")
