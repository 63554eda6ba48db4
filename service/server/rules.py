"""What all connections of a process share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

if TYPE_CHECKING:
    from service.api.quick import Quick
    from service.api.uploads import Uploads
    from service.settings import Settings

_READ_BYTES = 64 * 1024
"""At most at once, of what is parsed."""


class Rules:
    """Bounds, the quick way, the first lines of its answers, and the place for what is read."""

    def __init__(self, settings: Settings, quick: Quick, uploads: Uploads) -> None:
        self.quick = quick
        self.uploads = uploads
        self.max_body_bytes = settings.max_body_bytes
        self.max_head_bytes = settings.max_header_bytes
        self.idle_seconds = settings.idle_timeout_seconds
        self.head_seconds = settings.header_timeout_seconds
        self.body_idle_seconds = settings.body_idle_timeout_seconds
        self.keep_alive_seconds = settings.keep_alive_seconds
        self.place = memoryview(bytearray(_READ_BYTES))
        """Of one event loop: what is read is parsed before anything else is read."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head = STATUS_LINE[200]

    def head(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The first lines of a quick answer. uvicorn makes a new list when the date changes."""
        if headers is not self._headers:
            lines = (b"%b: %b\r\n" % header for header in headers)
            self._headers, self._head = headers, STATUS_LINE[200] + b"".join(lines)
        return self._head
