"""service.core.segments: where a control spelling counts, by hand-made examples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest

from service.core.policy import SpecialPolicy
from service.core.segments import Segment, join, recognised
from service.core.tokenizer import ControlSpan
from service.errors import SpecialTokenInText
from tests.recognised import made

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.core.tokenizer import Tokenizer

END = "<|endoftext|>"
LITERAL, SPECIAL, REJECT = SpecialPolicy.LITERAL, SpecialPolicy.SPECIAL, SpecialPolicy.REJECT

Parts = list[tuple[str, SpecialPolicy]]


@pytest.fixture(scope="module")
def cl100k(tokenizer_of: Callable[[str], Tokenizer]) -> Tokenizer:
    return tokenizer_of("cl100k_base")


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Added tokens that look at their neighbours."""
    return made("addedflags", tmp_path_factory.mktemp("made"))


def spans(
    tokenizer: Tokenizer, parts: Parts, allowed: frozenset[str] | None = None
) -> list[ControlSpan]:
    segments = [Segment(text, policy) for text, policy in parts]
    pointers = [f"/segments/{number}/text" for number in range(len(parts))]
    return recognised(tokenizer, segments, allowed, pointers)


def test_segments_are_one_text() -> None:
    assert join([]) == ""
    assert join([Segment("a ", LITERAL), Segment("", SPECIAL), Segment(" b", REJECT)]) == "a  b"


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        ([(END, SPECIAL)], [0]),
        ([(END, LITERAL)], []),
        ([("a", LITERAL), (END, SPECIAL)], [1]),
        ([(f"a{END}", LITERAL), (f"b{END}c{END}", SPECIAL)], [15, 29]),
        ([(f"{END}", SPECIAL), (f"{END}", SPECIAL), ("", SPECIAL)], [0, 13]),
        ([(END[:5], SPECIAL), (END[5:], SPECIAL)], []),
        ([(END[:5], SPECIAL), (END[5:] + END, SPECIAL)], [13]),
        ([(END[:-1], SPECIAL), (END[-1:], LITERAL)], []),
        ([("<|", LITERAL), (END, SPECIAL), ("|>", LITERAL)], [2]),
        ([("\U0001f389", LITERAL), (f"\u00e9{END}", SPECIAL)], [2]),
        ([], []),
        ([("", SPECIAL)], []),
    ],
)
def test_a_spelling_counts_wholly_inside_a_trusted_segment(
    cl100k: Tokenizer, parts: Parts, places: list[int]
) -> None:
    expected = [ControlSpan(place, place + len(END), END) for place in places]
    assert spans(cl100k, parts) == expected


def test_allowed_narrows_what_is_trusted(cl100k: Tokenizer) -> None:
    parts = [(f"{END}<|fim_prefix|>", SPECIAL)]
    only = frozenset({"<|fim_prefix|>"})
    assert spans(cl100k, parts, only) == [ControlSpan(13, 27, "<|fim_prefix|>")]
    assert spans(cl100k, parts, frozenset()) == []


def test_a_refusal_names_the_segment_and_the_place_in_it(cl100k: Tokenizer) -> None:
    parts: Parts = [(END, LITERAL), (END, SPECIAL), (f"\u00e9\U0001f389{END}", REJECT)]
    with pytest.raises(SpecialTokenInText) as refused:
        spans(cl100k, parts)
    assert refused.value.members == {"token": END, "offset": 2, "pointer": "/segments/2/text"}


def test_a_spelling_across_the_border_of_a_refusing_segment_is_none(cl100k: Tokenizer) -> None:
    assert spans(cl100k, [(END[:6], LITERAL), (END[6:], REJECT)]) == []
    assert spans(cl100k, [(END[:6], REJECT), (END[6:], REJECT)]) == []


def test_refusing_ignores_what_is_allowed(cl100k: Tokenizer) -> None:
    """`allowed_special` says what `special` recognises; it lets nothing through `reject`."""
    with pytest.raises(SpecialTokenInText):
        spans(cl100k, [("<|fim_prefix|>", REJECT)], frozenset({END}))


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [("", "", True), (" ", " ", True), ("x", "", True), ("", "1", True)],
)
def test_neighbours_do_not_matter_to_most_tokens(
    flags: Tokenizer, before: str, after: str, *, counts: bool
) -> None:
    found = spans(flags, [(before, LITERAL), ("[PLAIN]", SPECIAL), (after, LITERAL)])
    assert bool(found) is counts


def test_blanks_that_a_token_takes_along_are_no_part_of_its_spelling(flags: Tokenizer) -> None:
    """[MASK] takes the blanks on its left, [R] those on its right, untrusted ones, too."""
    parts: Parts = [("a  ", LITERAL), ("[MASK]", SPECIAL), (" [R]", SPECIAL), ("  a", LITERAL)]
    assert spans(flags, parts) == [ControlSpan(3, 9, "[MASK]"), ControlSpan(10, 13, "[R]")]
    text = "a  [MASK] [R]  a"
    ids = flags.encode_spans(text, spans(flags, parts))
    assert ids == flags.encode_special(text) == [3, 13, 14, 3]


def test_a_spelling_in_capitals_that_the_normalizer_makes_small(flags: Tokenizer) -> None:
    assert spans(flags, [("a YESTERDAY", SPECIAL)]) == [ControlSpan(2, 11, "Yesterday")]
    assert spans(flags, [("a YESTER", SPECIAL), ("DAY", SPECIAL)]) == []


# ---- borders, with a library whose rules are these few lines -------------------------------------


class Spotter:
    """Leftmost, then longest; `<w>` counts only where no letter is beside it."""

    SPELLINGS = ("<w>", "<w>q", "<a>", "<a>x", "y<a>", "<b>")

    def __init__(self, *more: str) -> None:
        self._pattern = re.compile(
            "|".join(
                rf"(?<!\w){spelling}(?!\w)" if spelling == "<w>" else re.escape(spelling)
                for spelling in sorted((*self.SPELLINGS, *more), key=len, reverse=True)
            )
        )

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        return [
            ControlSpan(*match.span(), match[0])
            for match in self._pattern.finditer(text)
            if allowed is None or match[0] in allowed
        ]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([(" ", LITERAL), ("<w>", SPECIAL), (" ", LITERAL)], ["<w>"]),
        ([("z", LITERAL), ("<w>", SPECIAL)], []),
        ([("<w>", SPECIAL), ("z", LITERAL)], []),
        ([("z ", LITERAL), ("<w>", SPECIAL), (" z", LITERAL)], ["<w>"]),
        ([("z", LITERAL), (" <w> ", SPECIAL), ("z", LITERAL)], ["<w>"]),
        # A letter beside one of them, and a segment of its own between.
        ([("z", LITERAL), ("<w><b> <w>", SPECIAL)], ["<b>", "<w>"]),
        ([("<w> <b><w>", SPECIAL), ("z", REJECT)], ["<w>", "<b>"]),
        # Hidden by a longer spelling that crosses the border, which counts nowhere.
        ([("<a>", SPECIAL), ("x", LITERAL)], ["<a>"]),
        ([("y", LITERAL), ("<a>", SPECIAL)], ["<a>"]),
        ([("<a>x", SPECIAL)], ["<a>x"]),
        ([("y", LITERAL), ("<a> <w>", SPECIAL), ("z", LITERAL)], ["<a>"]),
        ([("z", LITERAL), ("<w> <a>", SPECIAL), ("x", LITERAL)], ["<a>"]),
        ([("z", LITERAL), ("<w><a>", SPECIAL), ("x", LITERAL)], ["<a>"]),
        ([("y", LITERAL), ("<a><w>", SPECIAL), ("z", LITERAL)], ["<a>"]),
    ],
)
def test_what_stands_at_a_border(parts: Parts, found: list[str]) -> None:
    spotted = spans(cast("Tokenizer", Spotter()), parts)
    assert [span.spelling for span in spotted] == found
    text = "".join(part for part, _ in parts)
    assert all(text[start:end] == spelling for start, end, spelling in spotted)


def test_a_letter_at_the_border_of_a_refusing_segment() -> None:
    spotter = cast("Tokenizer", Spotter())
    assert spans(spotter, [("z", LITERAL), ("<w>", REJECT)]) == []
    with pytest.raises(SpecialTokenInText):
        spans(spotter, [("z ", LITERAL), ("<w>", REJECT)])


def test_a_spelling_that_is_not_allowed_hides_nothing_at_a_border() -> None:
    spotter = cast("Tokenizer", Spotter())
    parts: Parts = [("<w>", SPECIAL), ("q", LITERAL)]
    assert [span.spelling for span in spans(spotter, parts)] == ["<w>"]
    assert spans(spotter, parts, frozenset({"<w>"})) == [], "a letter is beside it"


@pytest.mark.parametrize(
    ("shorter", "parts"),
    [("<w", [("z", LITERAL), ("<w>", SPECIAL)]), ("w>", [("<w>", SPECIAL), ("z", LITERAL)])],
)
def test_a_shorter_spelling_inside_hides_nothing_at_a_border(shorter: str, parts: Parts) -> None:
    assert spans(cast("Tokenizer", Spotter(shorter)), parts) == []
