"""Reading rank files: the quick way gives what the slow one does, or leaves it to it."""

from __future__ import annotations

from base64 import b64encode

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.alignment import Unit
from service.errors import InvalidTokenId
from service.formats.tiktoken import (
    Ranks,
    TiktokenOptions,
    TiktokenTokenizer,
    _parse_by_line,
    _parse_quickly,
    build,
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


BYTES = {bytes([byte]): byte for byte in range(256)}


def _tokenizer(
    ranks: dict[bytes, int], pattern: str, special_tokens: dict[str, int]
) -> TiktokenTokenizer:
    options = TiktokenOptions(pattern=pattern, special_tokens=special_tokens)
    return TiktokenTokenizer(Ranks(ranks, pattern), options)


def test_a_tokenizer_keeps_no_second_copy_of_its_ranks() -> None:
    ranks = dict(BYTES)
    tokenizer = _tokenizer(ranks, r"\s+|\S+", {})
    assert not ranks
    assert tokenizer.decode_bytes(tokenizer.encode("a b")) == b"a b"
    assert len(tokenizer.vocabulary()) == 256


def test_of_many_special_tokens_those_in_the_text_are_recognised() -> None:
    special = {f"<{number:03}>": 300 + number for number in range(500)}
    tokenizer = _tokenizer(dict(BYTES), r".", special)
    assert tokenizer.encode_special("a<007>b<499><500>") == [
        *(97, 307, 98, 799),
        *b"<500>",
    ]
    assert tokenizer.encode("<007>") == list(b"<007>")


def test_artifacts_that_differ_in_special_tokens_alone_share_their_ranks() -> None:
    """And none of them knows the other's special tokens."""
    files = {
        "ranks": b"".join(b"%b %d\n" % (b64encode(byte), rank) for byte, rank in BYTES.items())
    }
    first, second = (
        build(files, TiktokenOptions(pattern=".", special_tokens=special))
        for special in ({"<a>": 256}, {"<b>": 256, "<c>": 258})
    )
    assert first._encoding is second._encoding
    assert first.encode_special("<a><b>") == [256, *b"<b>"]
    assert second.encode_special("<a><b>") == [*b"<a>", 256]
    assert (first.decode_bytes([256, 97]), second.decode_bytes([256, 97])) == (b"<a>a", b"<b>a")
    with pytest.raises(InvalidTokenId):
        first.decode_bytes([258])
    assert (len(first.vocabulary()), len(second.vocabulary())) == (257, 258)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["<|endoftext|>", "<|fim_prefix|>", "<|", "a", " ", "é", "😀"])))
def test_special_tokens_are_what_they_are_to_the_library(parts: list[str]) -> None:
    special = {"<|endoftext|>": 256, "<|fim_prefix|>": 300}
    library = tiktoken.Encoding(
        name="x", pat_str=r"\s+|\S+", mergeable_ranks=dict(BYTES), special_tokens=special
    )
    tokenizer = _tokenizer(dict(BYTES), r"\s+|\S+", special)
    text = "".join(parts)
    ids = library.encode(text, allowed_special="all")
    assert tokenizer.encode_special(text) == ids
    assert tokenizer.encode(text) == library.encode_ordinary(text)
    assert tokenizer.decode_bytes(ids) == library.decode_bytes(ids)
    assert tokenizer.byte_parts(ids) == library.decode_tokens_bytes(ids)


def test_the_sizes_of_ids_are_known_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for with a first request, they held the event loop for a quarter of a second."""

    def asked(_: TiktokenTokenizer) -> dict[int, bytes]:
        raise AssertionError

    monkeypatch.setattr(TiktokenTokenizer, "vocabulary", asked)
    for path in FILES:
        ranks = parse_ranks(path.read_bytes())
        lengths = {rank: len(token) for token, rank in ranks.items()}
        special = max(lengths) + 2  # and one that nothing has
        tokenizer = _tokenizer(ranks, r"\w+|\W+", {"<|é|>": special})
        assert tokenizer.sizes.of(lengths) == list(lengths.values())
        assert tokenizer.sizes.of([special]) == [6]
        assert tokenizer.align("Hello", []).offsets(Unit.BYTE)[0].start == 0
