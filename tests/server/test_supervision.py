"""What the supervisor does for workers that do not die by themselves: signals, hangs."""

from __future__ import annotations

import hashlib
import os
import signal
from typing import TYPE_CHECKING

import httpx

from tests.server.test_workers import WORKERS, two_workers
from tests.server.watching import ask, counted, status, wait_until, with_code, workers_of
from tests.serving import STOP_SECONDS, Served, run, serving

if TYPE_CHECKING:
    import pathlib

SOON = {"TOKENIZER_ENGINE_TIMEOUT_SECONDS": "1"}


def test_a_worker_whose_loop_hangs_is_replaced(artifacts: pathlib.Path) -> None:
    """A stopped process is as silent as one in a native call without an end."""
    with two_workers(artifacts, SOON) as (service, _):
        hanging = min(workers_of(service))
        os.kill(hanging, signal.SIGSTOP)
        wait_until(lambda: hanging not in workers_of(service))
        wait_until(lambda: len(workers_of(service)) == WORKERS)
        before = counted(service)
        ask(service, 20)
        wait_until(lambda: counted(service) == before + 20)
        assert {status(service, "/readyz") for _ in range(10)} == {200}
        assert "worker hangs" in service.log()
        assert service.stop() == 0


HANGS = """
import time
import service.api.door as door

either_way = door._Work.either_way

def hang(self, call):
    if b"please hang" in self.body:
        time.sleep(10000)
    return either_way(self, call)

door._Work.either_way = hang
"""
LONG = {"tokenizer": "bert-base-uncased", "text": "please hang " * 2000}


def post(service: Served, body: dict[str, str]) -> httpx.Response:
    return httpx.post(f"{service.url}/count", json=body, timeout=STOP_SECONDS)


def test_a_call_that_hangs_ends_its_worker(artifacts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Its request is told so; the worker goes, and another takes its place."""
    variables = SOON | with_code(tmp_path, HANGS)
    with two_workers(artifacts, variables) as (service, workers):
        before = workers_of(service)
        answer = post(service, LONG)
        assert (answer.status_code, answer.json()["code"]) == (500, "engine_failure")
        wait_until(lambda: len(workers_of(service) - before) == 1)
        ask(service, 20)
        assert service.process.poll() is None
        assert "a call of a library hangs" in service.log()
        workers.kill()
    assert service.process.wait(STOP_SECONDS) is not None


def test_a_single_process_whose_call_hangs_ends(
    artifacts: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Nobody replaces it but what started it, which the exit status tells."""
    with serving(artifacts, variables=SOON | with_code(tmp_path, HANGS)) as service:
        assert post(service, LONG).status_code == 500
        assert service.process.wait(STOP_SECONDS) == 70


def test_sighup_reads_the_keys_anew_in_every_worker(
    artifacts: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    keys = tmp_path / "keys"

    def allow(key: str) -> None:
        keys.write_text(f"someone {hashlib.sha256(key.encode()).hexdigest()}\n")

    def statuses(key: str) -> set[int]:
        headers = {"authorization": f"Bearer {key}"}
        return {
            httpx.get(f"{service.url}/tokenizers", headers=headers).status_code for _ in range(20)
        }

    allow("old")
    with two_workers(artifacts, {"TOKENIZER_API_KEYS_FILE": str(keys)}) as (service, _):
        assert (statuses("old"), statuses("new")) == ({200}, {401})
        allow("new")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: statuses("new") == {200})
        assert statuses("old") == {401}
        keys.write_text("broken")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: service.log().count("API keys stay as they were") == WORKERS)
        assert statuses("new") == {200}
        assert "broken" not in service.log()
        assert service.stop() == 0


def test_a_file_of_keys_that_can_not_be_used(
    artifacts: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Better no service than one that everybody may call."""
    options = ("--port", "0", "--artifacts", str(artifacts))
    done = run("serve", *options, variables={"TOKENIZER_API_KEYS_FILE": str(tmp_path / "none")})
    assert done.returncode == 2
    assert "API keys" in done.stderr
    assert "Traceback" not in done.stderr
