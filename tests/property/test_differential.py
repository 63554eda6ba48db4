"""Random texts and ids: every embedded format against its reference library.

`FUZZ_EXAMPLES` is the number of different texts for each artifact (2,000; `make fuzz`: 20,000).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import NOTHING, reference

from service.core.policy import DecodeMode, SpecialPolicy, encode_by_policy
from service.core.utf8 import is_utf8, read_utf8
from service.engines.fast import FastTokenizer
from service.errors import SpecialTokenInText
from tests.fuzzing import AT_ONCE, FUZZ_EXAMPLES, run_until
from tests.mixed_texts import id_lists, mixed_texts, subsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference import Reference

    from service.core.tokenizer import Tokenizer

ARTIFACTS = (
    "cl100k_base",
    "o200k_base",
    "gpt2",
    "all-minilm-l6-v2",
    "bert-base-uncased",
    "mistral-7b-v0.3",
    "t5-base",
    "clip-vit-large-patch14",
    "minbpe-service",
)
SENTENCEPIECE = {"mistral-7b-v0.3", "t5-base"}

EVERY_ARTIFACT = pytest.mark.parametrize("artifact", ARTIFACTS)


def check_text(tokenizer: Tokenizer, oracle: Reference, text: str, allowed: frozenset[str]) -> None:
    """Every policy on one text."""
    literal, special = oracle.encode(text, NOTHING), oracle.encode(text, None)
    shown = ascii(text)

    def encoded(policy: SpecialPolicy, only: frozenset[str] | None = None) -> list[int]:
        return encode_by_policy(tokenizer, text, policy, only, "/text")

    assert encoded(SpecialPolicy.LITERAL) == literal, shown
    assert encoded(SpecialPolicy.SPECIAL) == special, shown
    narrowed = encoded(SpecialPolicy.SPECIAL, allowed)
    assert narrowed == oracle.encode(text, allowed), (shown, sorted(allowed))
    refused = None
    try:
        unrefused = encoded(SpecialPolicy.REJECT)
    except SpecialTokenInText as error:
        refused = error.members
    if refused is None:
        assert unrefused == special == literal, shown
    else:
        assert text.startswith(refused["token"], refused["offset"]), (shown, refused)
        assert oracle.controls[refused["token"]] in special, (shown, refused)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fast", [True, False], ids=["fast", "off"])
@EVERY_ARTIFACT
def test_ids_are_the_references(
    artifact: str, tokenizer_of: Callable[[str], Tokenizer], *, fast: bool
) -> None:
    tokenizer, oracle = tokenizer_of(artifact), reference(artifact)
    assert isinstance(tokenizer, FastTokenizer) == (artifact != "t5-base")
    if isinstance(tokenizer, FastTokenizer) and not fast:
        tokenizer = tokenizer.reference
    assert dict(tokenizer.controls) == dict(oracle.controls)
    compared: set[str] = set()

    @given(
        st.lists(mixed_texts(oracle.controls), min_size=AT_ONCE, max_size=AT_ONCE, unique=True),
        subsets(oracle.controls),
    )
    def compare(texts: list[str], allowed: frozenset[str]) -> None:
        for text in texts:
            check_text(tokenizer, oracle, text, allowed)
        compared.update(texts)

    run_until(FUZZ_EXAMPLES, lambda: len(compared), compare)


@pytest.mark.timeout(1800)
@EVERY_ARTIFACT
def test_text_is_the_references(artifact: str, tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer, oracle = tokenizer_of(artifact), reference(artifact)
    left_out: set[int] = set()
    if artifact in SENTENCEPIECE:
        # The library drops these when it decodes; the contract spells them, as in every format.
        left_out = set(oracle.controls.values())

    compared: set[tuple[int, ...]] = set()

    @given(st.lists(id_lists(tokenizer, left_out), min_size=AT_ONCE, max_size=AT_ONCE))
    def compare(lists: list[list[int]]) -> None:
        for ids in lists:
            joined = tokenizer.decode_bytes(ids)
            assert b"".join(tokenizer.byte_parts(ids)) == joined, ids
            # SentencePiece has a way of its own with malformed bytes; test_properties tests ours.
            if artifact not in SENTENCEPIECE or is_utf8(joined):
                text, _ = read_utf8(joined, DecodeMode.REPLACE, ids, list)
                assert text == oracle.decode(ids, errors="replace"), ids
        compared.update(map(tuple, lists))

    run_until(FUZZ_EXAMPLES // 5, lambda: len(compared), compare)
