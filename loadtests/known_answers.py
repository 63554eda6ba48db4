"""Texts in mixed scripts with their ids, given by the reference libraries and never the service.

The short ones are the golden files'. The long ones are put together from those and encoded here,
by the reference libraries, when the load begins.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from reference import NAMES, NOTHING, reference  # noqa: E402 - found by the line above

LONG_OF = ("cl100k_base", "o200k_base", "gpt2", "all-minilm-l6-v2", "mistral-7b-v0.3", "t5-base")
"""Two of each of three reference libraries."""

LONG_BYTES = (2_000, 30_000)
"""Below and above the size from which the service works in its engine thread."""
HUGE_BYTES = 200_000


@dataclasses.dataclass(frozen=True)
class Known:
    """One text under one tokenizer."""

    tokenizer: str
    text: str
    ids: list[int]
    """Bare, with the policy literal."""
    decoded: str


def known_answers() -> dict[str, list[Known]]:
    """By tokenizer: the golden texts and the long ones."""
    known = {name: _golden(name) for name in NAMES}
    for name in LONG_OF:
        known[name] += [asked(name, size) for size in LONG_BYTES]
    return known


def huge_answers() -> list[Known]:
    """One text for each of a few tokenizers that is worth a stall."""
    return [asked(name, HUGE_BYTES) for name in LONG_OF]


def first_difference(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """The first key whose value is not as expected; `results.x` is `x` of each result."""
    for key, value in expected.items():
        outer, _, inner = key.partition(".")
        found = answer.get(outer)
        if inner:
            found = [item.get(inner) for item in found or []]
        if found != value:
            return key
    return None


def _golden(name: str) -> list[Known]:
    path = ROOT / "tests" / "golden" / f"{name}.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [Known(name, case["text"], case["literal"], case["decoded"]) for case in cases]


def encoded(name: str, text: str) -> list[int]:
    """The ids that the reference library gives, with the policy literal."""
    return reference(name).encode(text, NOTHING)


def asked(name: str, size: int) -> Known:
    """The golden texts, one after the other and again, up to `size` bytes, and their ids."""
    pieces = [f"{known.text}\n" for known in _golden(name)]
    text = "".join(pieces)
    text *= size // len(text.encode()) + 1
    text = text.encode()[:size].decode(errors="ignore")
    ids = encoded(name, text)
    return Known(name, text, ids, reference(name).decode(ids))
