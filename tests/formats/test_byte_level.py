"""GPT-2's letters for bytes."""

from __future__ import annotations

import sys

import pytest

from service.formats._byte_level import LETTER_OF_BYTE, letters_to_bytes


def test_every_byte_has_a_letter_and_comes_back() -> None:
    spelled = "".join(LETTER_OF_BYTE[byte] for byte in range(256))
    assert len(set(spelled)) == 256
    assert letters_to_bytes(spelled) == bytes(range(256))
    assert letters_to_bytes("") == b""


def test_no_other_character_is_a_letter() -> None:
    letters = set(LETTER_OF_BYTE.values())
    for character in map(chr, range(sys.maxunicode + 1)):
        if character not in letters:
            with pytest.raises(KeyError):
                letters_to_bytes("a" + character)
