"""A client for what is no load: one question at a time, and connections that stay open."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import TYPE_CHECKING, Any

from benchmarks.measure import CannotRunError
from benchmarks.servers import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.servers import Running

_TIMEOUT_SECONDS = 60


class Client:
    """One connection to one server."""

    def __init__(self, running: Running) -> None:
        self._name = running.spec.name
        self._connection = http.client.HTTPConnection(HOST, running.port, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """The answer. Raises CannotRunError for any that is not 200."""
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(self._read(path))
        return answer

    def get(self, path: str) -> str:
        """A page. Raises CannotRunError for any that is not 200."""
        self._connection.request("GET", path)
        return self._read(path).decode()

    def _read(self, path: str) -> bytes:
        response = self._connection.getresponse()
        data = response.read()
        if response.status != http.HTTPStatus.OK:
            shown = data[:80].decode(errors="replace")
            raise CannotRunError(f"{self._name} answers {response.status} on {path}: {shown}")
        return data


@contextlib.contextmanager
def connected(running: Running, number: int = 1) -> Iterator[list[Client]]:
    """Some connections, closed when the block ends."""
    clients = [Client(running) for _ in range(number)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def is_fast(service: Running, tokenizer: str) -> bool:
    """Whether the service's metrics say that its fast engine serves this tokenizer."""
    with connected(service) as (client,):
        lines = client.get("/metrics").splitlines()
    named = (f'tokenizer="{tokenizer}"', 'state="fast"')
    return any(
        line.startswith("tokenizer_fast_engine{") and all(label in line for label in named)
        for line in lines
    )
