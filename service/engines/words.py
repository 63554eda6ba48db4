"""An engine that remembers what each word became, for tokenizers to which words are all there is.

BERT's pipeline and CLIP's drop the blanks and look at nothing across them, so the ids of a text are
those of its words, and most words of a text have come before: to look them up costs a twentieth of
what the reference takes for them. What has not come before, the reference is asked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from service.core.tokenizer import ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_BYTES = 16 * 1024 * 1024
"""Of all that is remembered. Then it begins anew, and has what matters again after a few texts."""

MAX_WORD_BYTES = 256
"""Longer ones hardly come again. A script without blanks has whole sentences for words, which do:
a conversation is sent again with each thing that is said in it."""

_WORD_COSTS = 160
"""Bytes of memory that a word takes beside its own and those of its ids, about."""

_LEARNT_AT_LEAST, _BYTES_A_LEARNT = 4, 128
"""So many new words of a text are looked at alone, and one more in so many bytes: alone, a word
takes the reference 4 us longer. What follows them is encoded as a whole."""

_ODD_BLANKS = b"\x0b", b"\x0c"
"""`bytes.split` splits at these, which to BERT are control characters that part no word."""


class Ids(list[int]):
    """Ids as fastokens has them."""

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self


class _EnoughLearntError(Exception):
    """A text has more new words than are looked at alone."""


class _Known(dict[bytes, bytes]):
    """Word to ids, both in bytes; asks for what it does not have.

    Two threads may use it at once. Then each may use up what the other was to learn, nothing else.
    """

    def __init__(self, encoded: Callable[[str], bytes]) -> None:
        super().__init__()
        self._encoded = encoded
        self.left = 0
        """How many new words may be looked at."""
        self._room = MAX_BYTES

    def __missing__(self, word: bytes) -> bytes:
        if self.left <= 0:
            raise _EnoughLearntError
        self.left -= 1
        ids = self._encoded(word.decode())
        if len(word) <= MAX_WORD_BYTES:
            self._room -= len(word) + len(ids) + _WORD_COSTS
            if self._room < 0:
                self.clear()
                self._room = MAX_BYTES
            self[word] = ids
        return ids


class WordMemory:
    """The ids of literal text by its words."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        """`encode` gives the reference's ids, which for a text are those of its words."""
        self._encode = encode
        self._known = _Known(self._encoded)
        self.bytes_a_learnt = _BYTES_A_LEARNT
        """A text of so many bytes may have one new word that is looked at alone."""

    def encode(self, text: str) -> Ids:
        """The ids of a text."""
        buffer = self._buffer(text)
        return Ids(struct.unpack(f"<{len(buffer) // ID_BYTES}I", buffer))

    def encode_batch_flat(self, texts: list[str]) -> tuple[bytes, bytes]:
        """The ids of all texts, and how many each has."""
        buffers = [*map(self._buffer, texts)]
        return b"".join(buffers), _packed([len(buffer) // ID_BYTES for buffer in buffers])

    def added_tokens(self) -> Sequence[Mapping[str, Any]]:
        """None: a tokenizer that finds some in literal text does not work word by word."""
        return []

    def _encoded(self, text: str) -> bytes:
        return _packed(self._encode(text))

    def _buffer(self, text: str) -> bytes:
        data = text.encode()
        if any(blank in data for blank in _ODD_BLANKS):
            return self._encoded(text)
        words, known = data.split(), self._known
        known.left = _LEARNT_AT_LEAST + len(data) // self.bytes_a_learnt
        parts: list[bytes] = []
        try:
            parts.extend(map(known.__getitem__, words))
        except _EnoughLearntError:
            # Which blanks stood between the words makes no difference.
            rest = b" ".join(words[len(parts) :])
            parts.append(self._encoded(rest.decode()))
        return b"".join(parts)


def _packed(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
