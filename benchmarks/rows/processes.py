"""Rows 10 and 11: the memory of several workers, how connections fall on them, and the start."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks import subjects, texts, usage
from benchmarks.client import connected
from benchmarks.goals import goal
from benchmarks.measure import CannotRunError, Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.servers import Running

_CONNECTIONS = 64
_REQUESTS_EACH = 20
_TOKENIZERS = ("cl100k_base", "o200k_base")
"""Those that are asked before memory is measured: engines make tables when they are first used."""


def row_10(bench: Bench) -> Iterator[Outcome]:
    # New ones: what other rows asked would stay in the tables of their engines.
    service = bench.fleet.start(subjects.service(workers=2))
    uvicorn = bench.fleet.start(subjects.bare(workers=2))
    try:
        yield from _memory(service, uvicorn)
        splits = [[_split(one) for _ in range(bench.plan.trials)] for one in (service, uvicorn)]
    finally:
        bench.fleet.stop(service)
        bench.fleet.stop(uvicorn)
    yield outcome_of(
        goal(10, "64 connections, max/min"),
        splits[0],
        service=f"{bench.plan.trials} trials",
        other=f"bare ASGI: {statistics.median(splits[1]):.1f}, at worst {max(splits[1]):.1f}",
    )


def _memory(service: Running, uvicorn: Running) -> Iterator[Outcome]:
    asked = texts.english(2_000, _REQUESTS_EACH)
    for running in (service, uvicorn):
        for name in _TOKENIZERS:
            _ask_over_many(running, texts.single(name, asked))
    mine, theirs = _pss(service), _pss(uvicorn)
    yield outcome_of(
        goal(10, "PSS against `uvicorn --workers 2`"),
        [mine / theirs],
        service=f"{mine:.0f} MB",
        other=f"bare ASGI: {theirs:.0f} MB",
    )
    private = [[usage.private_mb(pid) for pid in _workers(one)] for one in (service, uvicorn)]
    yield outcome_of(
        goal(10, "private memory of a worker"),
        [max(private[0])],
        service=", ".join(f"{one:.1f} MB" for one in private[0]),
        other="bare ASGI: " + ", ".join(f"{one:.0f} MB" for one in private[1]),
    )


def _workers(running: Running) -> list[int]:
    """The processes that hold the tokenizers: uvicorn's have a small helper beside them."""
    children = [pid for pid in running.pids if pid != running.process.pid]
    largest = sorted(children, key=lambda pid: usage.memory_mb(pid)["Rss"], reverse=True)[:2]
    if len(largest) < 2:
        raise CannotRunError(f"{running.spec.name} has {len(largest)} workers")
    return largest


def _pss(running: Running) -> float:
    return sum(usage.memory_mb(pid)["Pss"] for pid in running.pids)


def _ask_over_many(running: Running, bodies: list[bytes]) -> None:
    """Some requests over each of many connections: no worker is left without."""
    with connected(running, _CONNECTIONS) as clients:
        for body in bodies:
            for client in clients:
                client.post("/count", body)


def _split(running: Running) -> float:
    """How many times more of 64 connections the one worker got than the other."""
    workers = _workers(running)
    (body,) = texts.single("cl100k_base", ["Hello"])
    before = [usage.sockets(pid) for pid in workers]
    with connected(running, _CONNECTIONS) as clients:
        for client in clients:
            client.post("/count", body)
        held = [usage.sockets(pid) - had for pid, had in zip(workers, before, strict=True)]
    usage.settle(running.pids, 5.0)
    return max(held) / max(min(held), 0.5)


def row_11(bench: Bench) -> Iterator[Outcome]:
    seconds, cpu = [], []
    for _ in range(bench.plan.starts):
        running = bench.fleet.start(subjects.service(), both_cores=True)
        cpu.append(usage.cpu_seconds(running.pids))
        seconds.append(running.seconds_to_ready)
        bench.fleet.stop(running)
    pinned = bench.fleet.start(subjects.service())
    bench.fleet.stop(pinned)
    used = f"{statistics.median(cpu):.2f} s of CPU; {pinned.seconds_to_ready:.2f} s on one core"
    yield outcome_of(goal(11, "seconds"), seconds, service=used)
