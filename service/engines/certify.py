"""Comparing a fast engine with the reference: random texts, long ones, and every code point."""

from __future__ import annotations

import itertools
import random
import struct
import sys
from typing import TYPE_CHECKING

from service.engines.words import WordMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from service.core.tokenizer import Tokenizer
    from service.engines.engine import Engine

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
_SPELT = (
    *("\u2581", "\u2581\u2581", " \u2581 ", "\u2581 ", "<0x41>", "<0xC3>", "<0x0A>"),
    *("<unk>", "<s>", "</s>", "</w>", "##", "\u0120", "\u010a", "\0", "\r\n", "\n\r", "  "),
)
"""What some vocabulary holds in another sense: blanks and bytes as they are written in it."""
_REPEATED = (*" \n\t=-._a0\u00e9", "ab", "aab", "the ", "01", *_SPELT)
_SUFFIXES = ("'s", "'T", "'Re", "'ve", "'LL", "'d", "n't")
_FOLDING = tuple(
    character
    for character in map(chr, range(0x80, 0x2C00))
    if character.casefold().isascii() or character.upper().isascii()
)
"""Characters that are ASCII letters when case is ignored, which split patterns do after `'`."""
_CONTRACTIONS = ("a", "we", "that", "A", "Th", " ", "'", "'S", "x", "1", *_SUFFIXES, *_FOLDING)

_PARTS = ("spelling", "suffix", "spelt", "repeated", "long word", "letters")
_SHARES = (8, 12, 6, 4, 1, 69)
_DOCUMENT_CHARACTERS = (*[4_000] * 20, *[16_000] * 20, *[70_000] * 4, 200_000, 1_100_000)


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
        yield "".join(_part(rng, pool) for _ in range(rng.randrange(1, 14)))


def _part(rng: random.Random, spellings: Sequence[str]) -> str:
    """One piece of a random text."""
    kind = rng.choices(_PARTS, _SHARES)[0]
    if kind == "spelling":
        return rng.choice(spellings)
    if kind == "suffix":
        return rng.choice(_SUFFIXES)
    if kind == "spelt":
        return rng.choice(_SPELT)
    if kind == "repeated":
        repeated: str = rng.choice(_REPEATED)
        return repeated * rng.choice((2, 3, 5, 8, 17, 40))
    alphabet = _ALPHABETS[0] if kind == "long word" else rng.choice(_ALPHABETS)
    lengths = (60, 120, 300) if kind == "long word" else (1, 1, 2, 3, 5, 9, 30)
    return "".join(rng.choices(alphabet, k=rng.choice(lengths)))


def documents(spellings: Iterable[str]) -> Iterator[str]:
    """Long texts: an engine may cut these to work on the parts at once, or go another way."""
    rng = random.Random(_SEED)  # noqa: S311 - a corpus, no secret
    words = ["".join(rng.choices(_ALPHABETS[0][:26], k=rng.randrange(1, 11))) for _ in range(3000)]
    parts = [*random_texts(3000, spellings), *words, *words]
    for length in _DOCUMENT_CHARACTERS:
        joint = rng.choice((" ", "", "\n", ". ", "\r\n\r\n"))
        yield joint.join(rng.choices(parts, k=length // 8))[:length]
        yield " ".join(rng.choices(words, k=length // 4))[:length]


def every_way(engine: Engine) -> Callable[[str], list[int]]:
    """The ids of an engine for a text; no ids that there are where its ways differ.

    A list, a count and a buffer are asked of it: FastTokenizer gives all three.
    """
    if isinstance(engine, WordMemory):
        engine.learns_all = True  # what it leaves to the reference would be compared with itself

    def ids(text: str) -> list[int]:
        encoding = engine.encode(text)
        listed = encoding.ids
        buffer, _ = engine.encode_batch_flat([text])
        alike = len(encoding) == len(listed) and struct.pack(f"<{len(listed)}I", *listed) == buffer
        return listed if alike else [-1]

    return ids


def compare(
    tokenizer: Tokenizer, fast: Callable[[str], list[int]], corpus: Sequence[str]
) -> tuple[int, int, str]:
    """How many texts and code points were compared, and the characters that are exceptions.

    `corpus` are fixed texts beside the random and the long ones. Raises CertificationError when
    ids differ for a text without any of those characters.
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
    for text in itertools.chain(
        corpus, random_texts(_RANDOM_TEXTS, tokenizer.controls), documents(tokenizer.controls)
    ):
        texts += 1
        # Without the exceptions rather than not at all: most long texts hold one.
        rest = text.translate(dict.fromkeys(map(ord, exceptions)))
        if tokenizer.encode(rest) != fast(rest):
            exceptions.add(_culprit(tokenizer, fast, rest))
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
