"""Reading minbpe's `.model` files: a header, a split pattern, special tokens, merges."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, NoReturn

from service.formats import FormatError
from service.formats._common import MAX_ID, check_no_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BYTES = 256
"""Ids below this are the bytes; the first merge makes this id."""

_HEADER = "minbpe v1"
_NUMBER = re.compile("0|[1-9][0-9]{0,9}")


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """What a `.model` file says."""

    pattern: str
    """Splits text into chunks that are encoded alone; empty: the whole text is one chunk."""
    special_tokens: Mapping[str, int]
    merges: Mapping[tuple[int, int], int]
    """Pair of ids to the id that replaces it, in the order of the latter."""


def refuse(line: int, reason: str) -> NoReturn:
    """Raise FormatError for a line of the file."""
    raise FormatError(f"line {line}: {reason}", role="model") from None


def parse_model(data: bytes) -> Model:
    """What a `.model` file says. Raises FormatError for anything but a whole, unambiguous one.

    Stricter than minbpe's loader, which forgives what its writer never writes. A file that is
    cut between two merges can't be told from a smaller model: the lock's hash tells that.
    """
    lines = _lines(data)
    if lines[0] != _HEADER:
        refuse(1, f"expected {_HEADER!r}")
    if len(lines) < 3:  # noqa: PLR2004 - header, pattern, number of special tokens
        refuse(len(lines), "the file ends before the number of special tokens")
    pattern = lines[1]
    if pattern != pattern.strip():
        refuse(2, "blanks around the pattern; minbpe's loader would drop them")
    specials = _number(lines[2], 3)
    if len(lines) < 3 + specials:
        refuse(len(lines), f"the file ends before all {specials} special tokens are named")
    special_tokens = _special_tokens(lines[3 : 3 + specials])
    merges = _merges(lines[3 + specials :], first_line=4 + specials)
    for line, (spelling, token_id) in enumerate(special_tokens.items(), start=4):
        if token_id < BYTES + len(merges):
            refuse(line, f"special token {spelling!r} has the id of an ordinary token")
    return Model(pattern, special_tokens, merges)


def _lines(data: bytes) -> list[str]:
    """The lines without their ends, LF or CR LF as minbpe reads them."""
    if data.startswith(b"version https://git-lfs"):
        refuse(1, "a Git LFS pointer, not the file it stands for")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        refuse(data.count(b"\n", 0, error.start) + 1, "not UTF-8")
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        refuse(text.count("\n", 0, text.index("\r")) + 1, "a CR that no LF follows")
    if not text.endswith("\n"):
        refuse(text.count("\n") + 1, "the file ends within a line")
    # Not splitlines(): U+2028 and its like are content of a pattern.
    return text[:-1].split("\n")


def _special_tokens(lines: Sequence[str]) -> dict[str, int]:
    """Spelling to id."""
    special_tokens: dict[str, int] = {}
    ids: set[int] = set()
    for number, line in enumerate(lines, start=4):
        spelling, token_id = _fields(line, number, "a special token without blanks and its id")
        if spelling in special_tokens:
            refuse(number, f"special token {spelling!r} stands twice")
        special_tokens[spelling] = _number(token_id, number)
        if special_tokens[spelling] in ids:
            refuse(number, f"id {token_id} stands for two special tokens")
        ids.add(special_tokens[spelling])
    try:
        check_no_prefix(special_tokens)
    except FormatError as error:
        raise FormatError(error.reason, role="model") from None  # it names both of the two
    return special_tokens


def _merges(lines: Sequence[str], *, first_line: int) -> dict[tuple[int, int], int]:
    """Pair of ids to the id that replaces it."""
    merges: dict[tuple[int, int], int] = {}
    for number, line in enumerate(lines, start=first_line):
        left, right = (_number(field, number) for field in _fields(line, number, "two ids"))
        new = BYTES + len(merges)
        if max(left, right) >= new:
            refuse(number, f"the merge that makes id {new} refers to id {max(left, right)}")
        if (left, right) in merges:
            refuse(number, f"the pair {left} {right} stands twice")
        merges[left, right] = new
    return merges


def _fields(line: str, number: int, expected: str) -> tuple[str, str]:
    """The two fields of a line, one blank between."""
    fields = line.split()
    if len(fields) != 2 or " ".join(fields) != line:  # noqa: PLR2004 - the two that are returned
        refuse(number, f"expected {expected}, one blank between")
    return fields[0], fields[1]


def _number(field: str, line: int) -> int:
    """A number as minbpe writes it; int() alone would take `1_0`, ` +7` and other digits."""
    if not _NUMBER.fullmatch(field) or int(field) > MAX_ID:
        refuse(line, f"expected an integer from 0 to {MAX_ID}")
    return int(field)
