"""Whether a worker's loop is alive, told across processes."""

from __future__ import annotations

import os
import time

import pytest

from service.server import heartbeat
from service.server.heartbeat import Heartbeats


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, which stands still."""
    clock = [1000.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: clock[0])
    return clock


def test_silence(now: list[float]) -> None:
    beats = Heartbeats(2)
    assert not beats.silent(0, 5), "a worker that never was alive is only just starting"
    beats.beat(0)
    now[0] += 5
    assert not beats.silent(0, 5)
    now[0] += 0.1
    assert beats.silent(0, 5)
    assert not beats.silent(1, 5)
    beats.forget(0)
    assert not beats.silent(0, 5)


def test_a_clock_that_is_set_changes_nothing(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = Heartbeats(1)
    beats.beat(0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert not beats.silent(0, 1)
    now[0] += 2
    assert beats.silent(0, 1)


def test_other_processes_see_it() -> None:
    beats = Heartbeats(1)
    child = os.fork()
    if not child:
        beats.beat(0)
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.02)
    assert beats.silent(0, 0.01)
