"""What /truncate and /chunk share: the budget, and the search over one text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, UnsetType

from service.api.structs import Fingerprint, TokenizerName
from service.api.text_fields import PolicyRequest
from service.core.alignment import Unit
from service.core.budget import BudgetedText
from service.errors import BudgetTooSmall

if TYPE_CHECKING:
    from service.api.texts import Content, TextEncoder


class BudgetRequest(PolicyRequest, frozen=True, kw_only=True):
    """The fields of a request for slices of text."""

    tokenizer: TokenizerName
    text: Annotated[str, msgspec.Meta(description="One text.")] | UnsetType = UNSET
    texts: Annotated[list[str], msgspec.Meta(description="Several texts.")] | UnsetType = UNSET
    max_tokens: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            description="How many tokens a slice may be; with add_special_tokens, the template's "
            "included.",
        ),
    ]
    unit: Annotated[Unit, msgspec.Meta(description="What start and end count.")] = Unit.CODEPOINT
    expected_fingerprint: Fingerprint | UnsetType = UNSET


def content_budget(encoder: TextEncoder, request: BudgetRequest) -> int:
    """How many content ids a slice may be. Raises BudgetTooSmall when the template has no room."""
    if not request.add_special_tokens:
        return request.max_tokens
    frame = encoder.tokenizer.frame
    budget = request.max_tokens - len(frame.before) - len(frame.after)
    if budget < 0:
        raise BudgetTooSmall("The template alone is more tokens than max_tokens.")
    return budget


def budgeted(encoder: TextEncoder, content: Content, budget: int) -> BudgetedText:
    """The search for slices of a text that was read."""
    alignment = encoder.tokenizer.align(content.text, content.spans())
    return BudgetedText(content.text, alignment, encoder.count_again, budget)
