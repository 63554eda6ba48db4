"""A body that is held until it is whole."""

from __future__ import annotations

import io

from service.api.arrays import np

HELD_BODY = "held_body"
"""Key of the scope's state under which the protocol gives a body that it held until it was whole.
uvicorn would copy it."""

_LARGE_BYTES = 16 * 1024


class Body:
    """The parts of a body. Large ones stay as they came, and many small ones take little."""

    __slots__ = ("_large", "_room", "_small", "size")

    def __init__(self) -> None:
        self._large: list[bytes] = []
        self._small = io.BytesIO()
        # Each object of a list takes 40 bytes, and a part may be one byte.
        self._room: memoryview | None = None
        self.size = 0
        """Bytes so far."""

    def add(self, part: bytes) -> None:
        """One more part."""
        self.size += len(part)
        if len(part) < _LARGE_BYTES:
            self._small.write(part)
            if self._small.tell() < _LARGE_BYTES:
                return
            part = b""
        if self._small.tell():
            self._large.append(self._small.getvalue())
            self._small = io.BytesIO()
        if part:
            self._large.append(part)

    def make_room(self, length: int) -> memoryview:
        """The place for the rest of a body of `length` bytes, to be filled from its start.

        It takes no memory before it is filled: a client that only says that much will come costs
        what it sent.
        """
        room = np.empty(length, np.uint8).data
        room[: self.size] = self.whole()
        self._room = room
        return room[self.size :]

    def fill(self, size: int) -> None:
        """So many bytes more stand in their place."""
        self.size += size

    def whole(self) -> bytes | memoryview:
        """All of it."""
        if self._room is not None:
            return self._room[: self.size]
        small = self._small.getvalue()
        return b"".join([*self._large, small]) if self._large else small
