"""Comparing a fast engine with the reference: random texts, and every code point there is."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from service.core.tokenizer import Tokenizer

_SEED = 20261130
_RANDOM_TEXTS = 60_000
_CONTEXTS = ("{c}", "a{c}b", " {c} x", "a'{c}", "1{c}2", "{c}{c}\n{c}", "\u2003{c}\u2003", "!{c}!")
"""Surroundings in which each code point is compared: alone, in words, after blanks and quotes,
among digits, repeated and before a line end."""

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789.,:;-+/%",
    " \t\n\r\u00a0\u2003\u3000\u0085\u2028",
    "'\"`\u2019!?()[]{}<>|_*#@~^&=$\\",
    "\u00e9\u00fc\u00df\u0130\u0131\u017f\u01c5\u1e9e\ufb01\u0301\u0308\u0323\u200d\ufe0f",
    "\u0430\u0431\u0432\u0410\u0411\u03b1\u03b2\u03a9\u05d0\u05e9\u0627\u0628\u064e\u06f1",
    "\u0915\u094d\u0937\u093f\u0e01\u0e33\u0e40\u4e00\u6771\u4eac\u3042\u30ab\uff76\ud55c\u1112\u1161",
    "\U0001f469\U0001f52c\U0001f1e9\U0001f1ea\U0001f3fd\U00020000\U0001d4d0\ue000\u0378\U000e0041\u180e\0\x1b",
)
_SUFFIXES = ("'s", "'T", "'Re", "'ve", "'LL", "'d", "n't")
_FOLDING = tuple(
    character
    for character in map(chr, range(0x80, 0x2C00))
    if character.casefold().isascii() or character.upper().isascii()
)
"""Characters that are ASCII letters when case is ignored, which split patterns do after `'`."""
_CONTRACTIONS = ("a", "we", "that", "A", "Th", " ", "'", "'S", "x", "1", *_SUFFIXES, *_FOLDING)


class CertificationError(Exception):
    """The engines differ on a text that no single character explains."""


def random_texts(count: int, spellings: Iterable[str]) -> Iterator[str]:
    """Texts that mix scripts, blanks, contractions and control spellings; each time the same."""
    rng = random.Random(_SEED)  # noqa: S311 - a corpus, no secret
    pool = [*spellings][:200] or [""]
    for number in range(count):
        if number % 3 == 0:
            yield "".join(rng.choices(_CONTRACTIONS, k=rng.randrange(2, 10)))
            continue
        parts: list[str] = []
        for _ in range(rng.randrange(1, 14)):
            kind = rng.random()
            if kind < 0.08:  # noqa: PLR2004 - shares of the mix
                parts.append(rng.choice(pool))
            elif kind < 0.2:  # noqa: PLR2004
                parts.append(rng.choice(_SUFFIXES))
            else:
                alphabet = rng.choice(_ALPHABETS)
                parts.append("".join(rng.choices(alphabet, k=rng.choice((1, 1, 2, 3, 5, 9, 30)))))
        yield "".join(parts)


def compare(
    tokenizer: Tokenizer, fast: Callable[[str], list[int]], corpus: Sequence[str]
) -> tuple[int, int, str]:
    """How many texts and code points were compared, and the characters that are exceptions.

    `corpus` are fixed texts beside the random ones. Raises CertificationError when ids differ
    for a text without any of those characters.
    """
    exceptions: set[str] = set()
    code_points = 0
    for code_point in range(sys.maxunicode + 1):
        if 0xD800 <= code_point <= 0xDFFF:  # noqa: PLR2004 - surrogates are no text
            continue
        character = chr(code_point)
        code_points += 1
        # One text first: only where it differs is each surrounding looked at alone.
        together = "|".join(context.format(c=character) for context in _CONTEXTS)
        if tokenizer.encode(together) == fast(together):
            continue
        exceptions.add(character)
    texts = 0
    for text in (*corpus, *random_texts(_RANDOM_TEXTS, tokenizer.controls)):
        texts += 1
        if exceptions.isdisjoint(text) and tokenizer.encode(text) != fast(text):
            exceptions.add(_culprit(tokenizer, fast, text))
    if any(character.isascii() for character in exceptions):
        raise CertificationError("ids differ for texts of ASCII alone")
    return texts, code_points, "".join(sorted(exceptions))


def _culprit(tokenizer: Tokenizer, fast: Callable[[str], list[int]], text: str) -> str:
    """The character without which the engines agree on a text. Raises CertificationError."""
    for character in sorted(set(text), reverse=True):
        rest = text.replace(character, "")
        if not character.isascii() and tokenizer.encode(rest) == fast(rest):
            return character
    raise CertificationError(f"ids differ, and by no single character, for {ascii(text)[:200]}")
