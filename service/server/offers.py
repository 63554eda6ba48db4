"""Requests that offer to go on in another protocol, which is never taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from collections.abc import Iterable

_OFFER = frozenset({b"upgrade", b"http2-settings"})
"""The headers of an offer of another protocol, and the words of `connection` that name them."""


def without_offer(
    parser: httptools.HttpRequestParser, url: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """The head of a request as it were without its offer; the names of headers are lower case.

    Raises HttpParserInvalidMethodError for CONNECT, which is an offer by itself.
    """
    method, version = parser.get_method(), parser.get_http_version().encode()
    if method == b"CONNECT":
        raise httptools.HttpParserInvalidMethodError
    lines = [b"%b %b HTTP/%b" % (method, url, version)]
    for name, value in headers:
        if name == b"connection":
            words = (word.strip() for word in value.split(b","))
            kept = b", ".join(word for word in words if word.lower() not in _OFFER)
            lines.append(b"connection: " + kept)
        elif name not in _OFFER:
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])
