"""Closing a connection so that its client can read the answer that it was given.

A socket that is closed while the client is still sending resets the connection, and the client
may lose the answer before it has read it. So the side that writes is closed first, and what comes
is swallowed for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_SECONDS = 2.0
_BYTES = 1024 * 1024
"""How long, and how much, a client may go on sending to a connection that is to be closed."""


class Lingering:
    """What uvicorn uses of a transport, with a close that waits for a client that is sending."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        is_sending: Callable[[], bool],
    ) -> None:
        """`is_sending`: whether more is to come of a request that was begun."""
        self._transport = transport
        self._loop = loop
        self._is_sending = is_sending
        self._bytes_left = _BYTES
        self._unread = 0
        self.lingers = False
        self.write = transport.write
        self.abort = transport.abort
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info

    def is_closing(self) -> bool:
        """Whether no more may be written."""
        return self.lingers or self._transport.is_closing()

    def takes_something(self) -> bool:
        """Whether the client read some of what waits for it since this was last asked."""
        before, self._unread = self._unread, self._transport.get_write_buffer_size()
        return self._unread < before

    def close(self) -> None:
        """Close when all is written, and the client has had time to stop sending."""
        if self._is_sending():
            self.linger()
        else:
            self._transport.close()

    def linger(self) -> None:
        """Close the side that writes, and the other after a while."""
        if self.is_closing():
            return
        self.lingers = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():  # TLS can't
            self._transport.write_eof()
        self._loop.call_later(_SECONDS, self._transport.close)

    def swallow(self, size: int) -> None:
        """So many bytes came that nobody reads."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._transport.close()
