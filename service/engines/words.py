"""An engine that remembers what each word became, for tokenizers to which words are all there is.

BERT's pipeline and CLIP's drop the blanks and look at nothing across them, so the ids of a text are
those of its words, and most words of a text have come before: to look them up costs a twentieth of
what the reference takes for them. For what has not, the reference is called, once for a text: each
call lets go of the interpreter, and a busy event loop is slow to give it back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from service.core.tokenizer import ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENGINE = "words==1"
"""As a certificate names it. What is shown with one version need not hold for another: a change of
this module or of what is a word (service/formats/_words.py) counts it up."""

MAX_BYTES = 16 * 1024 * 1024
"""Of all that is remembered. Then it begins anew, and has what matters again after a few texts."""

MAX_WORD_BYTES = 256
"""Longer ones hardly come again. A script without blanks has whole sentences for words, which do:
a conversation is sent again with each thing that is said in it."""

_WORD_COSTS = 160
"""Bytes of memory that a word takes beside its own and those of its ids, about."""

_NEW_SHARE = 4
"""With more new words than one in so many, the whole text costs less than these one by one: alone,
a word takes the reference 3 us longer."""

_LEARNT_AT_LEAST, _BYTES_A_LEARNT = 1, 128
"""Of such a text so many new words are learnt, and one more in so many bytes, for the next time.
From there on it is encoded as a whole."""

_ODD_BLANKS = b"\x0b", b"\x0c"
"""`bytes.split` splits at these, which to BERT are control characters that part no word."""


class Ids(list[int]):
    """Ids as fastokens has them."""

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self


class WordMemory:
    """The ids of literal text by its words.

    Two threads may use it at once, and be wrong by a word about how much is remembered.
    """

    def __init__(self, encode_each: Callable[[list[str]], list[list[int]]]) -> None:
        """`encode_each` gives the reference's ids of each text, in one call of its library."""
        self._encode_each = encode_each
        self._known: dict[bytes, bytes] = {}
        self._room = MAX_BYTES
        self.learns_all = False
        """Whether each word is looked at alone, however many are new."""

    def encode(self, text: str) -> Ids:
        """The ids of a text."""
        buffer = self._buffer(text)
        return Ids(struct.unpack(f"<{len(buffer) // ID_BYTES}I", buffer))

    def encode_batch_flat(self, texts: list[str]) -> tuple[bytes, bytes]:
        """The ids of all texts, and how many each has."""
        buffers = [*map(self._buffer, texts)]
        return b"".join(buffers), _packed([len(buffer) // ID_BYTES for buffer in buffers])

    def added_tokens(self) -> Sequence[Mapping[str, Any]]:
        """None: this is not for a tokenizer that finds some in literal text."""
        return []

    def _buffer(self, text: str) -> bytes:
        data = text.encode()
        if any(blank in data for blank in _ODD_BLANKS):
            return b"".join(self._encoded([text]))
        words = data.split()
        found = [*map(self._known.get, words)]
        try:
            return b"".join(found)  # type: ignore[arg-type]
        except TypeError:  # there is a None, which costs nothing to find out in this way
            return self._with_new(words, found)

    def _with_new(self, words: list[bytes], found: list[bytes | None]) -> bytes:
        """The ids of words, of which some were not found."""
        pairs = zip(words, found, strict=True)
        new = [*dict.fromkeys(word for word, ids in pairs if ids is None)]
        end = len(words)
        if not self.learns_all and len(new) * _NEW_SHARE > end:
            size = sum(map(len, words))
            learnt = _LEARNT_AT_LEAST + size // _BYTES_A_LEARNT
            if learnt < len(new):
                end = words.index(new[learnt])
                new = new[:learnt]
        # Which blanks stood between the words makes no difference.
        rest = b" ".join(words[end:])
        *alone, of_rest = self._encoded([word.decode() for word in (*new, rest)])
        learned = dict(zip(new, alone, strict=True))
        self._learn(learned)
        parts = (
            learned[word] if ids is None else ids
            for word, ids in zip(words[:end], found[:end], strict=True)
        )
        return b"".join((*parts, of_rest))

    def _learn(self, learned: Mapping[bytes, bytes]) -> None:
        for word, ids in learned.items():
            if len(word) > MAX_WORD_BYTES:
                continue
            self._room -= len(word) + len(ids) + _WORD_COSTS
            if self._room < 0:
                self._known.clear()
                self._room = MAX_BYTES
            self._known[word] = ids

    def _encoded(self, texts: list[str]) -> list[bytes]:
        return [*map(_packed, self._encode_each(texts))]


def _packed(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *ids)
