"""The bodies of the short way: reading a plain request, writing its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from service.api import id_arrays
from service.api.codec import JSON, MSGPACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.catalog.catalog import Entry


class PlainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The whole of a request that goes the short way."""

    tokenizer: str
    text: str


class Form(NamedTuple):
    """How a media type writes what the answers here are made of."""

    read: Callable[[bytes | memoryview], PlainRequest]
    value: Callable[[object], bytes]
    ids: Callable[[bytes], bytes | memoryview]
    """Of a buffer."""


FORMS = {
    JSON: Form(
        msgspec.json.Decoder(PlainRequest).decode,
        msgspec.json.Encoder().encode,
        id_arrays.json_of,
    ),
    MSGPACK: Form(
        msgspec.msgpack.Decoder(PlainRequest).decode,
        msgspec.msgpack.Encoder().encode,
        id_arrays.msgpack_of,
    ),
}


class Worked(NamedTuple):
    """What the library gave for a text."""

    tokens: int
    unknown: int
    ids: bytes | memoryview
    """The ids as they stand in the answer; empty where they don't."""


def _head(entry: Entry) -> dict[str, object]:
    """The members at the end of each answer, which never change."""
    return {
        "tokenizer": entry.name,
        "fingerprint": entry.fingerprint,
        "special_policy": "literal",
        "add_special_tokens": False,
    }


def _json_body(operation: str, entry: Entry) -> Callable[[Worked, int], bytes]:
    value = FORMS[JSON].value
    tail = b"," + value(_head(entry))[1:]

    def count(worked: Worked, text_bytes: int) -> bytes:
        ratio = value(worked.tokens / text_bytes) if text_bytes else b"null"
        return (
            b'{"count":%d,"bytes":%d,"tokens_per_byte":%b,'
            b'"special_tokens_added":0,"unknown_tokens":%d%b'
            % (worked.tokens, text_bytes, ratio, worked.unknown, tail)
        )

    def encode(worked: Worked, text_bytes: int) -> bytes:
        rest = b',"count":%d,"bytes":%d,"special_tokens_added":0,"unknown_tokens":%d%b' % (
            worked.tokens,
            text_bytes,
            worked.unknown,
            tail,
        )
        return b"".join((b'{"ids":', worked.ids, rest))

    return {"count": count, "encode": encode}[operation]


def _msgpack_body(operation: str, entry: Entry) -> Callable[[Worked, int], bytes]:
    value = FORMS[MSGPACK].value
    head, ids_name = _head(entry), value("ids")

    def count(worked: Worked, text_bytes: int) -> bytes:
        return value(
            {
                "count": worked.tokens,
                "bytes": text_bytes,
                "tokens_per_byte": worked.tokens / text_bytes if text_bytes else None,
                "special_tokens_added": 0,
                "unknown_tokens": worked.unknown,
                **head,
            }
        )

    def encode(worked: Worked, text_bytes: int) -> bytes:
        rest = value(
            {
                "count": worked.tokens,
                "bytes": text_bytes,
                "special_tokens_added": 0,
                "unknown_tokens": worked.unknown,
                **head,
            }
        )
        # The first byte of a short map says how many members it has: here is one more.
        return b"".join((bytes([rest[0] + 1]), ids_name, worked.ids, memoryview(rest)[1:]))

    return {"count": count, "encode": encode}[operation]


BODIES = {JSON: _json_body, MSGPACK: _msgpack_body}
"""Media type to what makes an answer of what the library gave and the text's bytes."""
