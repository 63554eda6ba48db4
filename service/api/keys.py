"""API keys: who may call, where a file of keys is configured.

Each line of the file is a name and the SHA-256 of a key in hexadecimal; empty lines and those that
begin with # say nothing. The keys themselves are nowhere on the server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from service.errors import SettingsError, Unauthorized

if TYPE_CHECKING:
    from pathlib import Path

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""The routes that need no key: probes of an orchestrator have none."""

_LINE = re.compile(r"([A-Za-z0-9._-]{1,64})\s+([0-9a-fA-F]{64})")


class ApiKeys:
    """The keys of a file, which can be read anew while the service runs."""

    def __init__(self, path: Path) -> None:
        """Raises SettingsError for a file that can't be read or holds something else."""
        self._path = path
        self._digests = _read(path)

    def reload(self) -> None:
        """Read the file anew. Raises SettingsError, and then the keys stay as they were."""
        self._digests = _read(self._path)

    def check(self, authorization: bytes) -> None:
        """Raise Unauthorized unless an Authorization header holds a known key."""
        scheme, _, key = authorization.partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        known = False
        # All are compared, each in constant time: the time taken says nothing of any.
        for other in self._digests:
            known |= hmac.compare_digest(digest, other)
        if scheme.lower() != b"bearer" or not known:
            raise Unauthorized


def _read(path: Path) -> list[bytes]:
    """The digests in a file. Raises SettingsError, which quotes nothing of it."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII"
        raise SettingsError(f"the file of API keys: {reason}") from None
    digests: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _LINE.fullmatch(entry)
        if match is None:
            raise SettingsError(
                f"the file of API keys, line {number}: expected a name and a SHA-256 in hexadecimal"
            )
        if match[1] in digests:
            raise SettingsError(f"the file of API keys, line {number}: the name stands twice")
        digests[match[1]] = bytes.fromhex(match[2])
    if not digests:
        raise SettingsError("the file of API keys has none, so nobody could call")
    return list(digests.values())
