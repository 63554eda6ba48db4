"""Decoding piece by piece: what becomes readable with each id, and what a stream must hold back."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, NamedTuple

from service.core.policy import DecodeMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.core.tokenizer import Tokenizer


_MAX_SEARCHED = 256
"""How many trailing ids are tried as a place to cut before all are held back: a word of so many
pieces is none that anybody streams, and each try decodes what follows it."""


class Held(NamedTuple):
    """How much of a stream's bytes can be given now, and how many ids must be sent again."""

    ready_bytes: int
    pending_ids: int


def hold_back(tokenizer: Tokenizer, ids: Sequence[int], parts: Sequence[bytes]) -> Held:
    """What of a slice of a stream can be given without knowing the next one.

    The ids from a place on are held back and begin the next slice. The place is the last one at
    which a decoding that begins there gives exactly the bytes that it gives here, so that slices
    joined are the decoding of the whole: no character is cut, a blank that only a first id loses
    is given before it is held back, and a word of several pieces stays whole.
    """
    ends = _character_ends(parts)
    if tokenizer.sizes is not None:
        place = max(index for index, whole in enumerate(ends) if whole)
        return Held(sum(map(len, parts[:place])), len(ids) - place)
    joined = b"".join(parts)
    for place in range(len(ids) - 1, max(len(ids) - _MAX_SEARCHED, 0) - 1, -1):
        alone = b"".join(tokenizer.byte_parts(ids[place:]))
        if not alone or not joined.endswith(alone):
            continue
        ready = len(joined) - len(alone)
        if _is_character_end(joined, ready):
            return Held(ready, len(ids) - place)
    return Held(0, len(ids))


def cut_parts(parts: Sequence[bytes], size: int) -> list[bytes]:
    """The parts up to `size` bytes in all; those beyond are empty."""
    cut: list[bytes] = []
    for part in parts:
        cut.append(part[:size])
        size -= len(cut[-1])
    return cut


def pieces_of(parts: Sequence[bytes], mode: DecodeMode) -> list[str]:
    """The text that became complete with each part; joined they are the text of all.

    `parts` are valid UTF-8 when joined if the mode is strict; else an incomplete character at
    the end becomes U+FFFD in the last piece.
    """
    errors = "strict" if mode is DecodeMode.STRICT else "replace"
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    last = len(parts) - 1
    return [decoder.decode(part, place == last) for place, part in enumerate(parts)]


def _character_ends(parts: Sequence[bytes]) -> list[bool]:
    """For each place between parts, the first and the last included: is no character open there."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends = [True]
    for part in parts:
        decoder.decode(part)
        ends.append(not decoder.getstate()[0])
    return ends


def _is_character_end(joined: bytes, place: int) -> bool:
    """Whether a decoder that has read so many bytes waits for no more of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character has at most four bytes, and three or more bytes before decide.
    start = max(place - 16, 0)
    while start > 0 and 0x80 <= joined[start] < 0xC0:  # noqa: PLR2004 - RFC 3629: a continuation
        start -= 1
    decoder.decode(joined[start:place])
    return not decoder.getstate()[0]
