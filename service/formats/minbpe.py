"""Byte-level BPE from a minbpe `.model` file: merges are pairs of ids, and ids are their order.

Two merges may spell the same bytes under two ids, so a rank file can't hold such a model and
tiktoken can't give its ids. minbpe is a lecture, not a package: its algorithm is small and is
written here anew, in `service.core.pair_merge`; the tests hold the published one against it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
from typing import TYPE_CHECKING

import regex

from service.core.alignment import ByteAlignment, Sizes
from service.core.pair_merge import merge_pairs
from service.core.spelling import Finders, encode_stretches
from service.core.tokenizer import Facts, Frame
from service.errors import EngineLimit
from service.formats import Format, FormatError, Options
from service.formats._common import Template, checked_parts, roles_by_spelling
from service.formats._minbpe_json import literal_json
from service.formats._minbpe_model import BYTES, Model, parse_model, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import ControlSpan, PairFrame

_MAX_VOCABULARY_BYTES = 64 * 1024 * 1024
"""Each merge can double the longest token: 40 lines could ask for a token of a terabyte.
cl100k_base, with 100,000 tokens, has 0.7 MB."""
_CACHED_CHUNKS = 16_384
_CACHED_CHARACTERS = 64
"""Words repeat and long chunks don't: what is kept of requests stays within a few megabytes."""
_PROBE_SECONDS = 10
"""A pattern that splits in linear time needs a third of one."""
_PROBE_CHARACTERS = (
    "aA\u00e9\u01c5\u02b0\u4e00\u0301\u0903\u20dd07\u2160\u00bd_-({)}\u00ab\u00bb!'+$^\u00a6"
    " \u00a0\u2028\u2029\t\r\n\u200d\ue000\u0378"
)
"""Every general category but the surrogates, and the characters that patterns name."""


PROBED_PATTERNS = frozenset({"a4bb8cc38b305a24c4f49a83b058d838a487c62039db54551b6b4a7026c38e83"})
"""SHA-256 of patterns that the tests probe, so that a start need not: it takes a third of a second.
The one here is minbpe's own, GPT4_SPLIT_PATTERN."""


class MinbpeOptions(Options, frozen=True):
    """Data of a minbpe tokenizer that its file does not hold."""

    template: Template | None = None
    """What `add_special_tokens` puts around the content; nothing when absent."""


class Splitter:
    """Cuts text into the chunks that no merge crosses, and never loses any of it.

    minbpe calls `findall`, which passes over what the pattern does not match. Such a pattern is
    refused at load; a text on which it still happens is EngineLimit.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._compiled = regex.compile(pattern)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            # The pattern is data of the artifact, not of a request: a person needs its error.
            refuse(2, f"the pattern is refused: {error}")
        if self._compiled.groups:
            refuse(2, "the pattern has a capturing group; minbpe would encode only the group")
        if hashlib.sha256(pattern.encode()).hexdigest() not in PROBED_PATTERNS:
            self.probe()

    def probe(self) -> None:
        """Raise FormatError for a pattern that passes over some of the probe texts."""
        try:
            whole = all(
                "".join(self.chunks(text, _PROBE_SECONDS)) == text for text in _probe_texts()
            )
        except EngineLimit:
            whole = False
        except TimeoutError:
            refuse(2, f"splitting a text of all code points takes over {_PROBE_SECONDS} seconds")
        if not whole:
            refuse(2, "the pattern passes over a part of some texts, which would be lost")

    def chunks(self, text: str, seconds: float | None = None) -> list[str]:
        """The chunks of `text`, in order; joined they are `text`.

        Raises EngineLimit, and TimeoutError when it takes more than `seconds`.
        """
        # By default the library lets go of the GIL at every match, and beside a busy thread
        # each return to it takes up to 5 ms: 200 times slower was measured.
        chunks: list[str] = self._compiled.findall(text, concurrent=False, timeout=seconds)
        # Matches don't overlap, so together they are as long as the text only if none is missed.
        if sum(map(len, chunks)) != len(text):
            raise EngineLimit
        return chunks


def _probe_texts() -> Iterator[str]:
    """All code points in a row, and every text of one to three characters out of a few."""
    scalars = itertools.chain(range(0xD800), range(0xE000, sys.maxunicode + 1))
    yield "".join(map(chr, scalars))
    for length in (1, 2, 3):
        yield from map("".join, itertools.product(_PROBE_CHARACTERS, repeat=length))


class MinbpeTokenizer:
    """A minbpe model; its encoder's time grows with the text, however long a chunk is."""

    def __init__(self, model: Model, options: MinbpeOptions) -> None:
        self._model = model
        self._splitter = Splitter(model.pattern) if model.pattern else None
        self._finders = Finders(model.special_tokens)
        self._bytes_of = _token_bytes(model)
        # A cache of this tokenizer alone; lru_cache is safe under threads, and a chunk that
        # two of them miss at once has the same ids both times.
        self._cached_chunk = functools.lru_cache(_CACHED_CHUNKS)(self._encode_chunk)
        self.controls: Mapping[str, int] = model.special_tokens
        self.frame = options.template.frame(self.controls) if options.template else Frame((), ())
        split = {"type": "Split", "pattern": model.pattern} if model.pattern else None
        self.pair_frame: PairFrame | None = None
        self.sizes = Sizes(self._bytes_of.keys(), self._bytes_of.values())
        self.unknown_id: int | None = None
        self.facts = Facts(
            library="tokenizer-service",
            pipeline={
                "normalizer": None,
                "pre_tokenizer": split,
                "model": {"type": "BPE", "alphabet": "bytes", "merges_by": "id pair"},
                "post_processor": None,
                "decoder": {"type": "Bytes"},
            },
            roles=roles_by_spelling(self.controls),
            coverage="every_byte",
            round_trip="exact",
        )

    def encode(self, text: str) -> list[int]:
        """Content ids, every special token's spelling read as text."""
        return list(itertools.chain.from_iterable(self._ids_of_chunks(text)))

    def _ids_of_chunks(self, text: str) -> Iterator[tuple[int, ...]]:
        chunks = [text] if self._splitter is None else self._splitter.chunks(text)
        if max(map(len, chunks), default=0) <= _CACHED_CHARACTERS:
            return map(self._cached_chunk, chunks)
        # Long chunks rarely come again, and would fill the memory.
        return (
            self._cached_chunk(chunk)
            if len(chunk) <= _CACHED_CHARACTERS
            else self._encode_chunk(chunk)
            for chunk in chunks
        )

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        return tuple(merge_pairs(chunk.encode(), self._model.merges))

    def count(self, text: str) -> int:
        """How many ids `encode` gives."""
        return sum(map(len, self._ids_of_chunks(text)))

    def encode_special(self, text: str) -> list[int]:
        """Content ids, every special token recognised."""
        return self.encode_spans(text, self.find_controls(text, None))

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids, the special tokens at `spans` recognised."""
        return encode_stretches(text, spans, self.encode, self.controls.__getitem__)

    def literal_json(self) -> str | None:
        """A tokenizer.json that gives the ids of `encode`; None where there is none."""
        return literal_json(self._model, self._bytes_of)

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans`, aligned by their bytes."""
        ids = self.encode_spans(text, spans)
        return ByteAlignment(text, ids, self.sizes.of(ids))

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The special tokens' spellings in `text`."""
        return self._finders.find(text, allowed)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, joined. Raises InvalidTokenId."""
        return b"".join(self.byte_parts(ids))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each id. Raises InvalidTokenId."""
        return checked_parts(ids, self._bytes_of.__getitem__)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id."""
        return self._bytes_of[token_id]

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every byte, merge and special token."""
        return dict(self._bytes_of)


def _token_bytes(model: Model) -> dict[int, bytes]:
    """Each id's bytes. Raises FormatError when they don't fit the bound."""
    tokens = {byte: bytes([byte]) for byte in range(BYTES)}
    room = _MAX_VOCABULARY_BYTES
    for (left, right), token_id in model.merges.items():
        room -= len(tokens[left]) + len(tokens[right])
        if room < 0:
            reason = f"up to id {token_id} the tokens exceed {_MAX_VOCABULARY_BYTES} bytes"
            raise FormatError(reason, role="model")
        tokens[token_id] = tokens[left] + tokens[right]
    for spelling, token_id in model.special_tokens.items():
        tokens[token_id] = spelling.encode()
    return tokens


def build(files: Mapping[str, bytes], options: Options) -> MinbpeTokenizer:
    """Build from a verified `.model` file. Raises FormatError."""
    assert isinstance(options, MinbpeOptions)  # noqa: S101 - Format ties the two together
    return MinbpeTokenizer(parse_model(files["model"]), options)


FORMAT = Format(
    name="minbpe",
    required_roles=frozenset({"model"}),
    optional_roles=frozenset(),
    options=MinbpeOptions,
    build=build,
)
