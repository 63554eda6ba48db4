"""Reading rank files: the quick way gives what the slow one does, or leaves it to it."""

from __future__ import annotations

import pytest

from service.formats.tiktoken import _parse_by_line, _parse_quickly, parse_ranks
from tests.locks import EMBEDDED

FILES = sorted(EMBEDDED.glob("*/*.tiktoken"))

UNUSUAL = {
    "nothing": b"",
    "line ends of two": b"IQ== 0\r\nIg== 1\r\n",
    "two blanks": b"IQ==  0\n",
    "a field more": b"IQ== 0 1\n",
    "fields that make pairs over lines": b"IQ==\n0 Ig== 1\n",
    "a sign": b"IQ== -1\n",
    "many digits": b"IQ== 4294967296\n",
    "no number": b"IQ== x\n",
    "no base64": b"I!== 0\n",
    "a token twice": b"IQ== 0\nIQ== 1\n",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_quick_way_reads_the_embedded_files(path: object) -> None:
    data = EMBEDDED.joinpath(str(path)).read_bytes()
    quickly = _parse_quickly(data)
    assert quickly is not None
    assert quickly == _parse_by_line(data) == parse_ranks(data)


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_the_slow_way(name: str) -> None:
    assert not _parse_quickly(UNUSUAL[name])
