"""The only addresses that a load may go to: this machine's own."""

from __future__ import annotations

from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def refuse_others(host: str | None) -> None:
    """Raise SystemExit unless this URL is on this machine."""
    if urlsplit(host or "").hostname not in LOOPBACK:
        raise SystemExit(f"--host must be a loopback address, one of {', '.join(LOOPBACK)}")
