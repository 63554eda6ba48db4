"""Literal encoding by fastokens, guarded: the reference answers wherever it is not proven.

fastokens caches words and is many times faster than the references, and it is a young library.
So it encodes literal text alone; policies, offsets and decoding stay with the reference. It needs
a certificate for exactly this artifact and these versions, a text with a known exception goes to
the reference, and one text in a thousand is answered by both: if they differ, the reference's ids
are given and the fast engine loses that kind of text.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
from typing import TYPE_CHECKING, NamedTuple

import fastokens

from service.core.alignment import ByteAlignment
from service.formats._common import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import ControlSpan, Tokenizer
    from service.engines.certificate import Certificate
    from service.formats import Options

LIBRARY = "fastokens"

_PRESETS = {
    "f021c3d976978e62ee64cdad150cc3405c2e3d6e3b40407850bb9e8d9eb65899": "cl100k_base",
    "2d1b8dc11e89af71459b36004f698ab3693f59fd84f63e8ec2b49564ab857420": "o200k_base",
}
"""SHA-256 of a split pattern to the name under which the library has it compiled in; any other
pattern goes through a general engine, which is two to three times slower."""

SAMPLE_EVERY = 1000
"""Of so many texts one is answered by both engines."""

SAMPLE_MAX_CHARACTERS = 65_536
"""Longer texts are not sampled: the reference would take as long as everything else together."""


def engine_version() -> str:
    """The fast library and its version, as a certificate names it."""
    return f"{LIBRARY}=={importlib.metadata.version(LIBRARY)}"


def build_engine(
    artifact_format: str, files: Mapping[str, bytes], options: Options
) -> fastokens.Tokenizer | None:
    """The fast engine for an artifact's literal text; None where the library has none."""
    if artifact_format != "tiktoken":
        return None
    pattern: str = getattr(options, "pattern")  # noqa: B009 - an option of this format
    try:
        return _engine_of_ranks(files["ranks"], pattern)
    except ValueError:
        return None  # a vocabulary with a hole, a pattern that it can't compile


@functools.lru_cache(maxsize=8)
def _engine_of_ranks(ranks: bytes, pattern: str) -> fastokens.Tokenizer:
    """One engine for all artifacts that differ in their special tokens alone."""
    # The library takes a path: the verified bytes get one that nobody else can change.
    descriptor = os.memfd_create("ranks", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(ranks)
        path = f"/proc/self/fd/{descriptor}"
        preset = _PRESETS.get(hashlib.sha256(pattern.encode()).hexdigest())
        if preset is not None:
            return fastokens.Tokenizer.from_tiktoken(path, encoding=preset, special_tokens={})
        return fastokens.Tokenizer.from_tiktoken(path, pattern=pattern, special_tokens={})
    finally:
        os.close(descriptor)


class Difference(NamedTuple):
    """A text for which the engines gave different ids; the text itself is nobody's business."""

    tokenizer: str
    text_sha256: str
    ascii: bool


class FastTokenizer:
    """A reference tokenizer whose literal text goes to the fast engine where that is proven."""

    def __init__(
        self, name: str, reference: Tokenizer, engine: fastokens.Tokenizer, exceptions: str
    ) -> None:
        self.reference = reference
        self._name = name
        self._engine = engine.encode_ordinary
        self._exceptions = tuple(exceptions)
        self.takes_ascii = True
        self.takes_all = True
        """Whether texts beyond ASCII go to the fast engine."""
        self._until_sample = SAMPLE_EVERY
        self.on_difference: Callable[[Difference], None] = lambda _: None
        """Called when the engines differ; the application counts it and writes it to the log."""
        self.controls = reference.controls
        self.frame = reference.frame
        self.pair_frame = reference.pair_frame
        self.unknown_id = reference.unknown_id
        self.decodes_apart = reference.decodes_apart
        self.facts = reference.facts
        self.encode_special = reference.encode_special
        self.encode_spans = reference.encode_spans
        self._sizes = Sizes(reference.vocabulary)
        self.find_controls = reference.find_controls
        self.decode_bytes = reference.decode_bytes
        self.byte_parts = reference.byte_parts
        self.token_bytes = reference.token_bytes
        self.vocabulary = reference.vocabulary

    def encode(self, text: str) -> list[int]:
        """Content ids with every control spelling read as ordinary text."""
        if not self._takes(text):
            return self.reference.encode(text)
        ids: list[int] = self._engine(text).ids
        self._until_sample -= 1
        if self._until_sample <= 0 and len(text) <= SAMPLE_MAX_CHARACTERS:
            return self._compared(text, ids)
        return ids

    def count(self, text: str) -> int:
        """How many ids `encode` gives, without making a list of them."""
        if self._until_sample <= 1 or not self._takes(text):
            return len(self.encode(text))
        self._until_sample -= 1
        return len(self._engine(text))

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans`, aligned by their bytes: all such formats are byte-level."""
        if spans:
            return self.reference.align(text, spans)
        ids = self.encode(text)
        return ByteAlignment(text, ids, self._sizes.of(ids))

    def _takes(self, text: str) -> bool:
        if text.isascii():
            return self.takes_ascii
        if not self.takes_all:
            return False
        return not any(exception in text for exception in self._exceptions)

    def _compared(self, text: str, ids: list[int]) -> list[int]:
        """The reference's ids; a difference takes texts of this kind off the fast engine."""
        self._until_sample = SAMPLE_EVERY
        expected = self.reference.encode(text)
        if ids != expected:
            self.takes_all = False
            if text.isascii():
                self.takes_ascii = False
            digest = hashlib.sha256(text.encode()).hexdigest()
            self.on_difference(Difference(self._name, digest, text.isascii()))
        return expected


def guarded(
    name: str,
    reference: Tokenizer,
    certificate: Certificate | None,
    certified: tuple[str, str],
    build: Callable[[], fastokens.Tokenizer | None],
) -> tuple[Tokenizer, str]:
    """The tokenizer to use, and why: `fast`, or `uncertified`, `stale` or `not loaded`.

    `certified` are the fingerprint and the reference library with its version that a certificate
    must be for.
    """
    if certificate is None:
        return reference, "uncertified"
    if (certificate.fingerprint, certificate.reference) != certified:
        return reference, "stale"
    if certificate.engine != engine_version():
        return reference, "stale"
    engine = build()
    if engine is None:
        return reference, "not loaded"
    return FastTokenizer(name, reference, engine, certificate.exceptions), "fast"
