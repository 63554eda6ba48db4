"""Bodies of requests: every operation's strict reader, with Python's own JSON parser as the oracle.

What is asserted of any bytes: a request or one of four errors; nothing of the body in an error;
the verdict of JSON that Python's parser gives; a request that was read is read again the same
from what it is written as, in JSON and in MessagePack.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from fuzz.harness import Harness
from service.api.codec import JSON, MSGPACK, BodyReader
from service.api.operations import operations
from service.errors import (
    InvalidUnicode,
    MalformedBody,
    RequestError,
    TokenizerRequired,
    Validation,
)

if TYPE_CHECKING:
    from service.api.structs import Request

CANARY = "zqxj"
_ERRORS = (MalformedBody, InvalidUnicode, Validation, TokenizerRequired)

_WORD = re.compile(rb"[A-Za-z]{4,}")
_NUMBER_OUT_OF_RANGE = re.compile(rb"[eE]\+?[0-9]{2,}|[0-9]{200,}")

_VALUES = ("literal", "special", "reject", "strict", "replace", "text", "bytes", "start", "end")


class BodyHarness(Harness):
    """`BodyReader` of each operation."""

    name = "bodies"

    def __init__(self) -> None:
        requests = [operation.request for operation in operations().values()]
        self._readers = [BodyReader(request) for request in requests]
        fields = sorted({field for request in requests for field in request.__struct_fields__})
        words = (*fields, *_VALUES, "codepoint", "utf16", "auto", "token", "true", "false", "null")
        # A name of ours may stand in an error, and so may not be taken for the body's own.
        self._known = frozenset(
            part.encode() for word in words for part in re.findall("[A-Za-z]{4,}", word)
        )
        self.dictionary = (
            *(f'"{word}"'.encode() for word in (*fields, *_VALUES, "codepoint", "role", "content")),
            *(bytes([0xA0 | len(word)]) + word.encode() for word in fields if len(word) < 16),
            *(b'"\\ud800"', b'"\\udc00"', b'"\\ud83d\\ude42"', b"\\u0000", b"\xed\xa0\x80"),
            *(b"\xef\xbb\xbf", b"NaN", b"1e999", b"-0", b"18446744073709551616", b"[[[[", b"{"),
            *(b"\xc0", b"\xc1", b"\xd9\xff", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff"),
            *(b"\xdf\xff\xff\xff\xff", b"\xc7\x0c\xff", b"\xcf", b"\xcb", b"sha256:"),
        )

    def run(self, data: bytes) -> bool:
        """See Harness."""
        hidden = _WORD.sub(self._hide, data)
        taken = False
        for reader, media_type in itertools.product(self._readers, (JSON, MSGPACK)):
            request, error = _read(reader, data, media_type)
            if media_type == JSON:
                _check_verdict(data, request, error)
            if request is not None:
                taken = True
                _check_again(reader, request, media_type)
            _, error = _read(reader, hidden, media_type)
            if error is not None:
                said = f"{error} {error.detail} {error.members!r}"
                assert CANARY not in said, f"an error with text of the body: {said}"
        return taken

    def _hide(self, word: re.Match[bytes]) -> bytes:
        """A canary as long as the word, so that the lengths of MessagePack stay."""
        if word[0] in self._known:
            return word[0]
        return (CANARY.encode() * len(word[0]))[: len(word[0])]


def _read(
    reader: BodyReader, body: bytes, media_type: str
) -> tuple[Request, None] | tuple[None, RequestError]:
    try:
        return reader.read(body, media_type), None
    except _ERRORS as error:
        return None, error


def _check_verdict(body: bytes, request: Request | None, error: RequestError | None) -> None:
    """What Python's parser says of the JSON."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        assert request is None, "bytes that are not UTF-8 were taken"
        return
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        assert request is None, "what is no JSON was taken"
        return
    if _has_lone_surrogate(value):
        assert request is None, "a lone surrogate was taken"
        return
    assert not isinstance(error, InvalidUnicode), "valid Unicode was refused as invalid"
    if isinstance(error, MalformedBody):
        assert _NUMBER_OUT_OF_RANGE.search(body), "JSON was refused as none"
    if request is not None:
        assert _holds(msgspec.to_builtins(request), value), "a value was read as another"


def _holds(found: Any, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether all of `value` is in what was read, which has defaults beside."""
    if isinstance(value, dict) and isinstance(found, dict):
        # A time is written in many ways.
        return all(
            name == "now" or (name in found and _holds(found[name], member))
            for name, member in value.items()
        )
    if isinstance(value, list) and isinstance(found, list):
        return len(found) == len(value) and all(map(_holds, found, value))
    return type(found) is type(value) and bool(found == value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _has_lone_surrogate(value: Any) -> bool:  # noqa: ANN401 - JSON
    return bool(re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)))


def _check_again(reader: BodyReader, request: Request, media_type: str) -> None:
    """Compared as written, because a NaN is not itself."""
    if media_type == JSON:
        written = msgspec.json.encode(request)
        assert msgspec.json.encode(reader.read(written, JSON)) == written
    # MessagePack can say more than JSON: bytes, times, keys that are no strings.
    try:
        packed = msgspec.msgpack.encode(request)
    except OverflowError:  # an integer of more than 64 bits, which a message may hold in JSON
        return
    assert msgspec.msgpack.encode(reader.read(packed, MSGPACK)) == packed
