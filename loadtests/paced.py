"""A client of constant rate: each request has its time, whatever became of those before it.

A client that waits for an answer before it sends the next request is slowed down by what it
measures, and sends nothing while the service stalls. Here a request starts when it is due, on a
connection of its own if none is idle, and its latency counts from when it was due. A request is
sent once: what fails is counted, not tried again.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from questions import Question

REQUEST_SECONDS = 30.0
"""After this an answer is not waited for any longer."""

SLOW_PARTS = 20


class NotAnsweredError(Exception):
    """A request got something else than its answer; says what."""


@dataclasses.dataclass
class Kind:
    """What became of the requests of one kind."""

    sent: int = 0
    seconds: list[float] = dataclasses.field(default_factory=list)
    """Of each that got the right answer: from when it was due to the answer's last byte."""
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


class Ledger(collections.defaultdict[str, Kind]):
    """By kind."""

    def __init__(self) -> None:
        super().__init__(Kind)

    def lost(self) -> int:
        """Requests without their answer, whatever else they got."""
        return sum(kind.sent - len(kind.seconds) for kind in self.values())

    def errors(self) -> collections.Counter[str]:
        """How often each thing went wrong, over all kinds."""
        return sum((kind.errors for kind in self.values()), collections.Counter[str]())


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.reusable = True

    async def ask(self, question: Question, upload_seconds: float) -> tuple[int, bytes]:
        """Status and body of the answer; the request's body takes so long to send."""
        body = question.body
        head = (
            f"POST {question.path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode())
        step = len(body) if not upload_seconds else len(body) // SLOW_PARTS + 1
        for start in range(0, len(body), step):
            self.writer.write(body[start : start + step])
            await self.writer.drain()
            if upload_seconds:
                await asyncio.sleep(upload_seconds / SLOW_PARTS)
        return await self._answer()

    async def _answer(self) -> tuple[int, bytes]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        self.reusable = headers.get("connection") != "close" and "content-length" in headers
        if "content-length" in headers:
            body = await self._reader.readexactly(int(headers["content-length"]))
        else:
            body = await self._reader.read()
        return int(lines[0].split(" ", 2)[1]), body


class PacedClient:
    """Sends questions to one port of loopback."""

    def __init__(self, port: int, ledger: Ledger) -> None:
        self._port = port
        self._ledger = ledger
        self._idle: list[_Connection] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(
        self,
        questions: Iterable[Question],
        rate: float,
        stop: asyncio.Event,
        *,
        slow: str = "",
        upload_seconds: float = 0.0,
    ) -> None:
        """Ask at this rate until told to stop, then wait for the answers that are due.

        Questions of the kind `slow` take `upload_seconds` to send.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        for question in questions:
            await asyncio.sleep(max(0.0, due - loop.time()))
            if stop.is_set():
                break
            uploads = upload_seconds if question.kind == slow else 0.0
            task = asyncio.create_task(self._settle(question, due, uploads))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            due += 1 / rate
        if self._under_way:
            await asyncio.wait(self._under_way)
        while self._idle:
            self._idle.pop().writer.close()

    async def _settle(self, question: Question, due: float, upload_seconds: float) -> None:
        """Ask one question and note what became of it."""
        kind = self._ledger[question.kind]
        kind.sent += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS + upload_seconds):
                status, body = await self._ask(question, upload_seconds)
            _check(question, status, body)
        except (OSError, EOFError, NotAnsweredError) as error:
            said = str(error) if isinstance(error, NotAnsweredError) else type(error).__name__
            kind.errors[said] += 1
        else:
            now = asyncio.get_running_loop().time()
            kind.seconds.append(now - due - upload_seconds)

    async def _ask(self, question: Question, upload_seconds: float) -> tuple[int, bytes]:
        if self._idle:
            connection = self._idle.pop()
        else:
            connection = _Connection(*await asyncio.open_connection("127.0.0.1", self._port))
        with contextlib.ExitStack() as stack:
            stack.callback(connection.writer.close)
            answer = await connection.ask(question, upload_seconds)
            if connection.reusable:
                stack.pop_all()
                self._idle.append(connection)
            return answer


def _check(question: Question, status: int, body: bytes) -> None:
    """Raise NotAnsweredError unless this is the answer."""
    if status != 200:
        code = ""
        with contextlib.suppress(ValueError, AttributeError):
            code = json.loads(body).get("code", "")
        raise NotAnsweredError(f"status {status} {code}".strip())
    wrong = question.wrong(json.loads(body))
    if wrong is not None:
        raise NotAnsweredError(f"wrong {wrong}")
