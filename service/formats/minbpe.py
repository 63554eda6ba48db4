"""Byte-level BPE from a minbpe `.model` file: merges are pairs of ids, and ids are their order.

Two merges may spell the same bytes under two ids, so a rank file can't hold such a model and
tiktoken can't give its ids. minbpe is a lecture, not a package: its algorithm is small and is
written here anew, in `service.core.pair_merge`; the tests hold the published one against it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from typing import TYPE_CHECKING, NoReturn

import regex  # type: ignore[import-untyped]  # the dialect of the patterns; ships no types

from service.core.pair_merge import merge_pairs
from service.core.spelling import Finders, encode_stretches
from service.core.tokenizer import Facts, Frame
from service.errors import EngineLimit
from service.formats import Format, FormatError, Options
from service.formats._common import Template, check_no_prefix, checked_parts, roles_by_spelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.core.tokenizer import ControlSpan

_HEADER = "minbpe v1"
_NUMBER = regex.compile("0|[1-9][0-9]{0,9}")
_BYTES = 256
"""Ids below this are the bytes; the first merge makes this id."""
_MAX_ID = 2**32 - 1
"""The greatest id that the other formats' libraries can hold."""
_MAX_VOCABULARY_BYTES = 64 * 1024 * 1024
"""Each merge can double the longest token: 40 lines could ask for a token of a terabyte.
cl100k_base, with 100,000 tokens, has 0.7 MB."""
_CACHED_CHUNKS = 16_384
_CACHED_CHARACTERS = 64
"""Words repeat and long chunks don't: what is kept of requests stays within a few megabytes."""
_PROBE_CHARACTERS = (
    "aA\u00e9\u01c5\u02b0\u4e00\u0301\u0903\u20dd07\u2160\u00bd_-({)}\u00ab\u00bb!'+$^\u00a6"
    " \u00a0\u2028\u2029\t\r\n\u200d\ue000\u0378"
)
"""Every general category but the surrogates, and the characters that patterns name."""


class MinbpeOptions(Options, frozen=True):
    """Data of a minbpe tokenizer that its file does not hold."""

    template: Template | None = None
    """What `add_special_tokens` puts around the content; nothing when absent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """What a `.model` file says."""

    pattern: str
    """Splits text into chunks that are encoded alone; empty: the whole text is one chunk."""
    special_tokens: Mapping[str, int]
    merges: Mapping[tuple[int, int], int]
    """Pair of ids to the id that replaces it, in the order of the latter."""


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
            _refuse(2, f"the pattern is refused: {error}")
        if self._compiled.groups:
            _refuse(2, "the pattern has a capturing group; minbpe would encode only the group")
        try:
            for text in _probe_texts():
                "".join(self.chunks(text))
        except EngineLimit:
            _refuse(2, "the pattern passes over a part of some texts, which would be lost")

    def chunks(self, text: str) -> Iterator[str]:
        """The chunks of `text`, in order; joined they are `text`. Raises EngineLimit."""
        position = 0
        # By default the library lets go of the GIL at every match, and beside a busy thread
        # each return to it takes up to 5 ms: 200 times slower was measured.
        for match in self._compiled.finditer(text, concurrent=False):
            start, end = match.span()
            if start != position:
                raise EngineLimit
            position = end
            yield match[0]
        if position != len(text):
            raise EngineLimit


def _probe_texts() -> Iterator[str]:
    """All code points in a row, and every text of one to three characters out of a few."""
    scalars = itertools.chain(range(0xD800), range(0xE000, sys.maxunicode + 1))
    yield "".join(map(chr, scalars))
    for length in (1, 2, 3):
        yield from map("".join, itertools.product(_PROBE_CHARACTERS, repeat=length))


class MinbpeTokenizer:
    """A minbpe model; its encoder's time grows with the text, however long a chunk is."""

    def __init__(self, model: Model, options: MinbpeOptions) -> None:
        self._merges = model.merges
        self._splitter = Splitter(model.pattern) if model.pattern else None
        self._finders = Finders(model.special_tokens)
        self._bytes_of = _token_bytes(model)
        # A cache of this tokenizer alone; lru_cache is safe under threads, and a chunk that
        # two of them miss at once has the same ids both times.
        self._cached_chunk = functools.lru_cache(_CACHED_CHUNKS)(self._encode_chunk)
        self.controls: Mapping[str, int] = model.special_tokens
        self.frame = options.template.frame(self.controls) if options.template else Frame((), ())
        split = {"type": "Split", "pattern": model.pattern} if model.pattern else None
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
        if self._splitter is None:
            return merge_pairs(text.encode(), self._merges)
        ids: list[int] = []
        for chunk in self._splitter.chunks(text):
            short = len(chunk) <= _CACHED_CHARACTERS
            ids += self._cached_chunk(chunk) if short else self._encode_chunk(chunk)
        return ids

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        return tuple(merge_pairs(chunk.encode(), self._merges))

    def encode_special(self, text: str) -> list[int]:
        """Content ids, every special token recognised."""
        return self.encode_spans(text, self.find_controls(text, None))

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids, the special tokens at `spans` recognised."""
        return encode_stretches(text, spans, self.encode, self.controls.__getitem__)

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The special tokens' spellings in `text`."""
        return self._finders.find(text, allowed)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, joined. Raises InvalidTokenId."""
        return b"".join(self.byte_parts(ids))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each id. Raises InvalidTokenId."""
        return checked_parts(ids, self._bytes_of.__getitem__)

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every byte, merge and special token."""
        return dict(self._bytes_of)


def _token_bytes(model: Model) -> dict[int, bytes]:
    """Each id's bytes. Raises FormatError when they don't fit the bound."""
    tokens = {byte: bytes([byte]) for byte in range(_BYTES)}
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


def _refuse(line: int, reason: str) -> NoReturn:
    raise FormatError(f"line {line}: {reason}", role="model") from None


def parse_model(data: bytes) -> Model:
    """What a `.model` file says. Raises FormatError for anything but a whole, unambiguous one.

    Stricter than minbpe's loader, which forgives what its writer never writes. A file that is
    cut between two merges can't be told from a smaller model: the lock's hash tells that.
    """
    lines = _lines(data)
    if lines[0] != _HEADER:
        _refuse(1, f"expected {_HEADER!r}")
    if len(lines) < 3:  # noqa: PLR2004 - header, pattern, number of special tokens
        _refuse(len(lines), "the file ends before the number of special tokens")
    pattern = lines[1]
    if pattern != pattern.strip():
        _refuse(2, "blanks around the pattern; minbpe's loader would drop them")
    specials = _number(lines[2], 3)
    if len(lines) < 3 + specials:
        _refuse(len(lines), f"the file ends before all {specials} special tokens are named")
    special_tokens = _special_tokens(lines[3 : 3 + specials])
    merges = _merges(lines[3 + specials :], first_line=4 + specials)
    for line, (spelling, token_id) in enumerate(special_tokens.items(), start=4):
        if token_id < _BYTES + len(merges):
            _refuse(line, f"special token {spelling!r} has the id of an ordinary token")
    return Model(pattern, special_tokens, merges)


def _lines(data: bytes) -> list[str]:
    """The lines without their ends, LF or CR LF as minbpe reads them."""
    if data.startswith(b"version https://git-lfs"):
        _refuse(1, "a Git LFS pointer, not the file it stands for")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _refuse(data.count(b"\n", 0, error.start) + 1, "not UTF-8")
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        _refuse(text.count("\n", 0, text.index("\r")) + 1, "a CR that no LF follows")
    if not text.endswith("\n"):
        _refuse(text.count("\n") + 1, "the file ends within a line")
    # Not splitlines(): U+2028 and its like are content of a pattern.
    return text[:-1].split("\n")


def _special_tokens(lines: Sequence[str]) -> dict[str, int]:
    """Spelling to id."""
    special_tokens: dict[str, int] = {}
    ids: set[int] = set()
    for number, line in enumerate(lines, start=4):
        spelling, token_id = _fields(line, number, "a special token without blanks and its id")
        if spelling in special_tokens:
            _refuse(number, f"special token {spelling!r} stands twice")
        special_tokens[spelling] = _number(token_id, number)
        if special_tokens[spelling] in ids:
            _refuse(number, f"id {token_id} stands for two special tokens")
        ids.add(special_tokens[spelling])
    try:
        check_no_prefix(special_tokens)
    except FormatError as error:
        raise FormatError(error.reason, role="model") from None  # it names both of the two
    return special_tokens


def _merges(lines: Sequence[str], *, first_line: int) -> dict[tuple[int, int], int]:
    """Pair of ids to the id that replaces it."""
    merges: dict[tuple[int, int], int] = {}
    for number, line in enumerate(lines, start=first_line):
        left, right = (_number(field, number) for field in _fields(line, number, "two ids"))
        new = _BYTES + len(merges)
        if max(left, right) >= new:
            _refuse(number, f"the merge that makes id {new} refers to id {max(left, right)}")
        if (left, right) in merges:
            _refuse(number, f"the pair {left} {right} stands twice")
        merges[left, right] = new
    return merges


def _fields(line: str, number: int, expected: str) -> tuple[str, str]:
    """The two fields of a line, one blank between."""
    fields = line.split()
    if len(fields) != 2 or " ".join(fields) != line:  # noqa: PLR2004 - the two that are returned
        _refuse(number, f"expected {expected}, one blank between")
    return fields[0], fields[1]


def _number(field: str, line: int) -> int:
    """A number as minbpe writes it; int() alone would take `1_0`, ` +7` and other digits."""
    if not _NUMBER.fullmatch(field) or int(field) > _MAX_ID:
        _refuse(line, f"expected an integer from 0 to {_MAX_ID}")
    return int(field)


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
