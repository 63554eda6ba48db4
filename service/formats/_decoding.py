"""Decoding a tokenizer.json by bytes, where its decoder can be expressed that way.

The library's own decoder works on text: a byte-fallback piece that is not a whole character
becomes U+FFFD before its neighbours are seen, and an unknown id is dropped in silence. Here each
id gives its bytes and nothing is read as text before all of them are joined.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.formats._definition import Definition


@dataclasses.dataclass(frozen=True, slots=True)
class ByteDecoding:
    """A decoder that joins each id's bytes and may drop blanks from the start of all."""

    leading_blanks: int = 0
    """How many blanks the start of the decoded text loses, at most."""

    def trim(self, parts: list[bytes]) -> list[bytes]:
        """`parts` without the leading blanks that decoding drops."""
        left = self.leading_blanks
        for place, part in enumerate(parts):
            if left == 0:
                break
            dropped = min(left, len(part) - len(part.lstrip(b" ")))
            parts[place] = part[dropped:]
            left -= dropped
            if parts[place]:
                break
        return parts


def byte_decoding(definition: Definition) -> ByteDecoding | None:
    """How to decode by bytes, or None where the library's own decoder has to be asked."""
    decoder = definition["decoder"]
    if decoder is None:
        return None
    if decoder["type"] == "ByteLevel":
        return ByteDecoding()
    if decoder["type"] == "Metaspace":
        return ByteDecoding(leading_blanks=0 if decoder.get("prepend_scheme") == "never" else 1)
    if decoder["type"] == "Sequence":
        return _sequence(decoder["decoders"])
    return None


def _sequence(steps: list[Definition]) -> ByteDecoding | None:
    """The steps that the converters of Llama, Mistral and Gemma write, each where it is needed.

    Replace of U+2581, ByteFallback, Fuse, and Strip of blanks at the start; or ByteFallback and
    Metaspace. Another step or order means another thing and is left to the library.
    """
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return ByteDecoding()
    if kinds == ["ByteFallback", "Metaspace"]:
        return byte_decoding({"decoder": steps[1]})
    strip = 0
    if kinds[-2:] == ["Fuse", "Strip"]:
        last = steps[-1]
        if last["content"] != " " or last["stop"] != 0:
            return None
        strip = last["start"]
        kinds = kinds[:-1]
    if kinds[-1:] == ["Fuse"]:
        kinds = kinds[:-1]
    if kinds == ["Replace", "ByteFallback"]:
        replaces_blank = steps[0]["pattern"] == {"String": "\u2581"} and steps[0]["content"] == " "
        return ByteDecoding(leading_blanks=strip) if replaces_blank else None
    return ByteDecoding(leading_blanks=strip) if kinds == ["ByteFallback"] else None


def has_byte_pieces(definition: Definition) -> bool:
    """Whether `<0xNN>` pieces stand for bytes: the model makes them, or the decoder reads them."""
    return bool(definition["model"].get("byte_fallback")) or uses(definition, "ByteFallback")


def uses(definition: Definition, kind: str) -> bool:
    """Whether the pre-tokenizer or the decoder has a component of this type."""
    for part in ("pre_tokenizer", "decoder"):
        component = definition[part] or {}
        steps = component.get("pretokenizers", component.get("decoders", [component]))
        if any(step.get("type") == kind for step in steps):
            return True
    return False
