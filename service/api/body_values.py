"""How many values a large body holds, told before they are made.

A parser holds the interpreter for as long as it makes values: 0.17 s for 16 MiB of texts of one
letter, and the event loop with it. Bytes that stay bytes cost a tenth. So a large body is first
read with its lists unread, and refused if they are longer than any request may make them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from service.api.codec import JSON, MSGPACK, unreadable
from service.errors import TooManyItems

if TYPE_CHECKING:
    from service.settings import Settings

LARGE_BODY_BYTES = 4 * 1024 * 1024
"""Smaller bodies are parsed as they are: no list fits into them that takes over 50 ms."""

_BATCH_LISTS = 2
"""Times the longest list of ids: how many ids all lists of one batch may have together."""

_MAX_STRINGS = 1_000_000
"""Of a JSON list; more than that can't be told from quotes that are escaped twice."""

_NOTHING = msgspec.Raw()


class _Unread(msgspec.Struct):
    """The members that may be long, unread; the others are passed over."""

    text: msgspec.Raw = _NOTHING
    texts: msgspec.Raw = _NOTHING
    ids: msgspec.Raw = _NOTHING
    batch: msgspec.Raw = _NOTHING


_DECODERS = {
    JSON: msgspec.json.Decoder(_Unread).decode,
    MSGPACK: msgspec.msgpack.Decoder(_Unread).decode,
}
_LISTS = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def check_values(body: bytes, media_type: str, limits: Settings) -> None:
    """Raise TooManyItems for a large body of more values than any request may have.

    Raises MalformedBody and InvalidUnicode for one that can't be read.
    """
    if len(body) <= LARGE_BODY_BYTES:
        return
    try:
        unread = _DECODERS[media_type](body)
    except (msgspec.DecodeError, RecursionError):
        raise unreadable(body, media_type) from None
    long_members = (unread.text, unread.texts, unread.ids, unread.batch)
    if len(body) - sum(map(len, long_members)) > LARGE_BODY_BYTES:
        raise TooManyItems("bytes beside texts and ids", LARGE_BODY_BYTES)
    if media_type == JSON:
        _check_json(unread, limits)
    else:
        _check_msgpack(unread, limits)


def _check_json(unread: _Unread, limits: Settings) -> None:
    texts = bytes(unread.texts)
    quotes = texts.count(b'"') - texts.count(b'\\"')
    if quotes > 2 * limits.max_batch_items:
        raise TooManyItems("texts", limits.max_batch_items)
    # An escaped backslash at the end of a string looks like an escaped quote.
    if quotes + texts.count(b'\\\\"') > _MAX_STRINGS:
        raise TooManyItems("texts", limits.max_batch_items)
    if bytes(unread.ids).count(b",") >= limits.max_ids:
        raise TooManyItems("ids", limits.max_ids)
    if bytes(unread.batch).count(b",") > _BATCH_LISTS * limits.max_ids:
        raise TooManyItems("ids in a batch", _BATCH_LISTS * limits.max_ids)


def _check_msgpack(unread: _Unread, limits: Settings) -> None:
    if _length(unread.texts) > limits.max_batch_items:
        raise TooManyItems("texts", limits.max_batch_items)
    if _length(unread.ids) > limits.max_ids:
        raise TooManyItems("ids", limits.max_ids)
    if _length(unread.batch) > limits.max_batch_items:
        raise TooManyItems("lists of ids", limits.max_batch_items)
    lists = _LISTS(unread.batch) if _length(unread.batch) else []
    if sum(map(_length, lists)) > _BATCH_LISTS * limits.max_ids:
        raise TooManyItems("ids in a batch", _BATCH_LISTS * limits.max_ids)


def _length(raw: msgspec.Raw) -> int:
    """Elements of a MessagePack array, by its head; 0 for what is none."""
    head = bytes(memoryview(raw)[:5])
    if head[:1] == b"\xdd":
        (length,) = struct.unpack(">I", head[1:5])
    elif head[:1] == b"\xdc":
        (length,) = struct.unpack(">H", head[1:3])
    else:
        return head[0] & 0x0F if head and head[0] >> 4 == 9 else 0  # noqa: PLR2004 - fixarray
    return int(length)
