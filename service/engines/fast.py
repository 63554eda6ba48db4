"""Literal encoding by a fast engine, guarded: the reference answers wherever it is not proven.

fastokens caches words and is many times faster than the references, and it is a young library.
So it encodes literal text alone; policies, offsets and decoding stay with the reference. It needs
a certificate for exactly this artifact and these versions, a text with a known exception goes to
the reference, and one text in a thousand is answered by both: if they differ, the reference's ids
are given and the fast engine loses that kind of text. So it does when it fails.
"""

from __future__ import annotations

import hashlib
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from service.core.alignment import ByteAlignment
from service.core.faults import is_fault
from service.core.tokenizer import ID_BYTES
from service.engines.slices import can_be_cut, ends_of_slices
from service.engines.words import WordMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import ControlSpan, Tokenizer
    from service.engines.certificate import Certificate
    from service.engines.engine import Engine

SAMPLE_EVERY = 1000
"""Of so many texts one is answered by both engines."""

SAMPLE_MAX_CHARACTERS = 65_536
"""Longer texts are not sampled: the reference would take as long as everything else together."""


class Difference(NamedTuple):
    """A text for which the engines gave different ids, or the fast one none.

    The text itself is nobody's business.
    """

    tokenizer: str
    text_sha256: str
    ascii: bool


class FastTokenizer:
    """A reference tokenizer whose literal text goes to the fast engine where that is proven."""

    def __init__(
        self,
        name: str,
        reference: Tokenizer,
        engine: Engine,
        exceptions: str,
        *,
        cuts: bool = False,
        quick: bool = True,
    ) -> None:
        """`cuts`: long texts in ASCII may be cut (service/engines/slices.py).

        `quick`: the engine takes 15 ms at the worst for 64 KiB.
        """
        self.reference = reference
        self.cuts = cuts
        self.quick = quick
        self._name = name
        self._engine = engine.encode
        self._engine_of_buffers = engine.encode_batch_flat
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
        self.sizes = reference.sizes
        self.facts = reference.facts
        self.encode_special = reference.encode_special
        self.encode_spans = reference.encode_spans
        self._exact = reference.facts.round_trip == "exact"
        self.find_controls = reference.find_controls
        self.decode_bytes = reference.decode_bytes
        self.byte_parts = reference.byte_parts
        self.token_bytes = reference.token_bytes
        self.vocabulary = reference.vocabulary

    def encode(self, text: str) -> list[int]:
        """Content ids with every control spelling read as ordinary text."""
        if not self._takes(text):
            return self.reference.encode(text)
        try:
            ids = self._engine(text).ids
        except BaseException as error:
            if not is_fault(error):
                raise
            return self._checked(text, None)
        if self._is_sample(text):
            self._until_sample = SAMPLE_EVERY
            return self._checked(text, ids)
        self._until_sample -= 1
        return ids

    def count(self, text: str) -> int:
        """How many ids `encode` gives, without making a list of them."""
        buffer = self.encode_buffer(text)
        if buffer is not None:
            return len(buffer) // ID_BYTES
        return len(self.encode(text)) if self._takes(text) else self.reference.count(text)

    def is_quick(self, text: str, _: int = 0) -> bool:
        """Whether the fast engine alone answers for this text, and is quick about it."""
        return self.quick and self._is_for_engine(text)

    def encode_buffer(self, text: str) -> bytes | None:
        """The ids of `encode`, each of ID_BYTES; None for a text of the reference."""
        if not self._is_for_engine(text):
            return None
        self._until_sample -= 1
        try:
            buffer = self._engine_of_buffers([text])[0]
        except BaseException as error:
            if not is_fault(error):
                raise
            self._checked(text, None)
            return None
        return buffer

    def buffers_within(self, text: str, seconds: float) -> list[bytes] | None:
        """The ids of `encode` in several buffers; None for a text that would take longer.

        Also for one that can't be cut: a slice takes 15 ms at the worst. Of a slow text so much
        is given up as would have been within its share of the time.
        """
        if not (self.cuts and text.isascii() and self._is_for_engine(text)):
            return None
        ends = ends_of_slices(text)
        if ends is None:
            return None
        buffers: list[bytes] = []
        begin, started = 0, perf_counter()
        try:
            for end in ends:
                buffers.append(self._engine_of_buffers([text[begin:end]])[0])
                if (perf_counter() - started) * len(text) > seconds * end:
                    return None
                begin = end
        except BaseException as error:
            if not is_fault(error):
                raise
            return None  # the whole text meets the same fault, and is answered by the reference
        self._until_sample -= 1
        return buffers

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans`, aligned by their bytes where these are those of the text.

        Where something is between the text and its bytes, such as a normalizer or a blank put in
        front, only the reference knows what each id stands for.
        """
        if not spans and self.sizes is not None:
            ids = self.encode(text)
            if self._exact or self.decode_bytes(ids) == text.encode():
                return ByteAlignment(text, ids, self.sizes.of(ids))
        return self.reference.align(text, spans)

    def _is_for_engine(self, text: str) -> bool:
        """Whether the fast engine alone answers for this text."""
        return not self._is_sample(text) and self._takes(text)

    def _is_sample(self, text: str) -> bool:
        """Whether this text is answered by both engines."""
        return self._until_sample <= 1 and len(text) <= SAMPLE_MAX_CHARACTERS

    def _takes(self, text: str) -> bool:
        if text.isascii():
            return self.takes_ascii
        if not self.takes_all:
            return False
        return not any(exception in text for exception in self._exceptions)

    def _checked(self, text: str, ids: list[int] | None) -> list[int]:
        """The reference's ids; other ones take texts of this kind off the fast engine."""
        # A text that the reference refuses is no fault of the fast engine.
        expected = self.reference.encode(text)
        if ids != expected:
            self.takes_all = False
            if text.isascii():
                self.takes_ascii = False
            digest = hashlib.sha256(text.encode()).hexdigest()
            self.on_difference(Difference(self._name, digest, text.isascii()))
        return expected


class Certified(NamedTuple):
    """What a certificate must be for: an artifact, and both libraries with their versions."""

    fingerprint: str
    reference: str
    engine: str


def standing(certificate: Certificate | None, certified: Certified) -> str:
    """`fast` where a certificate holds, else why it does not: `uncertified` or `stale`."""
    if certificate is None:
        return "uncertified"
    found = Certified(certificate.fingerprint, certificate.reference, certificate.engine)
    return "fast" if found == certified else "stale"


def guarded(
    name: str,
    reference: Tokenizer,
    certificate: Certificate,
    engine: Engine | None,
) -> tuple[Tokenizer, str]:
    """The tokenizer to use, and `fast` or `not loaded`; the certificate is one that holds."""
    if engine is None:
        return reference, "not loaded"
    # An added token that is no control token is found in literal text, and may stand at a cut.
    cuts = can_be_cut(reference.facts.pipeline) and (
        len(engine.added_tokens()) <= len(reference.controls)
    )
    # What is new to a memory of words takes as long as the reference.
    quick = not isinstance(engine, WordMemory)
    exceptions = certificate.exceptions
    return FastTokenizer(name, reference, engine, exceptions, cuts=cuts, quick=quick), "fast"
