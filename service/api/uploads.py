"""Bodies that are on their way: together they may hold no more memory than work may that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.metrics import Metrics
    from service.settings import Settings

OVERLOADED = "overloaded"
"""Key of the scope's state under which the protocol says that it could hold no more of a body."""


class Uploads:
    """The bytes of all bodies of which a part is here. Used on the event loop alone."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._limit = settings.max_pending_bytes
        self._metrics = metrics
        self.bytes = 0

    def begin(self) -> None:
        """A body is waited for: its request is in flight."""
        self._metrics.add_in_flight(1)

    def grow(self, size: int, held: int) -> bool:
        """So much more of a body is here, of which `held` bytes now are.

        False when that is too much of all bodies together; one that is alone never is. It is
        counted all the same, until it is let go.
        """
        self.bytes += size
        return self.bytes <= self._limit or self.bytes == held

    def let_go(self, size: int) -> None:
        """A body of which so much was here is whole, or given up."""
        self.bytes -= size

    def end(self, size: int) -> None:
        """A body is waited for no longer, of which so much was here."""
        self.let_go(size)
        self._metrics.add_in_flight(-1)
