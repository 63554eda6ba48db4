"""A body that is held until it is whole."""

from __future__ import annotations

import io

_LARGE_BYTES = 16 * 1024


class Body:
    """The parts of a body. Large ones stay as they came, and many small ones take little."""

    __slots__ = ("_large", "_small", "size")

    def __init__(self) -> None:
        self._large: list[bytes] = []
        self._small = io.BytesIO()
        # Each object of a list takes 40 bytes, and a part may be one byte.
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

    def whole(self) -> bytes:
        """All of it."""
        small = self._small.getvalue()
        return b"".join([*self._large, small]) if self._large else small
