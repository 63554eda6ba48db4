"""Where exactly the pieces of a Traced come from when a separator looks like what is beside it.

tests/core/test_provenance.py asks for pieces in order; here each has one right place.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.core.chat_filters import traced_tojson
from service.core.provenance import ROLE, TEMPLATE, UNKNOWN, USER, Traced, own, writers_of
from tests.fuzzing import property_settings

TEXTS = st.text("ab", max_size=12)
SEPARATORS = st.text("ab", min_size=1, max_size=3)


def placed(text: str) -> Traced:
    """A text in which the "writer" of each character is its place."""
    return Traced(text, bytes(range(len(text))))


def check_places(pieces: list[str], starts: list[int]) -> None:
    found = [list(writers_of(piece)) for piece in pieces]
    places = zip(pieces, starts, strict=True)
    assert found == [list(range(start, start + len(piece))) for piece, start in places]


@property_settings(500)
@given(text=TEXTS, separator=SEPARATORS, count=st.integers(-1, 3))
@example(text="abb", separator="ab", count=-1)
def test_pieces_and_separators_make_up_the_text(text: str, separator: str, count: int) -> None:
    for traced, plain in (
        (placed(text).split(separator, count), text.split(separator, count)),
        (placed(text).rsplit(separator, count), text.rsplit(separator, count)),
    ):
        assert traced == plain
        assert separator.join(traced) == text
        ends = accumulate(len(piece) + len(separator) for piece in plain)
        check_places(traced, [0, *ends][:-1])


@property_settings(300)
@given(text=TEXTS, separator=SEPARATORS)
@example(text="aab", separator="ab")
def test_three_parts_make_up_the_text(text: str, separator: str) -> None:
    for traced in (placed(text).partition(separator), placed(text).rpartition(separator)):
        assert "".join(traced) == text
        check_places(list(traced), [0, len(traced[0]), len(traced[0]) + len(traced[1])])


@property_settings(500)
@given(text=TEXTS, old=SEPARATORS, new=st.text("abc", max_size=2), count=st.integers(-1, 3))
@example(text="aba", old="a", new="c", count=1)
def test_the_first_ones_are_replaced(text: str, old: str, new: str, count: int) -> None:
    result = placed(text).replace(old, Traced(new, b"\xff" * len(new)), count)
    assert result == text.replace(old, new, count)
    expected: list[int] = []
    place = 0
    while place < len(text):
        if count and text.startswith(old, place):
            expected += [0xFF] * len(new)
            place, count = place + len(old), count - 1
        else:
            expected.append(place)
            place += 1
    assert list(result.writers) == expected


@pytest.mark.parametrize(
    ("text", "new", "writer"),
    [
        (Traced("ab", USER * 2), Traced("-", USER), USER),
        (own("ab"), own("-"), TEMPLATE),
        (Traced("ab", USER * 2), own("-"), UNKNOWN),
        (own("ab"), Traced("-", USER), UNKNOWN),
        (own("ab"), "-", UNKNOWN),
        (Traced("ab", ROLE * 2), Traced("", b""), ROLE),
    ],
)
def test_what_is_put_between_all_characters(text: Traced, new: str, writer: bytes) -> None:
    result = text.replace("", new)
    assert result == str(text).replace("", str(new))
    assert result.writers == writer * len(result)


@pytest.mark.parametrize(
    ("value", "options", "writer"),
    [
        (Traced("a", USER), {"indent": own('"')}, UNKNOWN),
        (own("a"), {"indent": Traced('"', USER)}, UNKNOWN),
        (own("a"), {"indent": own('"')}, TEMPLATE),
        (Traced("a", USER), {"separators": (own('"'), own(":"))}, UNKNOWN),
        (own("a"), {"separators": (Traced('"', USER), own(":"))}, UNKNOWN),
        (own("a"), {"separators": (own('"'), own(":"))}, TEMPLATE),
    ],
)
def test_json_that_cannot_be_told_apart_is_of_whoever_wrote_all(
    value: Traced, options: dict[str, object], writer: bytes
) -> None:
    result = traced_tojson([value, value], **options)  # type: ignore[arg-type]
    assert set(result.writers) == set(writer)
