"""Errors of what a request asks for: its tokenizer, its texts and ids, its chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from service.errors.base import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable


class UnknownTokenizer(RequestError):
    """No artifact has this name or alias; the names that exist are listed, the one asked is not."""

    code = "unknown_tokenizer"

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            "No tokenizer has this name. 'tokenizers' lists the names that exist; "
            "GET /tokenizers lists their aliases, too.",
            {"tokenizers": list(names)},
        )


class FingerprintMismatch(RequestError):
    """The caller expects another tokenizer than the one that is loaded."""

    code = "fingerprint_mismatch"

    def __init__(self, tokenizer: str, expected: str, actual: str) -> None:
        members = {"tokenizer": tokenizer, "expected": expected, "actual": actual}
        super().__init__("The fingerprint expected is not that of the loaded tokenizer.", members)


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


class EngineFailure(RequestError):
    """The tokenizer library failed on this request; the next one is not affected."""

    code = "engine_failure"

    def __init__(self) -> None:
        super().__init__("The tokenizer's library failed on this request.")
