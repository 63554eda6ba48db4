"""What loading leaves of a process: no thread, and the collector as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from service.catalog.building import undisturbed
from tests.locks import EMBEDDED

LOAD = f"""
import os, pathlib
from service.catalog.catalog import load_catalog
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
