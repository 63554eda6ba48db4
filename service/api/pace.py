"""Whether the event loop has time for a long text."""

from __future__ import annotations

import asyncio
import math
from time import perf_counter

TEXT_SECONDS = 0.01
"""What a long text may take on the event loop: some six times what 1 MB of prose takes."""

LONG_BODY_BYTES = 2 * 1024 * 1024
"""Longer bodies are left to the thread: reading them takes too long."""

TURN_SECONDS = 0.01
"""What all long texts together may take before everything else has its turn."""

QUIET_SECONDS = 0.1
"""Without a small request for so long, none is waiting but by chance."""

VAIN_SECONDS = 0.001
"""More than this for nothing: the next texts are left to the thread, that one among them."""


class Pace:
    """Says when a long text is done where it is read.

    The way through the thread and back takes a fifth of the time, but small requests would wait.
    Used on the event loop alone.
    """

    def __init__(self) -> None:
        self.busy_at = -math.inf
        """When a small request was last answered, or a text proved slow, by perf_counter()."""
        self._left = TURN_SECONDS

    def has_time(self) -> bool:
        """Whether a long text may be done on the event loop."""
        return self._left > 0 and perf_counter() - self.busy_at > QUIET_SECONDS

    def took(self, seconds: float, *, in_vain: bool) -> None:
        """So long the event loop was held; in vain, if the text is left to the thread after all."""
        if self._left == TURN_SECONDS:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._left -= seconds
        if in_vain and seconds > VAIN_SECONDS:
            self.busy_at = perf_counter()

    def _begin_turn(self) -> None:
        self._left = TURN_SECONDS
