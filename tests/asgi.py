"""A synchronous HTTP client of an ASGI application in this process, its lifespan run."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
    from types import TracebackType

    from service.api.app import Application

Result = TypeVar("Result")

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"
PROBLEM_TYPE = "application/problem+json"


class OneLoop:
    """One event loop for what several threads ask, as in a server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Leave the loop to the other clients."""

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AppClient:
    """Calls the application as a server would. Sends no header that a test does not name.

    One thread at a time may use it; an exception that leaves the application fails the test.
    """

    def __init__(self, app: Application, runner: OneLoop | None = None) -> None:
        """`runner`: what several clients share."""
        self.app = app
        self._runner = runner or asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://service"
        )
        for implied in ("accept", "accept-encoding", "connection", "user-agent"):
            del self._client.headers[implied]
        self._to_lifespan: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._from_lifespan: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._lifespan: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Start the application."""
        self._runner.run(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the application."""
        self.close()

    def close(self) -> None:
        """Stop the application, if this client started it."""
        self._runner.run(self._stop())
        self._runner.close()

    async def _start(self) -> None:
        self._lifespan = asyncio.create_task(
            self.app({"type": "lifespan"}, self._to_lifespan.get, self._from_lifespan.put)
        )
        await self._to_lifespan.put({"type": "lifespan.startup"})
        assert (await self._from_lifespan.get())["type"] == "lifespan.startup.complete"

    async def _stop(self) -> None:
        await self._client.aclose()
        if self._lifespan is not None:
            await self._to_lifespan.put({"type": "lifespan.shutdown"})
            await self._lifespan

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """One request; `arguments` as httpx takes them."""
        return self._runner.run(self._client.request(method, path, **arguments))

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("GET", path, **arguments)

    def post(self, path: str, body: Any = None, **arguments: Any) -> httpx.Response:
        """POST `body` as JSON, or what `arguments` say."""
        if body is not None:
            arguments["json"] = body
        return self.request("POST", path, **arguments)

    def post_bytes(
        self, path: str, body: bytes, media_type: str = JSON_TYPE, **headers: str
    ) -> httpx.Response:
        """POST bytes as they are. `headers` are named with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.post(path, content=body, headers={"content-type": media_type, **named})

    def ok(self, path: str, body: Any, **arguments: Any) -> dict[str, Any]:
        """The answer of a POST that has to succeed."""
        response = self.post(path, body, **arguments)
        assert response.status_code == httpx.codes.OK, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def raw(
        self,
        scope: dict[str, Any],
        headers: Sequence[tuple[bytes, bytes]] = (),
        messages: Iterable[dict[str, Any]] = ({"type": "http.request", "body": b""},),
    ) -> httpx.Response | None:
        """Call the application with exactly these headers and messages; None: nothing was sent."""
        return self._runner.run(self._raw(scope, headers, messages))

    async def _raw(
        self,
        scope: dict[str, Any],
        headers: Sequence[tuple[bytes, bytes]],
        messages: Iterable[dict[str, Any]],
    ) -> httpx.Response | None:
        left = iter(messages)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return next(left)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        whole = {"type": "http", "method": "POST", "headers": list(headers), **scope}
        await self.app(whole, receive, send)
        if not sent:
            return None
        start, *bodies = sent
        content = b"".join(message["body"] for message in bodies)
        return httpx.Response(start["status"], headers=start["headers"], content=content)


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The body of an error response, after its shape was checked (CONTRACT, section 4)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM_TYPE
    body: dict[str, Any] = response.json()
    assert body["code"] == code, body
    assert body["status"] == status
    for member in ("type", "title", "detail"):
        assert isinstance(body[member], str), member
        assert body[member], member
    assert body["request_id"] == response.headers["x-request-id"]
    return body


async def in_pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    """A body that comes in pieces, so that no Content-Length says how long it is."""
    for start in range(0, len(body), size):
        yield body[start : start + size]
