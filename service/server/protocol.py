"""HTTP/1.1 on one connection: uvicorn's protocol, with bounds that it lacks and a quick way.

uvicorn bounds neither the size of a request's head nor any time (service/server/patience.py). A
plain request that arrived whole is answered at once (service/api/quick.py); every other goes
uvicorn's way through ASGI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httptools

from service.api.engine import GONE
from service.errors import HeadersTooLarge, MalformedRequest
from service.server import offers
from service.server.held import LONG_BYTES, Held
from service.server.patience import Patience

if TYPE_CHECKING:
    from service.errors import RequestError
    from service.server.rules import Rules

_MAX_DRAINED_BYTES = 64 * 1024
"""How much of a body is read that its answer did not wait for, so that the connection can stay."""


class _NoMoreError(Exception):
    """Nothing more is read of this connection."""


class Protocol(Patience):
    """One connection. Everything here is called on the event loop."""

    def __init__(self, *, rules: Rules, **of_uvicorn: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(rules=rules, **of_uvicorn)
        self._drained_bytes = 0
        self._idle_bytes = 0
        """How many bytes came since some advanced: of a head, of what surrounds chunks, of blank
        lines."""
        self.held: Held | None = None
        """A request for work is held back until it is whole: in pieces, ASGI costs twice as much.
        A small one is answered at once, one for each piece of data: the others take turns."""
        self._may_answer = self._only_parses = False

    def data_received(self, data: bytes | memoryview) -> None:
        """Parse what came, answer or pass on what is whole, and set the next deadline."""
        if self._refused or self._lingering.lingers:
            self._lingering.swallow(len(data))
            return
        self._may_answer = True
        self._advances = False
        rest = None
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = memoryview(data)[upgrade.args[0] :]
            while rest is not None:
                rest = self._read_anew(rest)
        except httptools.HttpParserError as error:
            cause = error.__context__
            if not isinstance(cause, _NoMoreError):
                self._refuse(cause if isinstance(cause, HeadersTooLarge) else MalformedRequest())
            return
        if self.held is not None and not self.held.waits:
            self._wait(self.held)
        self._idle_bytes = 0 if self._advances else self._idle_bytes + len(data)
        if self._idle_bytes > self._rules.max_head_bytes:
            self._refuse(HeadersTooLarge(self._rules.max_head_bytes))
        else:
            self._set_deadline()

    def on_message_begin(self) -> None:
        """A request's first byte."""
        self.url, self.headers = b"", []
        self.expect_100_continue, self._drained_bytes = False, 0
        self._in_head = self._begins = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; those after a chunked body say nothing that anybody reads."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hold a request for work back until it is whole; start the ASGI cycle of any other."""
        self._check_head()
        parser, cycle = self.parser, self.cycle
        holds = (
            self._rules.quick.takes(self.url)
            and parser.get_method() == b"POST"
            and not self.expect_100_continue
            and (cycle is None or cycle.response_complete)
            and parser.get_http_version() == "1.1"
            and not parser.should_upgrade()
            and not self.flow.write_paused
        )
        if holds:
            self.held = Held(self._rules.uploads)
        elif not parser.should_upgrade():
            self._start_cycle()
        self._in_head, self._in_body = False, True
        self._advances = True

    def _wait(self, held: Held) -> None:
        """Hold a request that is not whole yet; one that will be refused is refused now."""
        overloaded = not held.wait(self.loop.time())
        length = self._rules.quick.awaited(self.headers)
        if overloaded or length is None:
            self._start_cycle(overloaded=overloaded)
        else:
            held.expect(length)

    def take(self, held: Held, size: int) -> None:
        """So much more of a body stands in its room."""
        fits = held.take(size)
        if not held.room:
            self._may_answer = True
            self.on_message_complete()
            self._renew_parser()  # the old one waits for a body that it will not see
        elif not fits:
            self._start_cycle(overloaded=True)
            self.cycle.message_event.set()
        self._set_deadline()

    def _let_go(self) -> None:
        """Hold nothing any longer."""
        if self.held is not None:
            self.held.let_go()
            self.held = None

    def _check_head(self) -> None:
        """Raise HeadersTooLarge for a head that is over the bound although it came at once."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._rules.max_head_bytes:
            raise HeadersTooLarge(self._rules.max_head_bytes)

    def _start_cycle(self, *, overloaded: bool = False) -> None:
        """Go uvicorn's way with what is there of a request."""
        held = self.held
        if held is not None and held.room:
            self._only_parses = True
            self.parser.feed_data(held.unparsed())
            self._only_parses = False
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()
        self.scope["state"] = {GONE: self.transport.is_closing}
        if held is not None:
            if self._in_body:
                self.cycle.body = bytearray(held.whole())  # uvicorn will add to it
            self.scope["state"] |= held.state(
                self.loop.time(), overloaded=overloaded, is_whole=not self._in_body
            )
            self._let_go()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._advances = True
        held = self.held
        if self._only_parses:
            return
        if held is not None:
            overloaded = not held.hold(body)
            if overloaded or held.size > self._rules.max_body_bytes:
                self._start_cycle(overloaded=overloaded)
                self.cycle.message_event.set()
        elif self.cycle.response_complete:
            self._drained_bytes += len(body)
            if self._drained_bytes > _MAX_DRAINED_BYTES:
                self._lingering.linger()
                raise _NoMoreError
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Answer a request that was held back; uvicorn's cycle learns that its body is whole."""
        self._in_body = False
        self._advances = True
        if self.parser.should_upgrade():
            return
        # A trailer may have said otherwise than the head: the parser reads nothing behind it then.
        stays = self.parser.should_keep_alive()
        held = self.held
        if held is not None:
            quick = self._rules.quick
            fits = held.size <= quick.limit or quick.has_time_for(held.size)
            if stays and self._may_answer and fits:
                self._may_answer = False
                answer = quick.answer(self.url, self.headers, held.whole())
                if answer is not None:
                    self._let_go()
                    head = self._rules.head(self.server_state.default_headers)
                    own_head, body = answer
                    if len(body) < LONG_BYTES:
                        self._lingering.write(head + own_head + body)
                    else:  # which would be copied
                        self._lingering.write(head + own_head)
                        self._lingering.write(body)
                    return
            self._start_cycle()
        if not stays:
            super().shutdown()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was held for it."""
        self._let_go()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection when it is idle, or after the answer to what was begun."""
        self.begin()
        super().shutdown()

    def begin(self) -> None:
        """Hold back no longer what was begun: the process is about to refuse what was not."""
        if self.held is not None:
            self._start_cycle()

    def _refuse(self, error: RequestError) -> None:
        """Answer what is no request, and read no further."""
        self._refused, self.deadline = True, self.loop.time() + self._rules.keep_alive_seconds
        of_body = self._in_body and self.held is None
        self._let_go()
        cycle = self.cycle
        if cycle is None or (cycle.response_complete and not of_body):
            self._answer_refused(error)
        elif cycle.response_complete:
            self._lingering.linger()
        elif of_body and not (cycle.response_started or self.pipeline):
            cycle.disconnected = True
            cycle.message_event.set()
            self._answer_refused(error)
        else:
            # Answers are under way, and another would end up within them.
            cycle.keep_alive = False

    def _answer_refused(self, error: RequestError) -> None:
        self._lingering.write(self._rules.quick.refusal(error, self.server_state.default_headers))
        self._lingering.linger()

    def _read_anew(self, rest: memoryview) -> memoryview | None:
        """Read a request that offers another protocol without its offer; this one is enough.

        Clients that would like HTTP/2 send one with a POST. Gives what follows another such offer.
        """
        head = offers.without_offer(self.parser, self.url, self.headers)
        self._renew_parser()
        self.parser.feed_data(head)
        try:
            self.parser.feed_data(rest)
        except httptools.HttpParserUpgrade as upgrade:
            return rest[upgrade.args[0] :]
        return None

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
