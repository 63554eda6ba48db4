"""Bytes to text, as /decode does it, beside a decoder written from the standard's table.

The service asks CPython's decoder. The oracle here is the table of well-formed sequences (Unicode
16, table 3-7) and the rule of maximal subparts (section 3.9), and CPython's decoder beside it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, cast

from fuzz.harness import Harness
from service.core.alignment import Sizes
from service.core.pieces import cut_parts, hold_back, pieces_of
from service.core.policy import DecodeMode
from service.core.utf8 import is_utf8, read_utf8
from service.errors import InvalidUtf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.core.tokenizer import Tokenizer

_CONTINUATION = range(0x80, 0xC0)
_SECOND = {0xE0: range(0xA0, 0xC0), 0xED: range(0x80, 0xA0)} | {
    0xF0: range(0x90, 0xC0),
    0xF4: range(0x80, 0x90),
}
_LENGTHS = (
    (range(0x80), 1),
    (range(0xC2, 0xE0), 2),
    (range(0xE0, 0xF0), 3),
    (range(0xF0, 0xF5), 4),
)


class Fault(NamedTuple):
    """An ill-formed part."""

    start: int
    end: int
    truncated: bool
    """Whether more bytes could have made it a character."""


def faults_of(data: bytes) -> list[Fault]:
    """Every maximal ill-formed part."""
    faults: list[Fault] = []
    at = 0
    while at < len(data):
        lead = data[at]
        length = next((size for leads, size in _LENGTHS if lead in leads), 0)
        end = at + 1
        while end < len(data) and end < at + length:
            allowed = _SECOND.get(lead, _CONTINUATION) if end == at + 1 else _CONTINUATION
            if data[end] not in allowed:
                break
            end += 1
        if end - at != length:
            faults.append(Fault(at, end, truncated=length > 0 and end == len(data)))
        at = end
    return faults


class _Apart:
    """Ids that are indexes of parts: as much of a Tokenizer as holding back needs."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts
        self.sizes = Sizes(range(len(parts)), parts) if parts else None

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        return [self._parts[token_id] for token_id in ids]


class DecodeHarness(Harness):
    """`read_utf8`, and the cutting of streams, on parts of any bytes."""

    name = "utf8"
    dictionary = (
        *(b"\xef\xbf\xbd", b"\xed\xa0\x80", b"\xf0\x9f\x99\x82", b"\xc0\x80", b"\xf4\x90\x80\x80"),
        *(b"\xe0\x80", b"\xf0\x80", b"\xef\xbb\xbf", b"\xe2\x82", b"\xf0\x9f\x99", b"\xc2\x85"),
    )

    def run(self, data: bytes) -> bool:
        """See Harness. A byte says how many parts there are, as many their sizes; then the bytes.

        The last part is what the sizes leave.
        """
        if not data:
            return False
        number = data[0] % 16
        sizes, joined = data[1 : number + 1], data[number + 1 :]
        ends = [*itertools.accumulate(size % 8 for size in sizes)]
        parts = [joined[start:end] for start, end in itertools.pairwise((0, *ends))]
        parts.append(joined[(ends or [0])[-1] :])
        ids = list(range(len(parts)))
        faults = faults_of(joined)
        self._check_strict(parts, faults)
        text, replacements = read_utf8(joined, DecodeMode.REPLACE, ids, lambda: parts)
        assert text == joined.decode(errors="replace") == _replaced(joined, faults)
        assert replacements == len(faults)
        assert is_utf8(joined) is not bool(faults)
        assert "".join(pieces_of(parts, DecodeMode.REPLACE)) == text
        self._check_stream(parts, text)
        return not faults

    def _check_strict(self, parts: Sequence[bytes], faults: Sequence[Fault]) -> None:
        joined = b"".join(parts)
        ids = [7 * index for index in range(len(parts))]
        try:
            text, replacements = read_utf8(joined, DecodeMode.STRICT, ids, lambda: parts)
        except InvalidUtf8 as error:
            refused = error.members
        else:
            assert not faults, "ill-formed bytes were read"
            assert text.encode() == joined
            assert replacements == 0
            return
        first = faults[0]
        ends = [*itertools.accumulate(map(len, parts))]
        index = next(index for index, end in enumerate(ends) if end > first.start)
        assert refused == {
            "byte_offset": first.start,
            "index": index,
            "id": ids[index],
            "reason": "truncated" if first.truncated else "malformed",
        }

    def _check_stream(self, parts: Sequence[bytes], whole: str) -> None:
        """Sent in two slices, the ids held back sent again, the text is that of one decode."""
        tokenizer = cast("Tokenizer", _Apart(parts))
        for cut in range(len(parts) + 1):
            ids = list(range(cut))
            held = hold_back(tokenizer, ids, parts[:cut])
            assert 0 <= held.pending_ids <= cut
            ready = b"".join(cut_parts(parts[:cut], held.ready_bytes))
            assert len(ready) == held.ready_bytes
            rest = b"".join(parts[cut - held.pending_ids :])
            assert ready + rest == b"".join(parts)
            assert ready.decode(errors="replace") + rest.decode(errors="replace") == whole


def _replaced(data: bytes, faults: Sequence[Fault]) -> str:
    pieces: list[str] = []
    at = 0
    for fault in faults:
        pieces += (data[at : fault.start].decode(), "\ufffd")
        at = fault.end
    return "".join((*pieces, data[at:].decode()))
