"""Loading artifacts side by side and without interruptions."""

from __future__ import annotations

import collections
import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from service.catalog.lock import LockedArtifact

Loaded = TypeVar("Loaded")

LOADERS = 4
"""Threads that load. The fast library lets go of the interpreter while it builds an engine, which
is half of all, and the largest engine takes a third of that."""


def side_by_side(
    load: Callable[[LockedArtifact], Loaded], artifacts: Sequence[LockedArtifact]
) -> list[Loaded]:
    """What `load` gives for each; no thread is left. Raises what the first of them raises.

    Artifacts that have a file in common may have tables in common, which are made by whoever comes
    first: they wait for each other.
    """
    locks: dict[str, threading.Lock] = collections.defaultdict(threading.Lock)
    wanted = [sorted({file.sha256 for file in artifact.file}) for artifact in artifacts]

    def load_alone(artifact: LockedArtifact, held: list[threading.Lock]) -> Loaded:
        with contextlib.ExitStack() as stack:
            for lock in held:
                stack.enter_context(lock)
            return load(artifact)

    loaders = ThreadPoolExecutor(LOADERS, "load")
    try:
        loading = [
            loaders.submit(load_alone, artifact, [locks[digest] for digest in digests])
            for artifact, digests in zip(artifacts, wanted, strict=True)
        ]
        return [each.result() for each in loading]
    finally:
        loaders.shutdown(cancel_futures=True)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection: next to nothing of what loading makes is garbage in cycles.

    It would go through millions of objects several times, a tenth of the time that a start takes.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
