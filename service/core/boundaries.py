"""Where a text reads well when it is cut: paragraphs, then lines, sentences, words.

Only the window in which a cut may lie is looked at, from its end: finding all sentences of a text
costs many times what encoding it does. docs/budgets.md describes the rules; BOUNDARY_VERSION
moves with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUNDARY_VERSION = "1"

_LEVELS = tuple(
    regex.compile(pattern)
    for pattern in (
        # After a blank line: a line end, a line of nothing but blanks, and all that follow it.
        r"(?r)\n(?![^\S\n]{0,64}\n)(?<=\n[^\S\n]{0,64}\n)",
        # After a line end (Unicode's mandatory breaks).
        r"(?r)\n|\r(?!\n)|[\v\f\x85\u2028\u2029]",
        # After the end of a sentence: a full stop, closing marks and blanks, and no small letter
        # after them ("e.g. this"); CJK stops need no blank.
        (
            r"(?r)\s(?=[^\s\p{Ll}])(?<=[.!?\u2026][\p{Pe}\p{Pf}\"']{0,8}\s{1,16})"
            r"|[\u3002\uff01\uff1f\uff61\p{Pe}\p{Pf}](?![\p{Pe}\p{Pf}])"
            r"(?<=[\u3002\uff01\uff1f\uff61][\p{Pe}\p{Pf}]{0,8})"
        ),
        # Before a word that follows a blank.
        r"(?r)\s(?=\S)",
        # Between words as UAX #29 finds them, for scripts without blanks.
        r"(?rw)\b",
    )
)
"""From the highest to the lowest, searched backwards; a cut is where a match ends. Each begins
with the character before the cut, which is found fast, and looks back a bounded way from there:
else a text of one character would be looked at again from each of its places."""

_TRIES = 3
"""How many cuts of a level are offered before the next level: one nearly always fits."""

_LOOK_AHEAD = 2
"""Characters after the window that a rule may see: UAX #29 looks at two (WB6, WB12)."""

_WORD = regex.compile(r"(?<=\s)(?=\S)")


def cuts_before(text: str, middle: int, brim: int) -> Iterator[int]:
    """Places to cut after `middle` and up to `brim`, the best first."""
    for level in _LEVELS:
        offered = 0
        last = min(brim + _LOOK_AHEAD, len(text))
        for match in level.finditer(text, middle, last, concurrent=False):
            end = match.end()
            # The end of the window counts as one of the text for the library, so a match there
            # proves nothing unless it is one.
            if end > brim or (end == last and last != len(text)):
                continue
            if end <= middle:
                break
            yield end
            offered += 1
            if offered == _TRIES:
                break


def words_from(text: str, start: int, end: int) -> int:
    """The first place from `start` on, before `end`, at which a word begins; else `start`."""
    match = _WORD.search(text, start, end, concurrent=False)
    return match.start() if match else start
