"""A text that is cut has the ids of the whole, and is given up as soon as it proves slow."""

from __future__ import annotations

import itertools
import math
from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.faults import is_fault
from service.engines import fast as module
from service.engines import slices
from service.engines.certify import random_texts
from service.engines.fast import FastTokenizer
from service.engines.slices import can_be_cut, ends_of_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

CUTTING = ["cl100k_base", "gpt2", "minbpe-service", "o200k_base", "o200k_harmony", "r50k_base"]
PARTS = [
    *("a", "Z", "in", "The", "don't", "it's", "I'LL", "x'", "'s", "0", "1234", "3.14", "_", "a_b"),
    *(
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r\n",
        " \n",
        "\n\n ",
        "\v",
        "\f",
        "!",
        "?!\n",
        "//",
        "#\r",
        "(",
    ),
    *("<|endoftext|>", "<|im_start|>", "\0", "\x7f", "'", " '", "' a", "a b", " a", "b c d"),
]


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_CHARACTERS", 24)
    monkeypatch.setattr(slices, "_WORD_CHARACTERS", 23)


def fast_of(catalog: Catalog, name: str) -> FastTokenizer:
    tokenizer = catalog.resolve(name).tokenizer
    assert isinstance(tokenizer, FastTokenizer)
    return tokenizer


def assert_cut_well(tokenizer: FastTokenizer, text: str) -> bool:
    """Whether it was cut."""
    tokenizer._until_sample = 1000
    buffers = tokenizer.buffers_within(text, math.inf)
    if buffers is None:
        return False
    assert list(array("I", b"".join(buffers))) == tokenizer.reference.encode(text), ascii(text)
    return len(buffers) > 1


def test_which_tokenizers_cut(catalog: Catalog) -> None:
    found = [e.name for e in catalog if isinstance(e.tokenizer, FastTokenizer) and e.tokenizer.cuts]
    assert sorted(found) == CUTTING


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("name", CUTTING)
def test_cuts_change_no_ids(catalog: Catalog, name: str) -> None:
    tokenizer = fast_of(catalog, name)
    cut = 0

    @settings(max_examples=1500, deadline=None)
    @given(st.lists(st.sampled_from(PARTS) | st.just("a b"), max_size=40).map("".join))
    def test(text: str) -> None:
        nonlocal cut
        cut += assert_cut_well(tokenizer, text)

    test()
    assert cut > 100


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("name", CUTTING)
def test_cuts_at_all_pairs_around_a_blank(catalog: Catalog, name: str) -> None:
    tokenizer = fast_of(catalog, name)
    for before, after in itertools.product(PARTS, repeat=2):
        assert_cut_well(tokenizer, f"{before}a b{after}" * 8)


@pytest.mark.parametrize("name", CUTTING)
def test_long_texts(catalog: Catalog, name: str) -> None:
    tokenizer = fast_of(catalog, name)
    texts = random_texts(8000, tokenizer.controls)
    text = " and so ".join(text.encode("ascii", "ignore").decode() for text in texts)
    assert len(text) > 3 * slices.SLICE_CHARACTERS
    assert assert_cut_well(tokenizer, text)


def test_slices_are_short_and_end_at_words() -> None:
    text = "some words " * 50_000
    ends = ends_of_slices(text)
    assert ends is not None
    assert ends[-1] == len(text)
    for begin, end in itertools.pairwise([0, *ends]):
        assert 0 < end - begin <= slices.SLICE_CHARACTERS
    for end in ends[:-1]:
        assert text[end - 1].isalpha()
        assert text[end] == " "
        assert text[end + 1].isalpha()


@pytest.mark.parametrize("text", ["a" * 70_000, "a  b" * 20_000, "1 2" * 30_000, "a\n" * 40_000])
def test_a_text_with_nowhere_to_cut(text: str) -> None:
    assert ends_of_slices(text) is None
    assert ends_of_slices(text[: slices.SLICE_CHARACTERS]) == [slices.SLICE_CHARACTERS]


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False}


@pytest.mark.parametrize(
    ("pipeline", "cuts"),
    [
        ({"normalizer": None, "pre_tokenizer": BYTE_LEVEL}, True),
        ({"normalizer": {"type": "NFC"}, "pre_tokenizer": BYTE_LEVEL}, False),
        ({"normalizer": None, "pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, False),
        ({"normalizer": None, "pre_tokenizer": BYTE_LEVEL | {"use_regex": False}}, False),
        ({"normalizer": None, "pre_tokenizer": {"type": "ByteLevel"}}, False),
        ({"normalizer": None, "pre_tokenizer": {"type": "Split", "pattern": r"\w+"}}, False),
        ({"normalizer": None, "pre_tokenizer": {"type": "Metaspace"}}, False),
        ({"normalizer": None, "pre_tokenizer": None}, False),
    ],
)
def test_which_pipelines_can_be_cut(pipeline: dict[str, Any], *, cuts: bool) -> None:
    assert can_be_cut(pipeline) == cuts


class Slow:
    """An engine that takes a second for each slice after the first."""

    def __init__(self) -> None:
        self.asked = 0
        self.encode = None

    def encode_batch_flat(self, _: list[str]) -> tuple[bytes, bytes]:
        self.asked += 1
        return b"", b""

    def clock(self) -> float:
        return max(0, self.asked - 1)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    engine = Slow()
    monkeypatch.setattr(module, "perf_counter", engine.clock)
    return engine


def tokenizer_of(catalog: Catalog, engine: Any) -> FastTokenizer:
    reference = fast_of(catalog, "cl100k_base").reference
    return FastTokenizer("cl100k_base", reference, engine, "", cuts=True)


def test_a_slow_text_is_given_up_early(catalog: Catalog, slow: Slow) -> None:
    text = "some words " * 60_000  # eleven slices
    assert tokenizer_of(catalog, slow).buffers_within(text, 0.5) is None
    assert slow.asked == 2
    assert tokenizer_of(catalog, slow).buffers_within(text, 100) == [b""] * 11


def test_a_text_that_is_not_for_the_engine_is_not_cut(catalog: Catalog, slow: Slow) -> None:
    tokenizer = tokenizer_of(catalog, slow)
    assert tokenizer.buffers_within("Stra\u00dfe", 1) is None
    tokenizer._until_sample = 1
    assert tokenizer.buffers_within("sample", 1) is None
    tokenizer._until_sample = 1000
    tokenizer.takes_ascii = False
    assert tokenizer.buffers_within("street", 1) is None
    assert slow.asked == 0


class Failing:
    """An engine that fails at its second slice."""

    def __init__(self, error: BaseException) -> None:
        self._answers: Iterator[BaseException | None] = iter([None, error])
        self.encode = None

    def encode_batch_flat(self, _: list[str]) -> tuple[bytes, bytes]:
        error = next(self._answers)
        if error is not None:
            raise error
        return b"", b""


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failure_is_left_to_the_whole_text(catalog: Catalog, error: BaseException) -> None:
    tokenizer = tokenizer_of(catalog, Failing(error))
    text = "some words " * 20_000
    if is_fault(error):
        assert tokenizer.buffers_within(text, math.inf) is None
    else:
        with pytest.raises(type(error)):
            tokenizer.buffers_within(text, math.inf)
    assert tokenizer.takes_ascii
