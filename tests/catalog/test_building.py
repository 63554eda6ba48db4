"""Fast engines are built in threads, and a process that has loaded has none."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from service.catalog.building import EngineBuilders, undisturbed
from service.catalog.lock import read_lock
from tests.locks import EMBEDDED

if TYPE_CHECKING:
    from service.catalog.lock import LockedArtifact

ARTIFACTS = {artifact.name: artifact for artifact in read_lock(EMBEDDED)}

LOAD = f"""
import os, pathlib
from service.catalog.catalog import load_catalog
from service.settings import prepare_libraries
prepare_libraries()
catalog = load_catalog(pathlib.Path({str(EMBEDDED)!r}))
print(*sorted(entry.name for entry in catalog if entry.engine_state == "fast"))
print(len(os.listdir("/proc/self/task")))
"""


class Built:
    """Stands in for building an engine; notes the threads in which it was done."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __call__(self) -> Any:
        self.threads.append(threading.current_thread())


def begun(builders: EngineBuilders, artifact: LockedArtifact) -> tuple[Built, Any]:
    built = Built()
    return built, builders.begin(artifact, cast("Any", built))


def test_engines_are_built_in_threads_that_end() -> None:
    with EngineBuilders() as builders:
        built, wait = begun(builders, ARTIFACTS["r50k_base"])
        assert wait() is None
    assert [thread.is_alive() for thread in built.threads] == [False]


def test_an_engine_that_two_artifacts_share_is_not_built_twice_at_once() -> None:
    with EngineBuilders() as builders:
        begun(builders, ARTIFACTS["o200k_base"])
        built, wait = begun(builders, ARTIFACTS["o200k_harmony"])
    assert built.threads == []
    wait()
    assert built.threads == [threading.current_thread()]


def test_an_error_of_a_thread_is_that_of_the_call() -> None:
    def fails() -> Any:
        raise ZeroDivisionError

    with EngineBuilders() as builders:
        wait = builders.begin(ARTIFACTS["r50k_base"], fails)
    with pytest.raises(ZeroDivisionError):
        wait()


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_thread_is_left_for_a_fork() -> None:
    """A library's pool would be dead in the workers, or hold a lock for ever."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, check=True, timeout=120
    )
    fast, threads = done.stdout.splitlines()
    assert "o200k_base" in fast
    assert threads == "1"


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_left_as_it_was(*, collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with undisturbed():
            assert not gc.isenabled()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
