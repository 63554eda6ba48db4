"""service.core.utf8: bytes to text, the error's place in the ids, the replacements counted."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.decoding import faults_of
from service.core.policy import DecodeMode
from service.core.utf8 import is_utf8, read_utf8
from service.errors import InvalidUtf8
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = st.lists(
    st.one_of(
        st.binary(max_size=3),
        st.sampled_from([b"", b"\xf0\x9f", b"\x8e\x89", b"\xef\xbf\xbd", b"\xed\xa0", b"\xe2\x82"]),
        st.characters(codec="utf-8").map(str.encode),
    ),
    max_size=8,
)


def refusal(parts: Sequence[bytes], ids: Sequence[int]) -> dict[str, object]:
    with pytest.raises(InvalidUtf8) as caught:
        read_utf8(b"".join(parts), DecodeMode.STRICT, ids, lambda: parts)
    return caught.value.members


@property_settings(600)
@given(PARTS)
@example([b"a", b"", b"\xf0\x9f", b"\x99"])
def test_strict_is_the_table_of_the_standard(parts: list[bytes]) -> None:
    joined = b"".join(parts)
    faults = faults_of(joined)
    assert is_utf8(joined) is not bool(faults)
    ids = [100 + place for place in range(len(parts))]
    if not faults:
        text, replacements = read_utf8(joined, DecodeMode.STRICT, ids, lambda: parts)
        assert (text.encode(), replacements) == (joined, 0)
        return
    ends = itertools.accumulate(map(len, parts))
    index = next(place for place, end in enumerate(ends) if end > faults[0].start)
    assert refusal(parts, ids) == {
        "byte_offset": faults[0].start,
        "index": index,
        "id": ids[index],
        "reason": "truncated" if faults[0].truncated else "malformed",
    }


@property_settings(600)
@given(PARTS)
def test_replacements_are_counted_and_signs_that_the_ids_spell_are_none(parts: list[bytes]) -> None:
    joined = b"".join(parts)
    text, replacements = read_utf8(joined, DecodeMode.REPLACE, [], list)
    assert text == joined.decode(errors="replace")
    assert replacements == len(faults_of(joined))


def test_what_is_cut_and_what_is_wrong() -> None:
    ids = [7, 8, 9]
    cut = [b"a", b"\xe2", b"\x82"]
    wrong = [b"a", b"\xe2", b"b"]
    assert refusal(cut, ids)["reason"] == "truncated"
    assert refusal(wrong, ids)["reason"] == "malformed"
    assert refusal(cut, ids)["id"] == refusal(wrong, ids)["id"] == 8


def test_parts_are_asked_for_to_name_an_id_alone() -> None:
    def parts() -> list[bytes]:
        raise AssertionError

    assert read_utf8(b"a", DecodeMode.STRICT, [1], parts) == ("a", 0)
    assert read_utf8(b"\xff", DecodeMode.REPLACE, [1], parts) == ("\ufffd", 1)
