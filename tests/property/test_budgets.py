"""/truncate and /chunk over every artifact: what CONTRACT section 3 promises, on random texts.

Slices are counted again through /encode, and the longest beginning is looked for slowly.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.operations import Call
from service.api.operations.chunk import ChunkRequest, chunk
from service.api.operations.encode import EncodeRequest, encode
from service.api.operations.truncate import TruncateRequest, truncate
from service.core.alignment import Unit
from service.core.policy import SpecialPolicy
from service.errors import BudgetTooSmall, RequestError
from service.settings import Settings
from tests.fuzzing import property_settings
from tests.locks import EMBEDDED_LOCK
from tests.mixed_texts import mixed_texts, subsets
from tests.slowly import cluster_around, cluster_edges, in_unit, joining_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.catalog.catalog import Catalog

ARTIFACTS = sorted(EMBEDDED_LOCK)
EVERY_ARTIFACT = pytest.mark.parametrize("artifact", ARTIFACTS)
AT_ONCE = 4

PROSE = "The budget rose. Then it fell, 1234 times; and why not? " * 3
WORDS = [
    "naïve",
    " Straße",
    " привет",
    " 你好世界",
    " ภาษาไทย",
    " हिन्दी",
    " 👩‍🔬",
    "🇩🇪",
    "\n\n",
    " e\u0301",
]


class Asker:
    """Asks the operations about texts in one way."""

    def __init__(self, catalog: Catalog, artifact: str, asked: Mapping[str, Any]) -> None:
        self.tokenizer = catalog.resolve(artifact).tokenizer
        self._catalog = catalog
        self._asked = {"tokenizer": artifact, **asked}

    def _call(self) -> Call:
        return Call(self._catalog, Settings())

    def encode(self, text: str, **more: Any) -> Any:
        return encode(EncodeRequest(text=text, **self._asked, **more), self._call())

    def count(self, text: str) -> int:
        """The count of a text alone."""
        number: int = self.encode(text).count
        return number

    def truncate(self, text: str, max_tokens: int, **more: Any) -> Any:
        request = TruncateRequest(text=text, max_tokens=max_tokens, **self._asked, **more)
        return truncate(request, self._call())

    def chunk(self, text: str, max_tokens: int, **more: Any) -> Any:
        request = ChunkRequest(text=text, max_tokens=max_tokens, **self._asked, **more)
        return chunk(request, self._call())


class Case(NamedTuple):
    """Texts and a way to read them."""

    texts: list[str]
    asked: dict[str, Any]
    max_tokens: int


def cases_of(controls: Mapping[str, int]) -> st.SearchStrategy[Case]:
    text = st.one_of(
        mixed_texts(controls, max_fragments=10),
        joining_texts(40),
        st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
        st.integers(0, 60).map(lambda start: PROSE[start:]),
    )
    literal = st.just({"special_policy": SpecialPolicy.LITERAL})
    special = st.just({"special_policy": SpecialPolicy.SPECIAL})
    narrowed = subsets(controls).map(
        lambda some: {"special_policy": SpecialPolicy.SPECIAL, "allowed_special": sorted(some)}
    )
    asked = st.builds(
        lambda policy, framed: {**policy, "add_special_tokens": framed},
        st.one_of(literal, special, narrowed),
        st.booleans(),
    )
    texts = st.lists(text, min_size=AT_ONCE, max_size=AT_ONCE)
    return st.builds(Case, texts, asked, st.one_of(st.integers(1, 12), st.integers(1, 40)))


def refused(run: Callable[[], Any]) -> Any:
    """The answer, or the error that stands in its place."""
    try:
        return run()
    except RequestError as error:
        return error


# ---- truncate ----------------------------------------------------------------------------------


def runs_of(asker: Asker, text: str) -> list[tuple[int, int] | None]:
    """Start and end of each content id; None for one that shares a character with a neighbour."""
    encoded = asker.encode(text, offsets=Unit.CODEPOINT)
    return [pair for pair in encoded.offsets if pair is not None]


def check_truncated(asker: Asker, text: str, max_tokens: int, answer: Any, keep: str) -> None:
    edges = cluster_edges(text)
    start, end = answer.start, answer.end
    assert answer.text == text[start:end]
    assert asker.count(answer.text) == answer.count <= max_tokens
    assert answer.bytes == len(answer.text.encode())
    assert answer.truncated == (answer.text != text)
    assert {start, end} <= edges
    assert (start == 0) if keep == "start" else (end == len(text))
    if not answer.truncated:
        return
    assert asker.count(text) > max_tokens
    pairs = runs_of(asker, text)
    frame = asker.tokenizer.frame
    framed = asker.encode("").count == len(frame.before) + len(frame.after)
    budget = max_tokens - (len(frame.before) + len(frame.after) if framed else 0)
    longest = 0
    for size in range(1, min(budget, len(pairs)) + 1):
        inside = pairs[:size] if keep == "start" else pairs[-size:]
        outside = pairs[size:] if keep == "start" else pairs[:-size]
        if keep == "start":
            edge = max(stop for _, stop in inside)
            whole = all(first >= edge for first, _ in outside)
            kept = text[:edge]
        else:
            edge = min(first for first, _ in inside)
            whole = all(stop <= edge for _, stop in outside)
            kept = text[edge:]
        if whole and edge in edges and asker.count(kept) <= max_tokens:
            longest = max(longest, len(kept))
    assert len(answer.text) >= longest


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
@pytest.mark.parametrize("keep", ["start", "end"])
def test_truncate(artifact: str, keep: str, catalog: Catalog) -> None:
    controls = catalog.resolve(artifact).tokenizer.controls

    @property_settings(40)
    @given(cases_of(controls))
    def check(case: Case) -> None:
        asker = Asker(catalog, artifact, case.asked)
        template = asker.encode("").count
        for text in case.texts:
            answer = refused(lambda: asker.truncate(text, case.max_tokens, keep=keep))  # noqa: B023
            if template > case.max_tokens:
                assert isinstance(answer, BudgetTooSmall)
                continue
            check_truncated(asker, text, case.max_tokens, answer, keep)
            if keep == "start" and not answer.text and text:
                first = min(edge for edge in cluster_edges(text) if edge)
                assert asker.count(text[:first]) > case.max_tokens, ascii(text)

    check()


@pytest.mark.parametrize("artifact", ["bert-base-uncased", "clip-vit-large-patch14"])
def test_marks_that_the_normalizer_takes_do_not_stop_a_cut(artifact: str, catalog: Catalog) -> None:
    """No id ends where a decomposed letter does; a person would still call it one letter."""
    asker = Asker(catalog, artifact, {})
    text = "e\u0301 " * 10
    assert asker.truncate(text, 4).count == 4
    assert asker.truncate(text, 4, keep="end").count == 4
    chunks = asker.chunk(text, 4, boundary="token").chunks
    assert [part.count for part in chunks] == [4, 4, 2]


# ---- chunk -------------------------------------------------------------------------------------


def check_chunks(asker: Asker, text: str, max_tokens: int, overlap: int, answer: Any) -> None:
    edges = cluster_edges(text)
    template = asker.encode("").count
    assert answer.chunk_count == len(answer.chunks)
    assert answer.count == sum(part.count for part in answer.chunks)
    assert answer.bytes == len(text.encode())
    end = 0
    for part in answer.chunks:
        assert part.text == text[part.start : part.end]
        assert asker.count(part.text) == part.count <= max_tokens
        assert part.start <= end < part.end
        if part.start < end:
            shared = text[part.start : end]
            assert asker.count(shared) - template <= overlap, ascii(text)
        for place in {part.start, part.end} - edges:
            assert asker.count(cluster_around(text, place)) > max_tokens, ascii(text)
        end = part.end
    assert end == len(text)
    starts = [part.start for part in answer.chunks]
    assert starts == sorted(set(starts))
    if not overlap:
        assert "".join(part.text for part in answer.chunks) == text


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
@pytest.mark.parametrize("boundary", ["token", "auto"])
def test_chunk(artifact: str, boundary: str, catalog: Catalog) -> None:
    controls = catalog.resolve(artifact).tokenizer.controls

    @property_settings(40)
    @given(cases_of(controls), st.integers(0, 20))
    def check(case: Case, overlap: int) -> None:
        asker = Asker(catalog, artifact, case.asked)
        overlap = min(overlap, case.max_tokens // 2)
        for text in case.texts:
            answer = refused(
                lambda: asker.chunk(
                    text,  # noqa: B023
                    case.max_tokens,
                    overlap_tokens=overlap,
                    boundary=boundary,
                )
            )
            if isinstance(answer, BudgetTooSmall):
                worst = max(map(asker.count, text), default=0)
                template = asker.encode("").count
                assert max(worst, template + 1) > case.max_tokens, ascii(text)
                continue
            check_chunks(asker, text, case.max_tokens, overlap, answer)

    check()


@EVERY_ARTIFACT
def test_units_are_of_the_same_places(artifact: str, catalog: Catalog) -> None:
    controls = catalog.resolve(artifact).tokenizer.controls
    asker = Asker(catalog, artifact, {})

    @property_settings(15)
    @given(cases_of(controls), st.sampled_from([Unit.BYTE, Unit.UTF16]))
    def check(case: Case, unit: Unit) -> None:
        limit = case.max_tokens + 8
        for text in case.texts:
            same = asker.chunk(text, limit, overlap_tokens=4)
            other = asker.chunk(text, limit, overlap_tokens=4, unit=unit)
            assert [(part.start, part.end) for part in other.chunks] == [
                (in_unit(text, part.start, unit), in_unit(text, part.end, unit))
                for part in same.chunks
            ]
            assert [part.text for part in other.chunks] == [part.text for part in same.chunks]
            for keep in ("start", "end"):
                cut = asker.truncate(text, limit, keep=keep)
                answer = asker.truncate(text, limit, keep=keep, unit=unit)
                assert (answer.start, answer.end) == (
                    in_unit(text, cut.start, unit),
                    in_unit(text, cut.end, unit),
                )

    check()


# ---- auto --------------------------------------------------------------------------------------

PARAGRAPHS = st.lists(
    st.lists(
        st.lists(
            st.sampled_from(["one", "Two", "three", "Four", "five"]), min_size=1, max_size=9
        ).map(lambda words: " ".join(words).capitalize() + ". "),
        min_size=1,
        max_size=5,
    ).map(lambda sentences: "".join(sentences).strip()),
    min_size=1,
    max_size=6,
)
JOINTS = st.lists(st.sampled_from(["\n\n", "\n"]), min_size=5, max_size=5)

LEVELS = [re.compile(pattern) for pattern in (r"\n\n", r"\n", r"\. (?=[A-Z])", r" (?=\S)")]
"""The boundaries of these simple texts, from the highest; a cut is after each."""


def levels_of(text: str) -> list[int]:
    """For each place of a text, the highest level at which it may be cut there."""
    levels = [len(LEVELS)] * (len(text) + 1)
    for number, pattern in reversed(list(enumerate(LEVELS))):
        for found in pattern.finditer(text):
            levels[found.end()] = number
    return levels


@pytest.mark.parametrize(
    "artifact", ["cl100k_base", "bert-base-uncased", "mistral-7b-v0.3", "gpt2"]
)
def test_auto_takes_the_highest_boundary_in_the_last_half(artifact: str, catalog: Catalog) -> None:
    asker = Asker(catalog, artifact, {})
    seen: set[int] = set()

    @property_settings(60)
    @given(PARAGRAPHS, JOINTS, st.integers(6, 30))
    def check(paragraphs: list[str], joints: list[str], max_tokens: int) -> None:
        text = "".join(map("".join, itertools.zip_longest(paragraphs, joints, fillvalue="")))
        text = text.strip()
        pairs = runs_of(asker, text)
        levels = levels_of(text)
        for part in asker.chunk(text, max_tokens).chunks:
            if part.end == len(text):
                continue
            # What fits is judged by the ids of the whole text that begin in the chunk.
            inside = [stop for first, stop in pairs if first >= part.start]
            brim = inside[min(max_tokens, len(inside)) - 1]
            window = range(part.start + (brim - part.start) // 2 + 1, brim + 1)
            best = min(
                (
                    level
                    for place in window
                    if (level := levels[place]) < len(LEVELS)
                    and asker.count(text[part.start : place]) <= max_tokens
                ),
                default=len(LEVELS),
            )
            seen.add(best)
            assert levels[part.end] <= best, (text, part, best)

    check()
    assert seen >= {0, 1, 2, 3}


# ---- texts that take long where something is quadratic ------------------------------------------

SIZE = 200 * 1024
PATHOLOGICAL = {
    "one letter": "a" * SIZE,
    "blanks": " " * SIZE,
    "line ends": "\n" * SIZE,
    "carriage returns": "\r\n" * (SIZE // 2),
    "marks on one letter": "a" + "\u0301" * (SIZE // 2),
    "marks on letters": "a\u0301\u0301\u0301 " * (SIZE // 8),
    "flags": "\U0001f1e9\U0001f1ea" * (SIZE // 8),
    "joined pictures": "\U0001f469\u200d" * (SIZE // 7),
    "full stops": ". " * (SIZE // 2),
    "closing marks": '."' * (SIZE // 2),
    "Hangul": "\u1100" * (SIZE // 3),
}
SMALLER = {"cl100k_base": 1, "mistral-7b-v0.3": 8, "bert-base-uncased": 8}
"""By how much the texts are shorter: the search is the same, the other libraries are slower."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", PATHOLOGICAL)
@pytest.mark.parametrize("artifact", SMALLER)
def test_texts_without_a_place_to_cut(artifact: str, name: str, catalog: Catalog) -> None:
    """Nothing here may be quadratic: tests.core.test_budget counts the work."""
    text = PATHOLOGICAL[name]
    text = text[: len(text) // SMALLER[artifact]]
    asker = Asker(catalog, artifact, {})
    answer = asker.chunk(text, 256)
    assert "".join(part.text for part in answer.chunks) == text
    assert all(part.count <= 256 for part in answer.chunks)
    for part in (answer.chunks[0], answer.chunks[-1]):
        assert asker.count(part.text) == part.count
    for keep in ("start", "end"):
        kept = asker.truncate(text, 256, keep=keep)
        assert asker.count(kept.text) == kept.count <= 256


@pytest.mark.timeout(30)
@pytest.mark.parametrize("boundary", ["auto", "token"])
def test_a_megabyte(boundary: str, catalog: Catalog) -> None:
    text = (PROSE * (1024 * 1024 // len(PROSE) + 1))[: 1024 * 1024]
    answer = Asker(catalog, "cl100k_base", {}).chunk(text, 512, boundary=boundary)
    assert "".join(part.text for part in answer.chunks) == text
    assert all(0 < part.count <= 512 for part in answer.chunks)
