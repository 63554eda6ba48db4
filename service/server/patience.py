"""How long a connection is waited for, in each of its states.

uvicorn bounds neither the time that a head, a body or a first request may take, nor the time in
which a client reads what it is answered. One watch for all connections asks those whose deadline
is past to expire.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.server.lingering import Lingering

if TYPE_CHECKING:
    import asyncio

    from service.server.rules import Rules


class Patience(HttpToolsProtocol):
    """uvicorn's protocol with a deadline. Everything here is called on the event loop."""

    def __init__(self, *, rules: Rules, **of_uvicorn: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**of_uvicorn)
        self._rules = rules
        self.deadline = math.inf
        """Time of the loop after which the watch closes this connection."""
        self._in_head = self._in_body = self._begins = False
        self._refused = False
        self._advances = False
        """Whether the data in hand ended a head or a message or brought a part of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request, no longer than an idle connection may."""
        super().connection_made(transport)
        self._lingering = Lingering(transport, self.loop, lambda: self._in_body or self._refused)
        self.transport = cast("asyncio.Transport", self._lingering)  # all that uvicorn uses of one
        self.deadline = self.loop.time() + self._rules.idle_seconds

    def _set_deadline(self) -> None:
        """Say how long is waited for what comes next."""
        now = self.loop.time()
        if self._in_body:
            self.deadline = now + self._rules.body_idle_seconds
        elif self._in_head:
            if self._begins:
                self._begins = False
                self.deadline = now + self._rules.head_seconds
        elif self._answers:
            stalls = self.flow.write_paused
            self.deadline = now + self._rules.keep_alive_seconds if stalls else math.inf
        elif self._advances:  # blank lines keep no connection
            self.deadline = now + self._rules.keep_alive_seconds

    @property
    def _answers(self) -> bool:
        """Whether there is an answer that is not all written."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Wait for the next request; the watch takes the place of uvicorn's timer."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self._advances = True
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait for a client that does not read, as long as for one that asks nothing."""
        super().pause_writing()
        self._lingering.takes_something()
        if self._answers:
            self._set_deadline()

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        if self._answers:
            self._set_deadline()

    def expire(self) -> None:
        """The deadline is past: nobody is waited for any longer, but for an answer of ours."""
        now = self.loop.time()
        if self.flow.write_paused:
            if self._lingering.takes_something():
                self.deadline = now + self._rules.keep_alive_seconds
            else:
                self._lingering.abort()
        elif self.pipeline or (self._answers and not self.cycle.more_body):
            self.deadline = now + self._rules.head_seconds
        else:
            self._lingering.abort()
