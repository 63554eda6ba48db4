"""Ids out of a buffer into the body of an answer, without a Python object for each of them."""

from __future__ import annotations

import orjson

from service.api.arrays import np
from service.core.tokenizer import ID_BYTES

_LITTLE_ENDIAN = np.dtype("<u4")
_MSGPACK_ELEMENT = np.dtype([("type", "u1"), ("value", ">u4")])
_UINT_32 = 0xCE
_ARRAY_32 = b"\xdd"


def number_of(buffer: bytes) -> int:
    """How many ids a buffer holds."""
    return len(buffer) // ID_BYTES


def occurrences(buffer: bytes, token_id: int) -> int:
    """How often an id stands in a buffer."""
    return int(np.count_nonzero(np.frombuffer(buffer, _LITTLE_ENDIAN) == token_id))


def json_of(buffer: bytes) -> bytes:
    """A JSON array of the ids: half the time of a list of them and its JSON."""
    ids = np.frombuffer(buffer, _LITTLE_ENDIAN)
    return orjson.dumps(ids, option=orjson.OPT_SERIALIZE_NUMPY)


def msgpack_of(buffer: bytes) -> memoryview:
    """A MessagePack array of the ids, each in the form `uint 32` whatever its size.

    The format allows any form that holds a number; one width for all makes this a copy.
    """
    ids = np.frombuffer(buffer, _LITTLE_ENDIAN)
    head = _ARRAY_32 + len(ids).to_bytes(4, "big")
    whole = np.empty(len(head) + ids.size * _MSGPACK_ELEMENT.itemsize, np.uint8)
    whole[: len(head)] = np.frombuffer(head, np.uint8)
    elements = whole[len(head) :].view(_MSGPACK_ELEMENT)
    elements["type"] = _UINT_32
    elements["value"] = ids
    return whole.data
