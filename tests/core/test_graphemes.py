"""service.core.graphemes against one pass of the regex library over the whole text."""

from __future__ import annotations

import itertools
import random

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from service.core.graphemes import Graphemes
from tests.fuzzing import property_settings
from tests.mixed_texts import mixed_texts
from tests.slowly import GRAPHEME_LETTERS, cluster_edges, joining_texts

TEXTS = st.one_of(joining_texts(), joining_texts(), mixed_texts([], max_fragments=8))


def ends_of_clusters(text: str) -> list[int]:
    """For each code point, the end of its cluster."""
    return [end for found in regex.finditer(r"\X", text) for end in [found.end()] * len(found[0])]


def check(text: str, places: list[int]) -> None:
    """Ask about some places of a text, in this order."""
    graphemes = Graphemes(text)
    edges, ends = cluster_edges(text), ends_of_clusters(text)
    for place in places:
        assert graphemes.is_boundary(place) == (place in edges), (ascii(text), place)
        if place < len(text):
            assert graphemes.end_after(place) == ends[place], (ascii(text), place)


@property_settings(400)
@given(TEXTS, st.randoms(use_true_random=False))
def test_every_place_in_any_order(text: str, order: random.Random) -> None:
    places = list(range(len(text) + 1))
    check(text, places)
    check(text, places[::-1])
    order.shuffle(places)
    check(text, places)


@property_settings(400)
@given(TEXTS, st.integers(0, 400))
def test_one_question_alone(text: str, place: int) -> None:
    """Nothing was seen before it, so nothing can have been remembered."""
    check(text, [place % (len(text) + 1)])


@pytest.mark.parametrize("letters", GRAPHEME_LETTERS, ids=ascii)
def test_every_short_text_of_one_alphabet(letters: str) -> None:
    for length in (1, 2, 3):
        for letters_drawn in itertools.product(letters[:6], repeat=length):
            text = "".join(letters_drawn)
            check(text, list(range(len(text) + 1)))


LONG = {
    "flags": "\U0001f1e9" * 1001,
    "flags after a letter": "a" + "\U0001f1e9" * 1000,
    "one cluster of marks": "a" + "\u0301" * 3000 + "b",
    "clusters of marks": ("a" + "\u0301" * 300) * 20,
    "leading Hangul": "\u1100" * 3000,
    "Hangul syllables": "\uac00\u11a8" * 800,
    "joined pictures": "\U0001f469\u200d" * 700 + "\U0001f469",
    "prepended marks": "\u0600" * 1000 + "a",
    "virama chains": "\u0915\u094d" * 900 + "\u0915",
    "line ends": "\r\n" * 700 + "\r\r\n\n",
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_without_a_sure_boundary(name: str) -> None:
    text = LONG[name]
    order = random.Random(7)  # noqa: S311 - the same questions at every run
    some = [order.randrange(len(text) + 1) for _ in range(300)]
    check(text, [len(text) - 1, 0, *some, *range(0, len(text), 97)])


def test_the_ends_of_a_text() -> None:
    for text in ("", "a", "\u0301", "\r\n", "\U0001f1e9\U0001f1ea"):
        graphemes = Graphemes(text)
        assert graphemes.is_boundary(0)
        assert graphemes.is_boundary(len(text))
    assert not Graphemes("\r\n").is_boundary(1)
    assert Graphemes("\n\r").is_boundary(1)


# ---- work --------------------------------------------------------------------------------------


class Watched(Graphemes):
    """Notes how many clusters it has looked for, and how far."""

    found = 0

    def _end_of_cluster(self, start: int) -> int:
        self.found += 1
        return super()._end_of_cluster(start)


def test_a_question_is_answered_from_its_neighbourhood() -> None:
    text = "\u00e9" * 10_000
    graphemes = Watched(text)
    for place in (9_999, 5_000, 5_001, 1):
        assert graphemes.is_boundary(place)
        assert graphemes.end_after(place) == place + 1, "this one is remembered"
    assert graphemes.found == 4
    assert graphemes._marks == [0], "short walks are not worth remembering"


@pytest.mark.parametrize("head", ["", "ab"])
def test_a_text_without_sure_boundaries_is_walked_once(head: str) -> None:
    """From then on a question costs the 32 clusters since a mark at most, in any order."""
    clusters = 3_000
    text = head + "\U0001f1e9\U0001f1ea" * clusters
    graphemes = Watched(text)
    assert not graphemes.is_boundary(len(text) - 1)
    assert graphemes.found <= clusters + 2
    graphemes.found = 0
    places = [*range(len(head), len(text), 97), *range(len(text) - 1, len(head), -97)]
    for place in places:
        assert graphemes.is_boundary(place) is ((place - len(head)) % 2 == 0)
    assert graphemes.found <= 32 * len(places)
