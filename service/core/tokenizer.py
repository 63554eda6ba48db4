"""The Tokenizer protocol: the only thing that an artifact format must meet."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.alignment import Alignment, Sizes

Coverage = Literal["every_byte", "unknown_token"]
RoundTrip = Literal["exact", "normalizing", "lossy"]

ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
"""The parts that a special token can play, in the order of the /fingerprint answer."""


class ControlSpan(NamedTuple):
    """One control spelling found in a text: code points `start` to `end`, without blanks around."""

    start: int
    end: int
    spelling: str


class Frame(NamedTuple):
    """The ids that `add_special_tokens` puts around the content."""

    before: tuple[int, ...]
    after: tuple[int, ...]


class PairFrame(NamedTuple):
    """The ids around and between two texts that are encoded as a pair."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a format knows about its tokenizer beyond turning text into ids."""

    library: str
    """Name of the library that gives the ids."""
    pipeline: Mapping[str, object]
    """normalizer, pre_tokenizer, model, post_processor, decoder: JSON values, None where absent."""
    roles: Mapping[str, int]
    """Role (one of ROLES) to id, for the roles that are known."""
    coverage: Coverage
    round_trip: RoundTrip


class Tokenizer(Protocol):
    """One loaded tokenizer, frozen once built: every method may be called from any thread."""

    controls: Mapping[str, int]
    """Control spelling to id: what `special_policy` is about."""
    frame: Frame
    unknown_id: int | None
    """The id that stands for text outside the vocabulary, if there is one."""
    pair_frame: PairFrame | None
    """How the post-processor frames two texts; None where it frames no pairs."""
    facts: Facts

    @property
    def sizes(self) -> Sizes | None:
        """The number of bytes of each id; None where what stands around an id decides, too."""
        ...

    def encode(self, text: str) -> list[int]:
        """Content ids with every control spelling read as ordinary text."""
        ...

    def count(self, text: str) -> int:
        """How many ids `encode` gives."""
        ...

    def encode_special(self, text: str) -> list[int]:
        """Content ids as the reference library gives them, control spellings recognised."""
        ...

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids with the control spellings at `spans` recognised and no others.

        `spans` are ordered, do not overlap, and come from `find_controls` on the same text.
        """
        ...

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans` with the part of the text behind each."""
        ...

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The control spellings that the reference library would recognise, in order.

        `allowed` narrows the spellings that are looked for; None means all.
        """
        ...

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes that `ids` spell, control ids as their spelling.

        Raises InvalidTokenId for an id that is not in the vocabulary.
        """
        ...

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """What each of `ids` adds to `decode_bytes(ids)`; for errors that name an id."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id as in `vocabulary`."""
        ...

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every id with its bytes, special tokens included, the format's alphabet undone."""
        ...


@runtime_checkable
class DescribesLiteral(Protocol):
    """A tokenizer that can describe its `encode` as a tokenizer.json, for a faster engine."""

    def literal_json(self) -> str | None:
        """A tokenizer.json that gives the ids of `encode` for every text.

        No control spelling can be reached in it. None where the tokenizer can't be put that way.
        """
        ...


@runtime_checkable
class WordByWord(Protocol):
    """A tokenizer that may be one to which the words of a text are all there is."""

    word_by_word: bool
    """Whether the ids of `encode` are those of the words, one after the other.

    Words are what blanks, tabs, LF and CR part, in any number; another blank may part them, too.
    """

    def encode_each(self, texts: list[str]) -> list[list[int]]:
        """The ids of `encode` for each text, in one call of the library."""
        ...


ID_BYTES = 4
"""Of an id in a buffer: an unsigned integer, little-endian."""


@runtime_checkable
class GivesBuffers(Protocol):
    """A tokenizer whose library can give ids without a Python object for each."""

    def encode_buffer(self, text: str) -> bytes | None:
        """The ids of `encode`, each of ID_BYTES; None where it takes a list."""
        ...

    quick: bool
    """Whether there are texts that `is_quick` takes."""

    def is_quick(self, text: str, at_most: int) -> bool:
        """Whether a text of some tens of KB takes about a millisecond, and 50 at the worst.

        It has `at_most` bytes of UTF-8: to count them takes long enough to be left out.
        """
        ...


@runtime_checkable
class GivesSlices(Protocol):
    """A tokenizer that can encode a long text a little at a time."""

    cuts: bool
    """Whether there are texts that it cuts."""

    def buffers_within(self, text: str, seconds: float) -> list[bytes] | None:
        """The ids of `encode` as in `encode_buffer`, in parts.

        None where that is not done or would take longer, which is found out early.
        """
        ...
