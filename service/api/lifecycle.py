"""Whether this process is ready, draining, or past taking work."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True)
class Lifecycle:
    """Set by the server, read by the routes."""

    ready: bool = False
    """Every artifact is verified and self-tested, and the process is not draining."""
    refuses_work: bool = False
    """New operations are answered with 503 draining."""
