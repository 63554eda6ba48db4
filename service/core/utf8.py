"""Bytes to text: joined first, then read as UTF-8, strictly or with U+FFFD."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

from service.core.policy import DecodeMode
from service.errors import InvalidUtf8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def read_utf8(
    joined: bytes,
    mode: DecodeMode,
    ids: Sequence[int],
    parts: Callable[[], Sequence[bytes]],
) -> tuple[str, int]:
    """The text of `joined` and the number of replacements made.

    `parts` gives what each of `ids` added to `joined`; it is called only to name the id at
    fault. CPython's decoder puts one U+FFFD for each maximal ill-formed part (Unicode 16,
    section 3.9, table 3-11), which is the rule of the WHATWG decoder, too.
    Raises InvalidUtf8 in strict mode.
    """
    try:
        return joined.decode(), 0
    except UnicodeDecodeError as error:
        if mode is DecodeMode.STRICT:
            raise _located(error, ids, parts()) from None
    text = joined.decode(errors="replace")
    # EF begins a sequence wherever it stands, so EF BF BD is always a U+FFFD that the ids
    # really spell: those are no replacements.
    return text, text.count(REPLACEMENT) - joined.count(REPLACEMENT.encode())


def is_utf8(data: bytes) -> bool:
    """Whether `data` is valid UTF-8 as it stands."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_TRUNCATED = "unexpected end of data"
"""CPython's word for it. Its incremental decoder would not do: that waits after ED A0, too, which
no further byte makes a character."""


def _located(error: UnicodeDecodeError, ids: Sequence[int], parts: Sequence[bytes]) -> InvalidUtf8:
    """Our error for an ill-formed part, with the id whose bytes begin it."""
    ends = itertools.accumulate(map(len, parts))
    index = next(index for index, end in enumerate(ends) if end > error.start)
    reason: Literal["truncated", "malformed"] = (
        "truncated" if error.reason == _TRUNCATED else "malformed"
    )
    return InvalidUtf8(error.start, index, ids[index], reason)
