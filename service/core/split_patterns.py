r"""Split patterns that mean the same to every engine of regular expressions.

To the `regex` module, fancy-regex and Oniguruma `\s` is Unicode's property White_Space. PCRE2, with
which the fast library splits by any pattern that it has not compiled in, adds U+180E, which was a
blank until Unicode 6.3: with `'s` behind it, or more blanks, it became another piece.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
"""A backslash and what it stands before: of two backslashes, the second escapes nothing."""

_PROPERTIES = {r"\s": r"\p{White_Space}", r"\S": r"\P{White_Space}"}


def with_properties(pattern: str) -> str:
    r"""The pattern with `\s` and `\S`, in a class or not, as the property that they stand for."""
    return _ESCAPED.sub(lambda found: _PROPERTIES.get(found[0], found[0]), pattern)
