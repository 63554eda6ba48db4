"""How the artifacts are loaded side by side: fast engines in threads, beside the references."""

from __future__ import annotations

import contextlib
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import fastokens

    from service.catalog.lock import LockedArtifact

    Build = Callable[[], fastokens.Tokenizer | None]

_THREADS = 2
"""Building is not all that is done, and there are rarely more cores to spare."""


class EngineBuilders:
    """The threads that build fast engines; none of them is left when the block ends.

    The fast library lets go of the interpreter while it builds, which takes it longer than all
    references together. Workers are forked later, and a thread would not live on in them.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="build")
        self._begun: set[str] = set()
        """SHA-256 of the files of which an engine is being built."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, artifact: LockedArtifact, build: Build) -> Build:
        """Build an engine from now on; the call that this returns waits for it."""
        files = {file.sha256 for file in artifact.file}
        if files & self._begun:
            # Artifacts that have a file in common may have the engine in common, too: asked for
            # when the first is done, it is there, and asked for now it would be made twice.
            return build
        self._begun |= files
        return self._pool.submit(build).result


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
