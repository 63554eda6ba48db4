"""What goes wrong around a running service: disks, files, clocks, other people's variables."""

from __future__ import annotations

import ast
import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.locks import LockedFolder
from tests.server.test_workers import two_workers
from tests.server.watching import TOKENIZER, ask, status, taken_port, wait_until, workers_of
from tests.serving import COMMAND, STOP_SECONDS, Served, environment, run, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = pathlib.Path(__file__).parents[2] / "service"
BODY = {"tokenizer": TOKENIZER, "text": "hello"}


def still_right(service: Served, ids: list[int]) -> None:
    """Right ids, and an error that writes to the log."""
    answer = httpx.post(f"{service.url}/encode", json=BODY)
    assert answer.json()["ids"] == ids
    assert httpx.post(f"{service.url}/encode", json={}).status_code == 422


def ids_of(service: Served) -> list[int]:
    ids: list[int] = httpx.post(f"{service.url}/encode", json=BODY).json()["ids"]
    return ids


def test_a_disk_that_is_full(artifacts: pathlib.Path) -> None:
    """Nothing is written but the log, and the log may be lost."""
    with serving(artifacts) as service:
        ids = ids_of(service)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        before = service.log()
        still_right(service, ids)
        assert service.log() == before
        assert service.stop() == 0


def test_more_connections_than_files_may_be_open(artifacts: pathlib.Path) -> None:
    """The newest are closed; all others are answered, and so is who comes when there is place."""
    with serving(artifacts) as service, contextlib.ExitStack() as connections:
        ids = ids_of(service)
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        opened = [
            connections.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            for _ in range(200)
        ]
        with pytest.raises(httpx.TransportError):
            ids_of(service)
        opened[0].sendall(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n")
        assert opened[0].recv(1024).startswith(b"HTTP/1.1 200 ")
        connections.close()
        wait_until(lambda: status(service, "/readyz") == 200)
        still_right(service, ids)
        assert service.stop() == 0


@contextlib.contextmanager
def writing_to(path: str, artifacts: pathlib.Path) -> Iterator[Served]:
    """The service with its log going to a file that nobody reads."""
    with taken_port() as port:
        pass
    options = ("serve", "--port", str(port), "--artifacts", str(artifacts))
    with pathlib.Path(path).open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, *options], stderr=log, env=environment({"TOKENIZER_DRAIN_SECONDS": "0"})
        )
    service = Served(process, pathlib.Path(path))
    service.port = port
    try:
        wait_until(lambda: status(service, "/readyz") == 200)
        yield service
    finally:
        process.kill()
        process.wait(STOP_SECONDS)


def test_a_log_that_can_not_be_written(artifacts: pathlib.Path) -> None:
    if not pathlib.Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with writing_to("/dev/full", artifacts) as service:
        still_right(service, ids_of(service))
        assert service.stop() == 0


def test_artifacts_that_change_while_it_runs(tmp_path: pathlib.Path) -> None:
    """A catalog never changes, in a worker that is started later neither; a new start refuses."""
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add_embedded(TOKENIZER)
    with two_workers(folder.root) as (service, _):
        ids, before = ids_of(service), fingerprint(service)
        for file in folder.root.rglob("*"):
            if file.is_file():
                file.unlink()
                file.write_bytes(b"something else")
        victim = min(workers_of(service))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: victim not in workers_of(service) and len(workers_of(service)) == 2)
        ask(service, 20)
        assert {tuple(ids_of(service)) for _ in range(20)} == {tuple(ids)}
        assert {fingerprint(service) for _ in range(20)} == {before}
        assert run("verify", "--artifacts", str(folder.root)).returncode == 3
        assert service.stop() == 0


def fingerprint(service: Served) -> str:
    found: str = httpx.get(f"{service.url}/fingerprint/{TOKENIZER}").json()["fingerprint"]
    return found


def test_a_folder_of_metrics_is_not_looked_at(
    artifacts: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The numbers are in shared memory, so a stale, corrupt or absent folder means nothing."""
    (tmp_path / "counter_1.db").write_bytes(b"corrupt")
    for path in (tmp_path, tmp_path / "none"):
        variables = {"PROMETHEUS_MULTIPROC_DIR": str(path)}
        with serving(artifacts, variables=variables) as service:
            ask(service, 3)
            assert status(service, "/metrics") == 200
            assert service.stop() == 0
    assert [file.name for file in tmp_path.iterdir()] == ["counter_1.db"]


CLOCKS_THAT_ARE_SET = {"time", "time_ns", "now", "utcnow", "today", "gmtime", "localtime"}
OTHERS = {"monotonic", "perf_counter", "sleep"}


def test_no_time_is_measured_with_a_clock_that_can_be_set() -> None:
    """So a jump of the clock changes no time-out, no duration and no deadline."""
    found = {
        node.attr
        for path in SERVICE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"time", "datetime", "date"}
    }
    assert found & OTHERS, "the test looks at nothing"
    assert found.isdisjoint(CLOCKS_THAT_ARE_SET)
