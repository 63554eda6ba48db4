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
    """Replace U+2581, ByteFallback, Fuse, Strip, in that order, each where it is needed.

    This is what the converters of Llama, Mistral and Gemma write; another order means another
    thing and is left to the library.
    """
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return ByteDecoding()
    strip = 0
    if kinds and kinds[-1] == "Strip":
        last = steps[-1]
        if last["content"] != " " or last["stop"] != 0 or "Fuse" not in kinds:
            return None
        strip = last["start"]
        kinds = kinds[:-1]
    if kinds not in (["Replace", "ByteFallback", "Fuse"], ["Replace", "ByteFallback"]):
        return None
    if steps[0]["pattern"] != {"String": "\u2581"} or steps[0]["content"] != " ":
        return None
    return ByteDecoding(leading_blanks=strip)


def uses(definition: Definition, kind: str) -> bool:
    """Whether the pre-tokenizer or the decoder has a component of this type."""
    for part in ("pre_tokenizer", "decoder"):
        component = definition[part] or {}
        steps = component.get("pretokenizers", component.get("decoders", [component]))
        if any(step.get("type") == kind for step in steps):
            return True
    return False
