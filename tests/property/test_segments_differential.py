"""Segments: the ids are those of the whole text, recognition limited to the trusted parts.

The oracle is the reference library that is told where a control token stands (tests.recognised).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import NAMES, NOTHING, reference

from service.core.policy import SpecialPolicy
from service.core.segments import Segment, join, recognised
from service.errors import SpecialTokenInText
from tests.fuzzing import property_settings
from tests.mixed_texts import subsets
from tests.recognised import (
    MADE,
    LimitedTokenizers,
    find,
    limited,
    limited_made,
    made,
    spelling_texts,
)
from tests.slowly import sliced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.core.tokenizer import Tokenizer
    from tests.recognised import Found, Limited

    Find = Callable[[str], Tokenizer]

EVERY_TOKENIZER = pytest.mark.parametrize("name", [*NAMES, *MADE])
AT_ONCE = 6

Case = tuple[str, list[int], list[SpecialPolicy]]


@pytest.fixture(scope="module")
def pair_of(
    tokenizer_of: Find, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Tokenizer, Limited]]:
    """The service's tokenizer and the reference of a name."""
    root = tmp_path_factory.mktemp("made")
    loaded: dict[str, tuple[Tokenizer, Limited]] = {}

    def pair(name: str) -> tuple[Tokenizer, Limited]:
        if name not in loaded:
            if name in MADE:
                tokenizer = made(name, root)
                loaded[name] = tokenizer, limited_made(name, tokenizer.controls)
            else:
                loaded[name] = tokenizer_of(name), limited(name)
        return loaded[name]

    return pair


def cases_of(controls: Mapping[str, int]) -> st.SearchStrategy[list[Case]]:
    """Texts, where to cut them, and a policy for each part."""
    policies = st.sampled_from([SpecialPolicy.LITERAL, SpecialPolicy.SPECIAL])
    case = st.tuples(
        spelling_texts(controls),
        st.lists(st.integers(1, 300), max_size=4),
        st.lists(policies, min_size=5, max_size=5),
    )
    return st.lists(case, min_size=AT_ONCE, max_size=AT_ONCE)


def cut(text: str, places: list[int], policies: list[SpecialPolicy]) -> list[Segment]:
    parts = sliced(text, [place % (len(text) + 1) for place in places])
    return [Segment(part, policy) for part, policy in zip(parts, policies, strict=False)]


def ids_of(
    tokenizer: Tokenizer, segments: list[Segment], allowed: frozenset[str] | None
) -> list[int]:
    """What the service makes of segments."""
    pointers = [""] * len(segments)
    spans = recognised(tokenizer, segments, allowed, pointers)
    text = join(segments)
    return tokenizer.encode_spans(text, spans) if spans else tokenizer.encode(text)


def found_in(
    oracle: Limited, segments: list[Segment], allowed: frozenset[str] | None
) -> list[Found]:
    """The control spellings that are wholly inside a trusted segment."""
    text = join(segments)
    found: list[Found] = []
    start = 0
    for segment in segments:
        end = start + len(segment.text)
        if segment.policy is SpecialPolicy.SPECIAL:
            found += find(oracle, text, start, end, allowed)
        start = end
    return found


@pytest.mark.timeout(600)
@EVERY_TOKENIZER
def test_ids_are_the_whole_texts(
    name: str, pair_of: Callable[[str], tuple[Tokenizer, Limited]]
) -> None:
    tokenizer, oracle = pair_of(name)
    assert dict(tokenizer.controls) == dict(oracle.controls)

    @property_settings(40)
    @given(cases_of(oracle.controls), st.none() | subsets(oracle.controls))
    def compare(cases: list[Case], allowed: frozenset[str] | None) -> None:
        for text, places, policies in cases:
            segments = cut(text, places, policies)
            shown = ([(ascii(part.text), part.policy.value) for part in segments], allowed)
            expected = oracle.encode(text, found_in(oracle, segments, allowed))
            assert ids_of(tokenizer, segments, allowed) == expected, shown

    compare()


@pytest.mark.timeout(600)
@EVERY_TOKENIZER
def test_borders_change_nothing(
    name: str, pair_of: Callable[[str], tuple[Tokenizer, Limited]]
) -> None:
    """Of one policy, cut anywhere: literal is literal, special is special but for what is cut."""
    tokenizer, oracle = pair_of(name)

    @property_settings(20)
    @given(cases_of(oracle.controls))
    def compare(cases: list[Case]) -> None:
        for text, places, _ in cases:
            literal = cut(text, places, [SpecialPolicy.LITERAL] * 5)
            assert ids_of(tokenizer, literal, None) == tokenizer.encode(text), ascii(text)
            whole = find(oracle, text, 0, len(text), None)
            between = [
                place % (len(text) + 1)
                for place in places
                if not any(one.start < place % (len(text) + 1) < one.end for one in whole)
            ]
            special = cut(text, between, [SpecialPolicy.SPECIAL] * 5)
            if found_in(oracle, special, None) == whole:
                special_ids = ids_of(tokenizer, special, None)
                assert special_ids == tokenizer.encode_special(text), (ascii(text), between)

    compare()


@pytest.mark.timeout(600)
@EVERY_TOKENIZER
def test_the_limited_references_are_the_references(
    name: str, pair_of: Callable[[str], tuple[Tokenizer, Limited]]
) -> None:
    """The oracle above, told of all places or of none, is the library as it comes."""
    _, oracle = pair_of(name)
    special = nothing = None
    if name in NAMES:
        plain = reference(name)
        special, nothing = plain.encode, lambda text: plain.encode(text, NOTHING)
    elif isinstance(oracle, LimitedTokenizers):
        library = oracle.plain
        special = lambda text, _: library.encode(text, add_special_tokens=False).ids  # noqa: E731

    @property_settings(20)
    @given(st.lists(spelling_texts(oracle.controls), min_size=AT_ONCE, max_size=AT_ONCE))
    def compare(texts: list[str]) -> None:
        for text in texts:
            if special is not None:
                everywhere = find(oracle, text, 0, len(text), None)
                assert oracle.encode(text, everywhere) == special(text, None), ascii(text)
            if nothing is not None:
                assert oracle.encode(text, []) == nothing(text), ascii(text)

    compare()


@pytest.mark.timeout(600)
@EVERY_TOKENIZER
def test_a_refused_spelling_is_named_with_its_place(
    name: str, pair_of: Callable[[str], tuple[Tokenizer, Limited]]
) -> None:
    tokenizer, oracle = pair_of(name)

    @property_settings(20)
    @given(cases_of(oracle.controls))
    def compare(cases: list[Case]) -> None:
        for text, places, policies in cases:
            segments = [
                Segment(
                    part.text,
                    SpecialPolicy.REJECT
                    if part.policy is SpecialPolicy.LITERAL
                    else SpecialPolicy.LITERAL,
                )
                for part in cut(text, places, policies)
            ]
            expected = None
            start = 0
            for number, part in enumerate(segments):
                end = start + len(part.text)
                inside = find(oracle, text, start, end, None)
                if part.policy is SpecialPolicy.REJECT and inside:
                    first = inside[0]
                    offset = first.start - start
                    expected = {"token": first.content, "offset": offset, "pointer": f"/{number}"}
                    break
                start = end
            pointers = [f"/{number}" for number in range(len(segments))]
            refused = None
            try:
                assert recognised(tokenizer, segments, None, pointers) == []
            except SpecialTokenInText as error:
                refused = error.members
            assert refused == expected, [ascii(part.text) for part in segments]

    compare()
