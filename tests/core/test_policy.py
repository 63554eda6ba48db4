"""service.core.policy: which of a tokenizer's ways to encode a policy takes, and what it refuses.

The tokenizer here says which way was taken; ids under each policy: tests/property, tests/field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from service.core.policy import SpecialPolicy, encode_by_policy, resolve_allowed
from service.core.spelling import Finders
from service.errors import SpecialTokenInText, Validation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.core.tokenizer import ControlSpan, Tokenizer

LITERAL, SPECIAL, REJECT = SpecialPolicy.LITERAL, SpecialPolicy.SPECIAL, SpecialPolicy.REJECT


class Told:
    """Gives 1 for the literal way, 2 for all spellings, 3 and the places for some; the length."""

    def __init__(self) -> None:
        self.controls = {"<a>": 10, "<b>": 11}
        self._finders = Finders(self.controls)

    def encode(self, text: str) -> list[int]:
        return [1, len(text)]

    def encode_special(self, text: str) -> list[int]:
        return [2, len(text)]

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        return [3, *(span.start for span in spans), len(text)]

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        return self._finders.find(text, allowed)


TOLD = cast("Tokenizer", Told())


@pytest.mark.parametrize(
    ("policy", "allowed", "ids"),
    [
        (LITERAL, None, [1, 7]),
        (SPECIAL, None, [2, 7]),
        (SPECIAL, frozenset({"<a>"}), [3, 1, 7]),
        (SPECIAL, frozenset({"<b>"}), [3, 4, 7]),
        (SPECIAL, frozenset(), [3, 7]),
    ],
)
def test_the_way_that_a_policy_takes(
    policy: SpecialPolicy, allowed: frozenset[str] | None, ids: list[int]
) -> None:
    assert encode_by_policy(TOLD, "x<a><b>", policy, allowed, "/text") == ids


def test_reject_names_the_first_spelling_and_its_place() -> None:
    with pytest.raises(SpecialTokenInText) as caught:
        encode_by_policy(TOLD, "\U0001f600<b><a>", REJECT, None, "/texts/3")
    assert caught.value.members == {"token": "<b>", "offset": 1, "pointer": "/texts/3"}
    assert encode_by_policy(TOLD, "< a >", REJECT, None, "/text") == [1, 5]


def test_what_is_allowed() -> None:
    assert resolve_allowed(TOLD, SPECIAL, None) is None
    assert resolve_allowed(TOLD, LITERAL, None) is None
    assert resolve_allowed(TOLD, SPECIAL, []) == frozenset()
    assert resolve_allowed(TOLD, SPECIAL, ["<b>", "<a>", "<b>"]) == frozenset({"<a>", "<b>"})


@pytest.mark.parametrize("policy", [LITERAL, REJECT])
@pytest.mark.parametrize("allowed", [[], ["<a>"], ["<c>"]])
def test_allowed_special_beside_another_policy(policy: SpecialPolicy, allowed: list[str]) -> None:
    with pytest.raises(Validation, match="special_policy 'special'") as caught:
        resolve_allowed(TOLD, policy, allowed)
    assert caught.value.members == {"pointer": "/allowed_special"}


def test_a_spelling_that_the_tokenizer_does_not_have() -> None:
    with pytest.raises(Validation, match="no special token of this tokenizer") as caught:
        resolve_allowed(TOLD, SPECIAL, ["<a>", "<c>"])
    assert caught.value.members == {"pointer": "/allowed_special/1"}
    assert "<c>" not in str(caught.value)
