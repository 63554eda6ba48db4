"""service.core.pieces: what becomes readable with each id, and what a stream holds back."""

from __future__ import annotations

import codecs
import itertools
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.pieces import Held, cut_parts, hold_back, pieces_of
from service.core.policy import DecodeMode
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.core.tokenizer import Tokenizer

PARTS = st.lists(
    st.one_of(
        st.binary(max_size=3),
        st.sampled_from(
            [b"", b"a", b" b", b"\xf0\x9f", b"\x8e", b"\x89", b"\xef\xbf\xbd", b"\xe2"]
        ),
        st.characters(codec="utf-8").map(str.encode),
    ),
    max_size=10,
)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# ---- pieces ------------------------------------------------------------------------------------


@property_settings(600)
@given(PARTS)
def test_pieces_joined_are_the_text(parts: list[bytes]) -> None:
    joined = b"".join(parts)
    replaced = pieces_of(parts, DecodeMode.REPLACE)
    assert "".join(replaced) == joined.decode(errors="replace")
    assert len(replaced) == len(parts)
    if is_utf8(joined):
        assert pieces_of(parts, DecodeMode.STRICT) == replaced


@property_settings(400)
@given(st.text(st.sampled_from("a\u00e9\u20ac\U0001f389"), max_size=6), st.data())
def test_a_piece_is_what_is_whole_by_then(text: str, data: st.DataObject) -> None:
    joined = text.encode()
    places = data.draw(st.lists(st.integers(0, len(joined)), max_size=8))
    edges = sorted({0, *places, len(joined)})
    parts = [joined[start:end] for start, end in itertools.pairwise(edges)]
    pieces = pieces_of(parts, DecodeMode.STRICT)
    for number in range(len(parts) + 1):
        so_far = b"".join(parts[:number]).decode(errors="ignore")
        assert "".join(pieces[:number]) == so_far


def test_the_last_piece_has_the_sign_for_what_is_cut() -> None:
    assert pieces_of([b"a", b"\xf0\x9f", b"\x8e"], DecodeMode.REPLACE) == ["a", "", "\ufffd"]
    assert pieces_of([b"\xf0\x9f", b"b"], DecodeMode.REPLACE) == ["", "\ufffdb"]
    assert pieces_of([], DecodeMode.REPLACE) == []
    assert pieces_of([b""], DecodeMode.STRICT) == [""]


def test_strict_pieces_replace_nothing() -> None:
    """Whoever asks has looked before; if not, no sign may hide it."""
    for parts in ([b"a", b"\xff"], [b"\xf0\x9f"]):
        with pytest.raises(UnicodeDecodeError):
            pieces_of(parts, DecodeMode.STRICT)


@property_settings(200)
@given(PARTS, st.integers(0, 40))
def test_parts_cut_to_a_size(parts: list[bytes], size: int) -> None:
    cut = cut_parts(parts, size)
    assert len(cut) == len(parts)
    assert b"".join(cut) == b"".join(parts)[:size]
    assert all(part.startswith(short) for part, short in zip(parts, cut, strict=True))


# ---- what is held back --------------------------------------------------------------------------


def held(tokenizer: Tokenizer, ids: Sequence[int]) -> Held:
    return hold_back(tokenizer, ids, tokenizer.byte_parts(ids))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], (0, 0)),
        ([9906], (5, 0)),
        ([9906, 11410], (5, 1)),
        ([9906, 11410, 236], (5, 2)),
        ([9906, 11410, 236, 231], (10, 0)),
        ([9906, 11410, 9906], (13, 0)),
    ],
)
def test_bytes_wait_for_the_rest_of_a_character(
    ids: list[int], expected: tuple[int, int], tokenizer_of: Callable[[str], Tokenizer]
) -> None:
    """cl100k_base: `Hello`, then a blank and a party popper in three ids."""
    assert held(tokenizer_of("cl100k_base"), ids) == expected


STREAMS = {
    "bert-base-uncased": "tokenization, isn't it? hello-world",
    "mistral-7b-v0.3": "Hello  world \U0001f9ea\U0001f9ea \u2167 end",
    "t5-base": "Hello world, tokenization of this \u00fc",
    "clip-vit-large-patch14": "hello wonderful world \U0001f9ea\u2167",
    "gpt2": "Hello  world \U0001f9ea\U0001f9ea end",
    "minbpe-service": "Hello \U0001f389 world",
}


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_ready_never_changes_and_what_is_held_is_little(
    name: str, tokenizer_of: Callable[[str], Tokenizer]
) -> None:
    tokenizer = tokenizer_of(name)
    ids = tokenizer.encode(STREAMS[name])
    whole = tokenizer.decode_bytes(ids)
    for size in range(len(ids) + 1):
        parts = tokenizer.byte_parts(ids[:size])
        ready, pending = hold_back(tokenizer, ids[:size], parts)
        given_now = b"".join(parts)[:ready]
        assert whole.startswith(given_now)
        assert is_utf8(given_now)
        # The next slice begins with what was held, and goes on where this one ended.
        rest = tokenizer.decode_bytes(ids[size - pending :])
        assert given_now + rest == whole, size
        assert pending <= 8, size


class Together:
    """A tokenizer of which nobody said that its ids decode apart, although these do."""

    sizes = None

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        return [self._parts[token_id] for token_id in ids]


LONG_PARTS = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\x80" * 17, b"\xbf" * 20, b"\xf0\x9f" * 9, b"\xe2\x82\xac" * 6, b"\xc1"]
        ),
        st.sampled_from(
            [b"", b"a", b"\xf0", b"\x9f\x99", b"\x82", b"\xe2", b"\xed", b"\xa0", b"\xc3"]
        ),
    ),
    min_size=1,
    max_size=8,
)


def whole_at(data: bytes) -> bool:
    """Whether a decoder that began at the start waits for nothing."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return not decoder.getstate()[0]


@property_settings(2000)
@given(LONG_PARTS)
def test_what_decodes_the_same_from_a_place_on_is_held_from_there(parts: list[bytes]) -> None:
    """The last place that is in no character and has something after it."""
    joined = b"".join(parts)
    expected = Held(0, len(parts))
    for place in range(len(parts)):
        ready = len(b"".join(parts[:place]))
        if ready < len(joined) and whole_at(joined[:ready]):
            expected = Held(ready, len(parts) - place)
    tokenizer = cast("Tokenizer", Together(parts))
    assert hold_back(tokenizer, range(len(parts)), parts) == expected


def test_of_a_long_stream_the_end_alone_is_tried() -> None:
    """Else each slice of an endless run that is never whole would take quadratic time."""
    parts = [b"a", *[b""] * 300]
    tokenizer = cast("Tokenizer", Together(parts))
    assert hold_back(tokenizer, range(301), parts) == Held(0, 301)
    for empty, expected in ((255, Held(1, 256)), (256, Held(0, 258))):
        parts = [b"x", b"a", *[b""] * empty]
        tokenizer = cast("Tokenizer", Together(parts))
        assert hold_back(tokenizer, range(len(parts)), parts) == expected
