"""The bases of every request and response body, and field types that several of them share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET

from service.core.policy import SpecialPolicy
from service.errors import Validation


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body. A field that is not listed is an error: ignoring one loses what it asks."""


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A response body. A field whose value is UNSET is left out."""


TokenizerName = Annotated[
    str, msgspec.Meta(description="Name or alias of a tokenizer. There is no default.")
]
Fingerprint = Annotated[
    str,
    msgspec.Meta(
        pattern="^sha256:[0-9a-f]{64}$",
        max_length=71,  # the pattern's $ admits a line end
        description="Refuse with 409 unless the tokenizer has this fingerprint.",
    ),
]


class ItemError(Response, frozen=True, kw_only=True):
    """The place of a batch item that could not be answered; `error` is a problem's body."""

    error: dict[str, Any]


SCHEMA_REFERENCE = "#/components/schemas/{name}"


def any_of(*shapes: type[Response]) -> dict[str, object]:
    """JSON Schema of a value that has one of these shapes.

    msgspec can write such a value but, because it could not read one without a tag, has no
    schema for the union.
    """
    return {"anyOf": [{"$ref": SCHEMA_REFERENCE.format(name=shape.__name__)} for shape in shapes]}


def exactly_one(request: Request, *fields: str) -> None:
    """Raise Validation unless the request has one of `fields` and no second."""
    if sum(getattr(request, field) is not UNSET for field in fields) != 1:
        raise Validation(f"Give exactly one of: {', '.join(fields)}.")


POLICY_FIELD = Annotated[
    SpecialPolicy,
    msgspec.Meta(
        description="What a special token's spelling inside the text becomes: ordinary pieces, "
        "its control id, or an error."
    ),
]
