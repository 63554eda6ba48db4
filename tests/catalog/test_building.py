"""Building side by side, and what it leaves: no thread, and the collector as it was."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import threading
import time

import pytest

from service.catalog.building import Builders, largest_first, undisturbed
from service.catalog.lock import read_lock
from tests.locks import EMBEDDED

LOAD = f"""
import os, pathlib
from service.catalog.loading import load_catalog
from service.settings import prepare_libraries
prepare_libraries()
catalog = load_catalog(pathlib.Path({str(EMBEDDED)!r}))
print(*sorted(entry.name for entry in catalog if entry.engine_state == "fast"))
print(len(os.listdir("/proc/self/task")))
"""


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


def test_engines_are_built_side_by_side_and_no_thread_is_left() -> None:
    threads: set[str] = set()

    def build() -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.01)

    with Builders() as builders:
        building = [builders.begin(artifact, build) for artifact in read_lock(EMBEDDED)]
        for each in building:
            each.result()
    assert len(threads) > 1
    assert not threads & {thread.name for thread in threading.enumerate()}


def test_artifacts_with_a_file_in_common_wait_for_each_other() -> None:
    """They have their tables in common, which two threads would make twice."""
    artifacts = read_lock(EMBEDDED)
    alike = {"o200k_base", "o200k_harmony"}
    ranks = {file.sha256 for each in artifacts if each.name in alike for file in each.file}
    assert len(ranks) == 1
    busy: list[str] = []
    met: list[tuple[str, ...]] = []

    def build(name: str) -> None:
        busy.append(name)
        time.sleep(0.02)
        met.append(tuple(busy))
        busy.remove(name)

    with Builders() as builders:
        for artifact in artifacts:
            builders.begin(artifact, functools.partial(build, artifact.name))
        time.sleep(0.1)
    assert any(len(together) > 1 for together in met)
    assert not any(alike <= set(together) for together in met)


def test_a_refusal_ends_what_was_begun() -> None:
    begun: list[None] = []

    def build() -> None:
        begun.append(None)
        time.sleep(0.01)

    artifacts = read_lock(EMBEDDED)
    with pytest.raises(ValueError, match="refused"), Builders() as builders:  # noqa: PT012
        for artifact in artifacts:
            builders.begin(artifact, build)
        raise ValueError("refused")
    assert 0 < len(begun) < len(artifacts)


def test_the_largest_artifact_is_the_first() -> None:
    ordered = largest_first(read_lock(EMBEDDED))
    assert {artifact.name for artifact in ordered[:2]} == {"o200k_base", "o200k_harmony"}
    assert sorted(artifact.name for artifact in ordered) == sorted(
        artifact.name for artifact in read_lock(EMBEDDED)
    )
