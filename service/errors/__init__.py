"""Every error that this project raises on purpose.

ServiceError
├── SettingsError             an environment variable or option that can't be used; exit status 2
├── ArtifactError             a pinned artifact that is refused at start; exit status 3
└── RequestError              something that one request did; each has a stable code
    ├── MalformedRequest          malformed_request
    ├── HeadersTooLarge           headers_too_large
    ├── MalformedBody             malformed_body
    ├── InvalidUnicode            invalid_unicode
    ├── Unauthorized              unauthorized
    ├── NotFound                  not_found
    ├── MethodNotAllowed          method_not_allowed
    ├── NotAcceptable             not_acceptable
    ├── UnsupportedMediaType      unsupported_media_type
    ├── PayloadTooLarge           payload_too_large
    ├── Overloaded                overloaded
    ├── Draining                  draining
    ├── Internal                  internal
    ├── UnknownTokenizer          unknown_tokenizer
    ├── FingerprintMismatch       fingerprint_mismatch
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
    └── EngineFailure             engine_failure

Errors know no HTTP: `service.api.problems` alone maps a code to a status.
No message may hold text of a request: a detail is written here, and members are numbers,
ids, names of artifacts and spellings that the artifact itself declares.
"""

from service.errors.base import ArtifactError, RequestError, ServiceError, SettingsError
from service.errors.exchange import (
    Draining,
    HeadersTooLarge,
    Internal,
    InvalidUnicode,
    MalformedBody,
    MalformedRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from service.errors.work import (
    BudgetTooSmall,
    ChatTemplateFailed,
    ChatTemplateMissing,
    EngineFailure,
    EngineLimit,
    FingerprintMismatch,
    InvalidTokenId,
    InvalidUtf8,
    SpecialTokenInText,
    TextTooLarge,
    TokenizerRequired,
    TooManyItems,
    UnknownTokenizer,
    Validation,
)

__all__ = [
    "ArtifactError",
    "BudgetTooSmall",
    "ChatTemplateFailed",
    "ChatTemplateMissing",
    "Draining",
    "EngineFailure",
    "EngineLimit",
    "FingerprintMismatch",
    "HeadersTooLarge",
    "Internal",
    "InvalidTokenId",
    "InvalidUnicode",
    "InvalidUtf8",
    "MalformedBody",
    "MalformedRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "RequestError",
    "ServiceError",
    "SettingsError",
    "SpecialTokenInText",
    "TextTooLarge",
    "TokenizerRequired",
    "TooManyItems",
    "Unauthorized",
    "UnknownTokenizer",
    "UnsupportedMediaType",
    "Validation",
]
