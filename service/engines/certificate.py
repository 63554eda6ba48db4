"""Certificates: for which artifact a fast engine was shown to give the reference's ids.

`tokenizer-service certify` makes them; they stand beside the lock and are read at start. One that
is for another fingerprint or another version of either library is stale and proves nothing.
"""

from __future__ import annotations

import msgspec


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was compared, with which versions, and where the ids differed."""

    artifact: str
    fingerprint: str
    engine: str
    """Fast library and version, `name==version`."""
    reference: str
    """Reference library and version."""
    texts: int
    """Random and fixed texts that were compared."""
    code_points: int
    """Code points that were each compared in several surroundings: every one that text can hold."""
    exceptions: str
    """Characters beside which ids differed; a text that holds one goes to the reference."""
