"""Errors of an HTTP request, whatever it asks for: its form, its route, its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors.base import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable


class MalformedRequest(RequestError):
    """What came on a connection is not HTTP/1.1."""

    code = "malformed_request"

    def __init__(self) -> None:
        super().__init__("This is no valid HTTP/1.1 request.")


class HeadersTooLarge(RequestError):
    """The request line and the headers together are longer than the limit, in bytes."""

    code = "headers_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The head of the request is larger than {limit} bytes.", {"limit": limit})


class MalformedBody(RequestError):
    """The body is not JSON or MessagePack at all."""

    code = "malformed_body"


class InvalidUnicode(RequestError):
    """The body holds bytes that are not UTF-8, or a surrogate without its partner."""

    code = "invalid_unicode"

    def __init__(self) -> None:
        detail = "bytes that are not UTF-8, or a surrogate without its partner"
        super().__init__(f"The body holds text that is not valid Unicode: {detail}.")


class Unauthorized(RequestError):
    """API keys are configured and the request brought none that is known."""

    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("Send a known API key as 'Authorization: Bearer <key>'.")


class NotFound(RequestError):
    """No route has this path."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("There is no such route. GET /openapi.json lists all of them.")


class MethodNotAllowed(RequestError):
    """The route exists, the method does not."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"This route allows {', '.join(self.allowed)}.")


class NotAcceptable(RequestError):
    """The Accept header admits nothing that the route can give."""

    code = "not_acceptable"

    def __init__(self, offered: Iterable[str]) -> None:
        super().__init__(f"The Accept header admits none of: {', '.join(offered)}.")


class UnsupportedMediaType(RequestError):
    """The body's Content-Type or Content-Encoding is not one that the route takes."""

    code = "unsupported_media_type"


class PayloadTooLarge(RequestError):
    """The body is larger than the limit, in bytes."""

    code = "payload_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit} bytes.", {"limit": limit})


class Overloaded(RequestError):
    """More work waits than is answered in time; nothing of this request was begun."""

    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("More work is waiting than this instance takes. Send it again later.")


class Draining(RequestError):
    """The process is stopping and takes no new work."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__("This instance is stopping. Send the request to another one.")


class Internal(RequestError):
    """A defect of the service itself."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("The service failed on this request. The log has the request id.")
