"""Error code -> status, and the one shape that every error has (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from service.errors import RequestError

MEDIA_TYPE = "application/problem+json"

STATUS_OF_CODE: dict[str, int] = {
    "malformed_request": 400,
    "malformed_body": 400,
    "invalid_unicode": 400,
    "unauthorized": 401,
    "unknown_tokenizer": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "fingerprint_mismatch": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "headers_too_large": 431,
    "validation": 422,
    "tokenizer_required": 422,
    "special_token_in_text": 422,
    "invalid_token_id": 422,
    "invalid_utf8": 422,
    "engine_limit": 422,
    "too_many_items": 422,
    "text_too_large": 422,
    "budget_too_small": 422,
    "chat_template_missing": 422,
    "chat_template_failed": 422,
    "engine_failure": 500,
    "internal": 500,
    "overloaded": 503,
    "draining": 503,
}

_INT_BITS = 63

RETRY_AFTER_SECONDS = 1
"""What a 503 asks a client to wait: another instance behind the balancer answers at once."""


def problem_body(error: RequestError, request_id: str) -> bytes:
    """The JSON body of an error, whatever media type was asked for."""
    status = STATUS_OF_CODE[error.code]
    return msgspec.json.encode(
        {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": error.detail,
            "code": error.code,
            "request_id": request_id,
            **error.members,
        }
    )


def item_error(error: RequestError) -> dict[str, object]:
    """What stands in a batch item's place: the problem without what belongs to the request."""
    members = {
        # An id may be any integer; MessagePack holds none beyond 64 bits.
        name: str(value) if isinstance(value, int) and value.bit_length() > _INT_BITS else value
        for name, value in error.members.items()
    }
    return {"code": error.code, "detail": error.detail, **members}


def problem_headers(error: RequestError) -> list[tuple[bytes, bytes]]:
    """The headers that an error adds to its response."""
    allowed: tuple[str, ...] = getattr(error, "allowed", ())
    headers: list[tuple[bytes, bytes]] = []
    if allowed:
        headers.append((b"allow", ", ".join(allowed).encode()))
    if STATUS_OF_CODE[error.code] == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
    if STATUS_OF_CODE[error.code] == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
