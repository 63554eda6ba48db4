"""Every error that this project raises on purpose.

ServiceError
├── SettingsError             an environment variable or option that can't be used; exit status 2
├── ArtifactError             a pinned artifact that is refused at start; exit status 3
└── RequestError              something that one request did; each has a stable code
    ├── MalformedBody             malformed_body
    ├── InvalidUnicode            invalid_unicode
    ├── Unauthorized              unauthorized
    ├── NotFound                  not_found
    ├── UnknownTokenizer          unknown_tokenizer
    ├── MethodNotAllowed          method_not_allowed
    ├── NotAcceptable             not_acceptable
    ├── UnsupportedMediaType      unsupported_media_type
    ├── FingerprintMismatch       fingerprint_mismatch
    ├── PayloadTooLarge           payload_too_large
    ├── Validation                validation
    ├── TokenizerRequired         tokenizer_required
    ├── SpecialTokenInText        special_token_in_text
    ├── InvalidTokenId            invalid_token_id
    ├── InvalidUtf8               invalid_utf8
    ├── EngineLimit               engine_limit
    ├── TooManyItems              too_many_items
    ├── TextTooLarge              text_too_large
    ├── BudgetTooSmall            budget_too_small
    ├── ChatTemplateMissing       chat_template_missing
    ├── ChatTemplateFailed        chat_template_failed
    ├── Draining                  draining
    ├── EngineFailure             engine_failure
    └── Internal                  internal

Errors know no HTTP: `service.api.problems` alone maps a code to a status.
No message may hold text of a request: a detail is written here, and members are numbers,
ids, names of artifacts and spellings that the artifact itself declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ServiceError(Exception):
    """Base of every error that this project raises on purpose."""


class SettingsError(ServiceError):
    """An environment variable or a command-line option holds something that can't be used."""


class ArtifactError(ServiceError):
    """An artifact is refused; one line names it, the file, what was expected and found."""

    def __init__(self, artifact: str, reason: str, *, file: str | None = None) -> None:
        self.artifact = artifact
        self.reason = reason
        self.file = file
        where = f"artifact {artifact!r}" + (f", file {file!r}" if file else "")
        super().__init__(f"{where}: {reason}".replace("\n", " "))


class RequestError(ServiceError):
    """One request can't be answered as asked; `code` is stable, `members` join the problem body."""

    code: ClassVar[str]

    def __init__(self, detail: str, members: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.members: dict[str, object] = dict(members or {})


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


class UnknownTokenizer(RequestError):
    """No artifact has this name or alias; the names that exist are listed, the one asked is not."""

    code = "unknown_tokenizer"

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            "No tokenizer has this name. 'tokenizers' lists the names that exist; "
            "GET /tokenizers lists their aliases, too.",
            {"tokenizers": list(names)},
        )


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


class FingerprintMismatch(RequestError):
    """The caller expects another tokenizer than the one that is loaded."""

    code = "fingerprint_mismatch"

    def __init__(self, tokenizer: str, expected: str, actual: str) -> None:
        members = {"tokenizer": tokenizer, "expected": expected, "actual": actual}
        super().__init__("The fingerprint expected is not that of the loaded tokenizer.", members)


class PayloadTooLarge(RequestError):
    """The body is larger than the limit, in bytes."""

    code = "payload_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit} bytes.", {"limit": limit})


class Validation(RequestError):
    """The body is JSON or MessagePack but not what the route takes."""

    code = "validation"


class TokenizerRequired(RequestError):
    """The request names no tokenizer; there is no default."""

    code = "tokenizer_required"

    def __init__(self) -> None:
        super().__init__("Name a tokenizer: there is no default. GET /tokenizers lists them.")


class SpecialTokenInText(RequestError):
    """Policy `reject` met a control spelling; `offset` is in code points of the text."""

    code = "special_token_in_text"

    def __init__(self, token: str, offset: int, pointer: str) -> None:
        super().__init__(
            "The text holds the spelling of a special token. Remove it, or ask for "
            "special_policy 'literal' (it stays text) or 'special' (it becomes its id).",
            {"token": token, "offset": offset, "pointer": pointer},
        )


class InvalidTokenId(RequestError):
    """An id is not in the vocabulary: negative, too large, or a hole."""

    code = "invalid_token_id"

    def __init__(self, index: int, token_id: int) -> None:
        members = {"index": index, "id": token_id}
        super().__init__("An id is not in the vocabulary of this tokenizer.", members)


class InvalidUtf8(RequestError):
    """Strict decoding met bytes that are not UTF-8; `byte_offset` counts the joined bytes."""

    code = "invalid_utf8"

    def __init__(
        self, byte_offset: int, index: int, token_id: int, reason: Literal["truncated", "malformed"]
    ) -> None:
        super().__init__(
            "The ids do not spell valid UTF-8. Ask for mode 'replace' to get U+FFFD in its "
            "place, or for output 'bytes' to get the bytes as they are.",
            {"byte_offset": byte_offset, "index": index, "id": token_id, "reason": reason},
        )


class EngineLimit(RequestError):
    """A text that the tokenizer library truly can't process."""

    code = "engine_limit"

    def __init__(self) -> None:
        super().__init__("The tokenizer's library can't process this text.")


class TooManyItems(RequestError):
    """A list in the request is longer than its limit."""

    code = "too_many_items"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"More than {limit} {what}.", {"limit": limit})


class TextTooLarge(RequestError):
    """A text is longer than the limit, in UTF-8 bytes."""

    code = "text_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"A text is longer than {limit} bytes of UTF-8.", {"limit": limit})


class BudgetTooSmall(RequestError):
    """A budget that holds not even the template, or not one code point."""

    code = "budget_too_small"


class ChatTemplateMissing(RequestError):
    """Messages for a tokenizer to which no chat template is pinned; a request can't bring one."""

    code = "chat_template_missing"

    def __init__(self) -> None:
        super().__init__("No chat template is pinned to this tokenizer; send text or segments.")


class ChatTemplateFailed(RequestError):
    """The pinned template did not render the messages; `reason` says how.

    raised: the template itself refused them; error: it failed on their shape; limit: it took too
    long or too much; content_dependent: it changes user-written text so that a special token's
    spelling in it can't be told from the template's own.
    """

    code = "chat_template_failed"

    def __init__(self, reason: Literal["raised", "error", "limit", "content_dependent"]) -> None:
        super().__init__("The chat template could not render the messages.", {"reason": reason})


class Draining(RequestError):
    """The process is stopping and takes no new work."""

    code = "draining"

    def __init__(self) -> None:
        super().__init__("This instance is stopping. Send the request to another one.")


class EngineFailure(RequestError):
    """The tokenizer library failed on this request; the next one is not affected."""

    code = "engine_failure"

    def __init__(self) -> None:
        super().__init__("The tokenizer's library failed on this request.")


class Internal(RequestError):
    """A defect of the service itself."""

    code = "internal"

    def __init__(self) -> None:
        super().__init__("The service failed on this request. The log has the request id.")
