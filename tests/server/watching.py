"""Looks at a running service from outside: its answers, its numbers, its processes and sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.serving import Served

ROOT = pathlib.Path(__file__).parents[2]

TOKENIZER = "bert-base-uncased"
HI = {"tokenizer": TOKENIZER, "text": "hi"}

JSON = "application/json"

FOR_EVER = "3600"
"""Of a time in seconds that the test ends, and not the clock."""

WAIT_SECONDS = 40.0
"""After this a test has failed, however slow the machine."""


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def status(service: Served, path: str) -> int | None:
    """The status of a GET on a new connection; None: nobody listens any more."""
    with contextlib.suppress(ConnectionError), connected(service) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status
    return None


def ask(service: Served, times: int = 1) -> None:
    """So many requests, each on a connection of its own."""
    for _ in range(times):
        with connected(service) as connection:
            response, answer = asked_on(connection)
            assert (response.status, answer["count"]) == (200, 1)


def value(service: Served, name: str, **labels: str) -> float:
    """What one scrape, on a new connection, shows: the sum of the samples with these labels."""
    with connected(service) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"tokenizer_{name}" and labels.items() <= sample.labels.items()
    )


def counted(service: Served) -> float:
    """How many /count requests a scrape says were answered."""
    return value(service, "request_duration_seconds_count", route="/count")


def others_in_flight(service: Served) -> float:
    """The gauge without the scrape that shows it."""
    return value(service, "in_flight") - 1


@contextlib.contextmanager
def connected(service: Served) -> Iterator[http.client.HTTPConnection]:
    """A connection that is kept for as many requests as one likes."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=WAIT_SECONDS)
    connection.connect()
    # A reconnection would hide that the server closed it.
    connection.auto_open = False
    with contextlib.closing(connection):
        yield connection


def asked_on(
    connection: http.client.HTTPConnection, **headers: str
) -> tuple[http.client.HTTPResponse, Any]:
    """One /count request on this connection: its answer, and what its body says."""
    connection.request("POST", "/count", json.dumps(HI), {"content-type": JSON, **headers})
    return answer_on(connection)


def answer_on(
    connection: http.client.HTTPConnection,
) -> tuple[http.client.HTTPResponse, Any]:
    """The next answer that comes on this connection."""
    response = connection.getresponse()
    return response, json.load(response)


def half_sent(connection: http.client.HTTPConnection, text: str = "hi") -> bytes:
    """A /count request without its last byte, which is returned."""
    body = json.dumps({**HI, "text": text}).encode()
    connection.putrequest("POST", "/count")
    connection.putheader("content-type", JSON)
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body[:-1])
    return body[-1:]


def until_closed(connection: http.client.HTTPConnection) -> bytes:
    """All that the server sends before it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.sock.recv(65536):
            received += part
    return received


def port_of(connection: http.client.HTTPConnection) -> int:
    """The client's port."""
    port: int = connection.sock.getsockname()[1]
    return port


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def workers_of(service: Served) -> set[int]:
    """The processes that the service's own process started, and that run."""
    pid = service.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    running = set()
    for child in children.read_text(encoding="ascii").split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = pathlib.Path(f"/proc/{child}/stat").read_text(encoding="utf-8")
            if stat.rpartition(")")[2].split()[0] not in "ZX":
                running.add(int(child))
    return running


def workers_by_client_port(service: Served) -> dict[int, int]:
    """Which worker holds the connection of each client's port."""
    port_of_inode = {}
    for row in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, *_, inode = row.split()[:10]
        if int(local.partition(":")[2], 16) == service.port:
            port_of_inode[inode] = int(remote.partition(":")[2], 16)
    found = {}
    for worker in workers_of(service):
        for descriptor in pathlib.Path(f"/proc/{worker}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                inode = str(descriptor.readlink()).removeprefix("socket:").strip("[]")
                if inode in port_of_inode:
                    found[port_of_inode[inode]] = worker
    return found


class Processes:
    """Some running processes, by handles that never come to mean others."""

    def __init__(self, pids: set[int]) -> None:
        self._handles = [os.pidfd_open(pid) for pid in pids]

    def wait(self) -> None:
        """Wait until all have ended."""
        for handle in self._handles:
            ended, _, _ = select.select([handle], [], [], WAIT_SECONDS)
            assert ended, "a process did not end"

    def kill(self) -> None:
        """End those that still run."""
        for handle in self._handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def close(self) -> None:
        for handle in self._handles:
            os.close(handle)


def with_code(folder: pathlib.Path, code: str) -> dict[str, str]:
    """Variables for a process that runs this code before anything else."""
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
