"""service.core.boundaries against the rules of docs/budgets.md, each said slowly."""

from __future__ import annotations

import itertools

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from service.core import boundaries
from service.core.boundaries import BOUNDARY_VERSION, cuts_before, words_from
from tests.fuzzing import property_settings

LINE_ENDS = "\n\r\v\f\x85\u2028\u2029"
CLOSERS = ")]}\u300d\u201d\u2019"
TRIES = 3
SEEN = boundaries._LOOK_AHEAD
"""How many characters after the window a rule may see."""


def ends_paragraph(text: str, brim: int, place: int) -> bool:
    """After a blank line, and no further one follows that can be seen."""
    seen = text[place : brim + SEEN]
    before = regex.search(r"\n[^\S\n]*\n\Z", text[:place])
    return bool(before) and not regex.match(r"[^\S\n]*\n", seen)


def ends_line(text: str, _: int, place: int) -> bool:
    return text[place - 1] in LINE_ENDS and text[place - 1 : place + 1] != "\r\n"


def ends_sentence(text: str, brim: int, place: int) -> bool:
    head, following = text[:place], text[place : brim + SEEN][:1]
    stop = regex.search(r"""[.!?\u2026][\p{Pe}\p{Pf}"']*\s+\Z""", head)
    if stop and following and not following.isspace() and not regex.match(r"\p{Ll}", following):
        return True
    wide = regex.search(r"[\u3002\uff01\uff1f\uff61][\p{Pe}\p{Pf}]*\Z", head)
    return bool(wide) and following not in tuple(CLOSERS)


def begins_word(text: str, _: int, place: int) -> bool:
    following = text[place : place + 1]
    return text[place - 1].isspace() and bool(following) and not following.isspace()


RULES = (ends_paragraph, ends_line, ends_sentence, begins_word)
"""From the highest. What makes a boundary may stand before the window; the cut is in it."""


WINDOWS = st.tuples(
    st.lists(
        st.sampled_from(["a", "B", " ", " ", "\n", "\r\n", ".", "\u3002", ")", '"', "\u2028"]),
        max_size=40,
    ).map("".join),
    st.integers(0, 60),
    st.integers(0, 60),
)


@property_settings(800)
@given(WINDOWS)
def test_cuts_come_by_level_and_from_the_brim(window: tuple[str, int, int]) -> None:
    text, one, other = window
    middle, brim = sorted((one % (len(text) + 1), other % (len(text) + 1)))
    cuts = list(cuts_before(text, middle, brim))
    assert all(middle < cut <= brim for cut in cuts)
    expected: list[int] = []
    for rule in RULES:
        holding = [p for p in range(brim, middle, -1) if rule(text, brim, p)]
        expected += holding[:TRIES]
    assert cuts[: len(expected)] == expected, (ascii(text), middle, brim)
    assert len(cuts) <= len(expected) + TRIES


@property_settings(300)
@given(WINDOWS)
def test_what_is_far_after_the_window_does_not_matter(window: tuple[str, int, int]) -> None:
    text, one, other = window
    middle, brim = sorted((one % (len(text) + 1), other % (len(text) + 1)))
    if brim + SEEN < len(text):
        changed = text[: brim + SEEN] + "\n\nZ. Z \u3002" * 3
        assert list(cuts_before(changed, middle, brim)) == list(cuts_before(text, middle, brim))


@pytest.mark.parametrize("seen", ["", " ", "  "])
def test_a_blank_line_goes_on_where_that_can_be_seen(seen: str) -> None:
    """Two characters after the window at most: the third may be the end of a blank line."""
    text = f"a\n\nbc\n\n{seen}\nd"
    sees_it = len(seen) < 2
    assert next(iter(cuts_before(text, 0, 7))) == (3 if sees_it else 7)


EXAMPLES = [
    ("One two.\n\nThree four five", ["One two.\n\n"]),
    ("One two.\n \t\n\n  Three four", ["One two.\n \t\n\n"]),
    ("One two\nThree four", ["One two\n"]),
    ("One two\r\nThree four", ["One two\r\n"]),
    ("One two. Three four", ["One two. "]),
    ('"One two!" Three four', ['"One two!" ']),
    ("One (two?)  Three four", ["One (two?)  "]),
    ("\u4e00\u4e8c\u3002\u4e09\u56db", ["\u4e00\u4e8c\u3002"]),
    ("\u300c\u4e00\u4e8c\u3002\u300d\u4e09\u56db", ["\u300c\u4e00\u4e8c\u3002\u300d"]),
    ("see e.g. this one", ["see e.g. this "]),
    ("one two three", ["one two "]),
]
"""A text, and where it is cut first when all of it is the window."""


@pytest.mark.parametrize(("text", "kept"), EXAMPLES, ids=lambda value: ascii(value)[:20])
def test_examples(text: str, kept: list[str]) -> None:
    first = next(iter(cuts_before(text, 0, len(text) - 1)))
    assert [text[:first]] == kept


@pytest.mark.parametrize("end", [*LINE_ENDS, "\r\n"], ids=ascii)
def test_every_line_end(end: str) -> None:
    assert next(iter(cuts_before(f"a b{end}c d", 0, 6))) == len(f"a b{end}")


@pytest.mark.parametrize("closer", ["", *CLOSERS, '"', "'"], ids=ascii)
def test_every_end_of_a_sentence(closer: str) -> None:
    for stop in ".!?\u2026":
        head = f"A b{stop}{closer} "
        assert next(iter(cuts_before(f"{head}C d e f", 0, len(head) + 5))) == len(head), stop
        assert next(iter(cuts_before(f"{head}c d e f", 0, len(head) + 5))) == len(head) + 4
    for stop in "\u3002\uff01\uff1f\uff61":
        closed = closer if closer in CLOSERS else ""
        head = f"A b{stop}{closed}"
        assert next(iter(cuts_before(f"{head}c d e f", 0, len(head) + 5))) == len(head), stop


@pytest.mark.parametrize("closer", CLOSERS, ids=ascii)
def test_a_mark_that_closes_a_sentence_stays_with_it(closer: str) -> None:
    """It may stand right after the window, where a rule sees it."""
    for before in ("", closer):
        head = f"A. b\u3002{before}"
        assert next(iter(cuts_before(f"{head}{closer}c", 0, len(head)))) == len("A. ")
        assert next(iter(cuts_before(f"{head}c", 0, len(head)))) == len(head)


LIMITS = {
    "blanks in a blank line": (64, "a\n\n", "b\n", " ", "\n", "c"),
    "marks after a sentence": (8, "A. ", "B.", ")", " ", "C"),
    "blanks after a sentence": (16, "A. ", "B.", " ", "", "C"),
    "marks after a wide stop": (8, "A. ", "\u4e00\u3002", "\u300d", "", "\u4e00"),
}
"""How many of the third string may stand between the others, so that the text is cut before the
last; where there is one more, it is cut after the first."""


@pytest.mark.parametrize("name", LIMITS)
def test_how_far_a_rule_looks_back(name: str) -> None:
    most, first, second, repeated, third, rest = LIMITS[name]
    fitting = first + second + repeated * most + third
    assert next(iter(cuts_before(fitting + rest, 0, len(fitting)))) == len(fitting)
    beyond = first + second + repeated * (most + 1) + third
    assert next(iter(cuts_before(beyond + rest, 0, len(beyond)))) == len(first)


def test_how_far_a_rule_looks_for_another_blank_line() -> None:
    """The place after the first one is a paragraph's end where the second is too far off."""
    for blanks, first_two in ((64, [68, 68]), (65, [3, 69])):
        text = "a\n\n" + " " * blanks + "\nb"
        assert list(cuts_before(text, 0, len(text) - 1))[:2] == first_two, blanks


@pytest.mark.parametrize("text", ["can't", "3.14", "1,000", "a.b"])
def test_what_a_reader_takes_for_one_word_is_cut_at_no_boundary(text: str) -> None:
    """UAX #29 looks at two characters after an apostrophe or a point (WB6, WB12)."""
    whole = {found.start() for found in regex.finditer(r"(?w)\b", text)}
    for brim in range(1, len(text)):
        assert set(cuts_before(text, 0, brim)) <= whole, brim


def test_words_of_a_script_without_blanks() -> None:
    text = "\u30ab\u30bf\u30ab\u30ca\u6f22\u5b57"  # four letters of one script, two of another
    assert next(iter(cuts_before(text, 0, 5))) == 5  # between two ideographs
    assert next(iter(cuts_before(text, 0, 4))) == 4  # where the scripts meet
    assert list(cuts_before(text, 0, 3)) == []


def test_a_window_without_any_boundary() -> None:
    assert list(cuts_before("abcdefgh", 2, 6)) == []
    assert list(cuts_before("", 0, 0)) == []
    assert list(cuts_before("a b", 2, 2)) == []


@property_settings(200)
@given(WINDOWS)
def test_the_first_word_of_a_stretch(window: tuple[str, int, int]) -> None:
    text, one, other = window
    start, end = sorted((one % (len(text) + 1), other % (len(text) + 1)))
    words = [
        place
        for place in range(max(start, 1), end)
        if text[place - 1].isspace() and not text[place].isspace()
    ]
    assert words_from(text, start, end) == (words[0] if words else start)


RUNS = [
    ")",
    "\u300d",
    '"',
    "'",
    ".",
    "\u3002",
    " ",
    "\n",
    "\n ",
    " \n",
    "\r\n",
    ". ",
    ") ",
    "a ",
    "a.",
    "a",
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("run", RUNS, ids=ascii)
def test_the_work_grows_with_the_window_alone(run: str) -> None:
    """Else a text of one character, and a large budget, would keep a worker for hours."""
    text = run * (1_000_000 // len(run)) + "x"
    cuts = list(cuts_before(text, 0, len(text) - 1))
    assert all(0 < cut < len(text) for cut in cuts)


@pytest.mark.timeout(10)
def test_a_window_late_in_a_long_text_costs_what_an_early_one_does() -> None:
    """Else cutting a text without any boundary would take the square of its length."""
    text = "a" * 2_000_000
    for place in (0, 1_000_000, len(text) - 20):
        for _ in range(500):
            assert list(cuts_before(text, place, place + 10)) == []


PINNED = {
    "1": "0:7 7:16 16:26 26:38 38:45 45:52 52:60",
}
"""What each version makes of a text: another answer needs another version."""

PINNED_TEXT = 'Aa b.\n\n"Cc dd?" Ee f.g Hh\u3002ii jj\nkk ll mm nn\r\noo pp. Qq rr\u2028ss'


def test_the_version_moves_with_the_rules() -> None:
    cuts = [0]
    while cuts[-1] < len(PINNED_TEXT):
        start = cuts[-1]
        brim = min(start + 12, len(PINNED_TEXT))
        fitting = cuts_before(PINNED_TEXT, start + (brim - start) // 2, brim)
        cuts.append(next(fitting, brim) if brim < len(PINNED_TEXT) else brim)
    shown = " ".join(f"{start}:{end}" for start, end in itertools.pairwise(cuts))
    assert shown == PINNED[BOUNDARY_VERSION]
