"""What several formats need: checks at load, roles, decoding with a checked id."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from service.core.tokenizer import Frame
from service.errors import InvalidTokenId
from service.formats import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Part = TypeVar("Part")

MAX_ID = 2**24 - 1
"""Tables have a place for each id up to the greatest: 2**32 would ask for 16 GB. The largest
vocabularies in use have 2**18 ids."""

_ROLE_SPELLINGS: dict[str, tuple[str, ...]] = {
    "bos": ("<s>", "<bos>", "<|startoftext|>", "<|begin_of_text|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
}
"""Spellings that the field uses for a role; looked at only where the artifact does not say."""


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The option `template`: spellings that `add_special_tokens` puts around the content."""

    before: list[str] = []
    after: list[str] = []

    def frame(self, controls: Mapping[str, int]) -> Frame:
        """The ids of the spellings. Raises FormatError for one that is no special token."""
        for spelling in (*self.before, *self.after):
            if spelling not in controls:
                raise FormatError(f"option template: {spelling!r} is not a special token")
        return Frame(
            tuple(controls[spelling] for spelling in self.before),
            tuple(controls[spelling] for spelling in self.after),
        )


def roles_by_spelling(controls: Mapping[str, int]) -> dict[str, int]:
    """Role to id for the special tokens whose spelling is a usual one for the role."""
    return {
        role: controls[spelling]
        for role, spellings in _ROLE_SPELLINGS.items()
        for spelling in reversed(spellings)
        if spelling in controls
    }


def check_ids_distinct(ids: Iterable[int], *, role: str | None = None) -> None:
    """Raise FormatError when an id is negative, too large or stands for two tokens."""
    ids = list(ids)
    if len(set(ids)) == len(ids) and min(ids, default=0) >= 0 and max(ids, default=0) <= MAX_ID:
        return
    for token_id, times in Counter(ids).items():
        if times > 1:
            raise FormatError(f"id {token_id} stands for {times} tokens", role=role)
        if token_id < 0:
            raise FormatError(f"id {token_id} is negative", role=role)
        if token_id > MAX_ID:
            raise FormatError(f"id {token_id} is larger than {MAX_ID}", role=role)


def check_spellings(controls: Mapping[str, int], *, taken: Iterable[int]) -> None:
    """Raise FormatError when special tokens are empty, collide, or use the id of another token.

    `taken` are the ids of the ordinary tokens.
    """
    check_ids_distinct(controls.values())
    taken = set(taken)
    for spelling, token_id in controls.items():
        if not spelling:
            raise FormatError("a special token has an empty spelling")
        if token_id in taken:
            raise FormatError(
                f"special token {spelling!r} has id {token_id}, which is an ordinary token's"
            )


def check_no_prefix(controls: Iterable[str]) -> None:
    """Raise FormatError when one spelling begins another.

    The reference libraries that search with a regular expression take whichever alternative
    comes first in a hash table, so such a pair has no defined ids.
    """
    ordered = sorted(controls)
    for shorter, longer in itertools.pairwise(ordered):
        if longer.startswith(shorter):
            raise FormatError(f"special token {shorter!r} begins special token {longer!r}")


def stand_in(spelling: str) -> str:
    """A random string that behaves in a text as `spelling` does but can't be guessed.

    The first and last characters stay: a neighbour marked `single_word` looks at them. Between
    them are 16 of the 1,165 Yi syllables: letters without case or decomposition, which no
    normalizer in use changes and no vocabulary in use has as added tokens.
    """
    middle = "".join(chr(_YI_SYLLABLES[0] + secrets.randbelow(_YI_SYLLABLES[1])) for _ in range(16))
    return spelling[0] + middle + spelling[-1]


_YI_SYLLABLES = (0xA000, 1165)
"""First code point, and how many there are."""


def checked_parts(ids: Sequence[int], part_of: Callable[[int], Part]) -> list[Part]:
    """`part_of` each id; its KeyError, IndexError or OverflowError is InvalidTokenId."""
    parts: list[Part] = []
    for index, token_id in enumerate(ids):
        try:
            parts.append(part_of(token_id))
        except (KeyError, IndexError, OverflowError):
            raise InvalidTokenId(index, token_id) from None
    return parts
