"""Byte-level BPE from a rank file, by tiktoken: each line is a token in base64 and its rank."""

from __future__ import annotations

import binascii
import functools
import itertools
import re
import string
from typing import TYPE_CHECKING

import msgspec
import tiktoken

from service.core.alignment import ByteAlignment, Sizes
from service.core.faults import is_panic
from service.core.spelling import Finders, encode_stretches
from service.core.tokenizer import Facts, Frame
from service.errors import EngineLimit
from service.formats import Format, FormatError, Options
from service.formats._common import (
    check_ids_distinct,
    check_no_prefix,
    check_spellings,
    checked_parts,
    roles_by_spelling,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import ControlSpan, PairFrame


_RANK = re.compile(rb"-?[0-9]{1,10}")
_MAX_RANK = 2**32 - 1
"""tiktoken holds ranks in 32 bits."""
_PLAIN_BYTES = string.ascii_letters.encode() + string.digits.encode() + b"+/= \n"
"""All that stands in a plain rank file; none of them means anything within a JSON string."""
_READER = msgspec.json.Decoder(dict[bytes, int])


class TiktokenOptions(Options, frozen=True):
    """Data of a rank file's tokenizer that the file does not hold."""

    pattern: str
    """The regular expression that splits text into pieces, in tiktoken's dialect."""
    special_tokens: dict[str, int]
    """Spelling to id; may be empty."""


class Ranks:
    """What artifacts of the same ranks and pattern have in common, and is made once for them."""

    def __init__(self, ranks: dict[bytes, int], pattern: str) -> None:
        """`ranks` are used up. Raises ValueError for a pattern that tiktoken can't use."""
        self.encoding = tiktoken.Encoding(
            name="pinned", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )
        self.sizes = Sizes(ranks.values(), ranks)
        # It has made tables of its own, and keeps these hundred bytes a token to be pickled.
        ranks.clear()

    def hold(self, token_id: int) -> bool:
        """Whether an id is an ordinary token's."""
        try:
            self.encoding.decode_single_token_bytes(token_id)
        except (KeyError, OverflowError):
            return False
        return True


class TiktokenTokenizer:
    """A tiktoken.Encoding that was built from verified ranks, never from a download.

    It knows ordinary tokens alone: text is split at special tokens first, which is what the
    library does, so artifacts that differ in these alone share it.
    """

    def __init__(self, ranks: Ranks, options: TiktokenOptions) -> None:
        specials = options.special_tokens
        self._encoding = ranks.encoding
        self._special_bytes = {
            token_id: spelling.encode() for spelling, token_id in specials.items()
        }
        special = self._special_bytes
        self.sizes = Sizes(special.keys(), special.values(), ranks.sizes)
        self._finders = Finders(specials)
        self.controls: Mapping[str, int] = specials
        self.frame = Frame((), ())
        self.pair_frame: PairFrame | None = None
        self.unknown_id: int | None = None
        self.facts = Facts(
            library="tiktoken",
            pipeline={
                "normalizer": None,
                "pre_tokenizer": {"type": "Split", "pattern": options.pattern},
                "model": {"type": "BPE", "alphabet": "bytes"},
                "post_processor": None,
                "decoder": {"type": "Bytes"},
            },
            roles=roles_by_spelling(specials),
            coverage="every_byte",
            round_trip="exact",
        )

    def encode(self, text: str) -> list[int]:
        """Content ids, every special token's spelling read as text."""
        return _within_limits(self._encoding.encode_ordinary, text)

    def count(self, text: str) -> int:
        """How many ids `encode` gives."""
        return len(self.encode(text))

    def encode_special(self, text: str) -> list[int]:
        """Content ids, every special token recognised."""
        return self.encode_spans(text, self.find_controls(text, None))

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids, the special tokens at `spans` recognised."""
        return encode_stretches(text, spans, self.encode, self.controls.__getitem__)

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans`, aligned by their bytes."""
        ids = self.encode_spans(text, spans)
        return ByteAlignment(text, ids, self.sizes.of(ids))

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The special tokens' spellings in `text`."""
        return self._finders.find(text, allowed)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, joined. Raises InvalidTokenId."""
        try:
            return b"".join(self._runs(ids))
        except (KeyError, OverflowError):
            # The library's message does not name the index; the slow way does.
            return b"".join(self.byte_parts(ids))

    def _runs(self, ids: Sequence[int]) -> Iterator[bytes]:
        """The bytes of each run of ordinary ids, and of each special token between them."""
        special = self._special_bytes
        for is_special, run in itertools.groupby(ids, special.__contains__):
            if is_special:
                yield from map(special.__getitem__, run)
            else:
                yield self._encoding.decode_bytes(list(run))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each id. Raises InvalidTokenId."""
        return checked_parts(ids, self.token_bytes)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id."""
        special = self._special_bytes.get(token_id)
        return self._encoding.decode_single_token_bytes(token_id) if special is None else special

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every rank and special token."""
        vocabulary = dict(self._special_bytes)
        # token_byte_values() is sorted by bytes and holds no id, encode_single_token gives it.
        for token in self._encoding.token_byte_values():
            vocabulary[self._encoding.encode_single_token(token)] = token
        return vocabulary


def _within_limits(encode: Callable[[str], list[int]], text: str) -> list[int]:
    r"""Call the library; a stack overflow of its regular expression engine is EngineLimit.

    fancy-regex backtracks once a character in `\s+(?!\S)` and gives up near 1,000,000 of them;
    tiktoken unwraps that error, and PyO3 makes of the panic an exception that is no Exception.
    """
    try:
        return encode(text)
    except BaseException as error:
        if is_panic(error) and "StackOverflow" in str(error):
            raise EngineLimit from None
        raise


def parse_ranks(data: bytes) -> dict[bytes, int]:
    """Token bytes to rank. Raises FormatError for anything but a whole, unambiguous rank file."""
    ranks = _parse_quickly(data) or _parse_by_line(data)
    check_ids_distinct(ranks.values(), role="ranks")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise FormatError(
            f"expected a rank for each of the 256 bytes, found none for {len(missing)} of them, "
            f"the first 0x{missing[0]:02x}",
            role="ranks",
        )
    return ranks


def _parse_quickly(data: bytes) -> dict[bytes, int] | None:
    """The ranks of a file in which nothing is wrong or unusual, else None.

    The lines are put as one JSON object, of which msgspec reads keys in base64 and numbers as
    strictly as `_parse_by_line`: what it refuses, and what looks alike and is not, goes there.
    """
    lines = data.removesuffix(b"\n")
    if lines.translate(None, _PLAIN_BYTES):
        return None
    members = lines.replace(b" ", b'":').replace(b"\n", b',"')
    try:
        parsed = _READER.decode(b'{"' + members + b"}")
    except msgspec.DecodeError:
        return None
    if len(parsed) != lines.count(b"\n") + 1 or b"" in parsed:
        return None
    return parsed if max(parsed.values()) <= _MAX_RANK else None


def _parse_by_line(data: bytes) -> dict[bytes, int]:
    """The ranks, line by line. Raises FormatError naming the line that is at fault."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            encoded, rank = line.split()
            if not _RANK.fullmatch(rank) or int(rank) > _MAX_RANK:
                raise ValueError  # noqa: TRY301 - one message for all that a line can't be
            ranks[binascii.a2b_base64(encoded, strict_mode=True)] = int(rank)
        except ValueError:  # binascii.Error is one, too
            raise FormatError(
                f"line {number}: expected a token in base64 and its rank", role="ranks"
            ) from None
        if len(ranks) != number:
            raise FormatError(f"line {number}: a token stands twice", role="ranks")
    return ranks


@functools.lru_cache(maxsize=8)
def _ranks_of(data: bytes, pattern: str) -> Ranks:
    ranks = parse_ranks(data)
    try:
        return Ranks(ranks, pattern)
    except ValueError as error:
        # tiktoken reports a bad pattern as a ValueError that quotes it; the pattern is data of
        # the lock, not of a request, and its error is what a person needs.
        raise FormatError(f"option pattern: {error}") from None


def build(files: Mapping[str, bytes], options: Options) -> TiktokenTokenizer:
    """Build from a verified rank file. Raises FormatError."""
    assert isinstance(options, TiktokenOptions)  # noqa: S101 - Format ties the two together
    specials = options.special_tokens
    ranks = _ranks_of(files["ranks"], options.pattern)
    check_spellings(specials, taken=filter(ranks.hold, specials.values()))
    check_no_prefix(specials)
    return TiktokenTokenizer(ranks, options)


FORMAT = Format(
    name="tiktoken",
    required_roles=frozenset({"ranks"}),
    optional_roles=frozenset(),
    options=TiktokenOptions,
    build=build,
)
