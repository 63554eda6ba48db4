"""Trust per span: a text made of segments, each with its own special-token policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.core.policy import SpecialPolicy
from service.core.tokenizer import ControlSpan
from service.errors import SpecialTokenInText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.core.tokenizer import Tokenizer


class Segment(NamedTuple):
    """A part of a text and what control spellings wholly inside it become."""

    text: str
    policy: SpecialPolicy


def join(segments: Iterable[Segment]) -> str:
    """The one text that the segments are."""
    return "".join(segment.text for segment in segments)


def recognised(
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    allowed: frozenset[str] | None,
    pointers: Sequence[str],
) -> list[ControlSpan]:
    """The control spellings in the joined text that lie wholly inside a `special` segment.

    A spelling that crosses a border counts nowhere. `pointers` say where in the request each
    segment stands. Raises SpecialTokenInText for one wholly inside a `reject` segment, its offset
    in code points of that segment.
    """
    text = join(segments)
    spans: list[ControlSpan] = []
    start = 0
    for segment, pointer in zip(segments, pointers, strict=True):
        end = start + len(segment.text)
        if segment.policy is SpecialPolicy.REJECT:
            for found in _inside(tokenizer, text, start, end, None):
                raise SpecialTokenInText(found.spelling, found.start - start, pointer)
        elif segment.policy is SpecialPolicy.SPECIAL:
            spans += _inside(tokenizer, text, start, end, allowed)
        start = end
    return spans


def _inside(
    tokenizer: Tokenizer, text: str, start: int, end: int, allowed: frozenset[str] | None
) -> list[ControlSpan]:
    """The spellings in text[start:end], looked for with their neighbours in the whole text.

    A token marked `single_word` is none beside a letter, and the letter may be the neighbouring
    segment's; one character on each side is all that the reference library looks at.
    """
    first, last = max(start - 1, 0), min(end + 1, len(text))
    alone = [
        ControlSpan(found.start + start, found.end + start, found.spelling)
        for found in tokenizer.find_controls(text[start:end], allowed)
    ]
    if not alone or (first, last) == (start, end):
        return alone
    beside = {
        (found.start + first, found.end + first)
        for found in tokenizer.find_controls(text[first:last], allowed)
    }
    # One at the border of the segment counts only where the neighbours allow it, too, unless it
    # is hidden there by a longer spelling that crosses the border.
    crossing = [(low, high) for low, high in beside if low < start or high > end]
    return [
        found
        for found in alone
        if (found.start, found.end) in beside
        or any(low < found.end and found.start < high for low, high in crossing)
    ]
