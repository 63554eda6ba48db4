"""GPT-2's letters for bytes: each byte as one printable character, and back."""

from __future__ import annotations

import codecs


def _letters() -> dict[int, str]:
    # openai/gpt-2, encoder.py, bytes_to_unicode: bytes that print stand for themselves, the
    # others for the code points from 256 on, in order.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + place) for place, byte in enumerate(others)
    }


LETTER_OF_BYTE = _letters()
"""Byte to letter, in the order in which byte-level vocabularies number them."""

_CHARMAP = codecs.charmap_build("".join(LETTER_OF_BYTE[byte] for byte in range(256)))
"""The letters as one of Python's single-byte encodings, which spares a loop over each piece."""


def letters_to_bytes(token: str) -> bytes:
    """The bytes that a byte-level piece spells. Raises KeyError for what is no letter."""
    try:
        return codecs.charmap_encode(token, "strict", _CHARMAP)[0]
    except UnicodeEncodeError:
        raise KeyError(token) from None


UTF8_BYTES = frozenset(range(256)) - {0xC0, 0xC1} - frozenset(range(0xF5, 0x100))
"""The bytes that valid UTF-8 can contain (RFC 3629, section 4): a vocabulary must cover them."""
