"""Reading rank files: the quick way gives what the slow one does, or leaves it to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.alignment import Unit
from service.formats.tiktoken import (
    TiktokenOptions,
    TiktokenTokenizer,
    _parse_by_line,
    _parse_quickly,
    parse_ranks,
)
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
    "no token": b" 0\n",
    "nothing but a line": b"\n",
    "an empty line": b"IQ== 0\n\nIg== 1\n",
    "an exponent": b"IQ== 1e3\n",
    "a fraction": b"IQ== 1.0\n",
    "zeros in front": b"IQ== 007\n",
    "padding within": b"I=Q= 0\n",
    "no padding": b"IQ 0\n",
    "a quote": b'IQ==":0,"Ig== 1\n',
    "a backslash": b"\\u0049Q== 0\n",
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


_FIELDS = st.sampled_from([*"AIQg012789+/=", "IQ==", "Ig==", "SGk=", "e", " ", "\n", "-", '"', ":"])


@settings(max_examples=2000)
@given(st.lists(_FIELDS, max_size=14).map("".join))
def test_the_quick_way_reads_nothing_that_the_slow_way_refuses(text: str) -> None:
    data = text.encode()
    quickly = _parse_quickly(data)
    if quickly is not None:
        assert quickly == _parse_by_line(data)


def test_a_tokenizer_keeps_no_second_copy_of_its_ranks() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    tokenizer = TiktokenTokenizer(ranks, TiktokenOptions(pattern=r"\s+|\S+", special_tokens={}))
    assert not ranks
    assert tokenizer.decode_bytes(tokenizer.encode("a b")) == b"a b"
    assert len(tokenizer.vocabulary()) == 256


def test_of_many_special_tokens_those_in_the_text_are_recognised() -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    special = {f"<{number:03}>": 300 + number for number in range(500)}
    tokenizer = TiktokenTokenizer(ranks, TiktokenOptions(pattern=r".", special_tokens=special))
    assert tokenizer.encode_special("a<007>b<499><500>") == [
        *(97, 307, 98, 799),
        *b"<500>",
    ]
    assert tokenizer.encode("<007>") == list(b"<007>")


def test_the_sizes_of_ids_are_known_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for with a first request, they held the event loop for a quarter of a second."""

    def asked(_: TiktokenTokenizer) -> dict[int, bytes]:
        raise AssertionError

    monkeypatch.setattr(TiktokenTokenizer, "vocabulary", asked)
    for path in FILES:
        ranks = parse_ranks(path.read_bytes())
        lengths = {rank: len(token) for token, rank in ranks.items()}
        special = max(lengths) + 2  # and one that nothing has
        options = TiktokenOptions(pattern=r"\w+|\W+", special_tokens={"<|é|>": special})
        tokenizer = TiktokenTokenizer(ranks, options)
        assert tokenizer.sizes.of(lengths) == list(lengths.values())
        assert tokenizer.sizes.of([special]) == [6]
        assert tokenizer.align("Hello", []).offsets(Unit.BYTE)[0].start == 0
