"""What holds for every text and every list of ids, whatever a library says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import SentencePieceReference, reference

from service.api.operations import Call
from service.api.operations.count import CountRequest, count
from service.api.operations.decode import DecodeRequest, decode
from service.api.operations.encode import EncodeRequest, encode
from service.core.policy import DecodeMode, SpecialPolicy
from service.core.utf8 import read_utf8
from service.errors import InvalidUtf8, RequestError
from service.settings import Settings
from tests.fuzzing import property_settings
from tests.locks import EMBEDDED_LOCK
from tests.mixed_texts import id_lists, mixed_texts, subsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.catalog.catalog import Catalog
    from service.core.tokenizer import Tokenizer

    Find = Callable[[str], Tokenizer]

ARTIFACTS = sorted(EMBEDDED_LOCK)
SENTENCEPIECE = [name for name in ARTIFACTS if EMBEDDED_LOCK[name]["format"] == "sentencepiece"]
EXACT = [
    name
    for name in ARTIFACTS
    if EMBEDDED_LOCK[name]["format"] in {"tiktoken", "minbpe"} or name == "gpt2"
]
SAME_VOCABULARY = [("gpt2", "r50k_base"), ("bert-base-uncased", "all-minilm-l6-v2")]

EVERY_ARTIFACT = pytest.mark.parametrize("artifact", ARTIFACTS)


def texts(spellings: Sequence[str] | Mapping[str, int]) -> st.SearchStrategy[list[str]]:
    """Several texts, as drawing one costs more than encoding it."""
    one = st.one_of(mixed_texts(spellings), mixed_texts(spellings), st.text())
    return st.lists(one, min_size=6, max_size=6, unique=True)


# Round trips


def test_each_artifact_makes_the_promise_that_is_tested_here(tokenizer_of: Find) -> None:
    promises = {name: tokenizer_of(name).facts.round_trip for name in ARTIFACTS}
    assert [name for name in ARTIFACTS if promises[name] == "exact"] == EXACT
    assert [name for name in ARTIFACTS if promises[name] == "normalizing"] == ["mistral-7b-v0.3"]
    every_byte = {*EXACT, "mistral-7b-v0.3", "clip-vit-large-patch14"}
    for name in ARTIFACTS:
        covered = "every_byte" if name in every_byte else "unknown_token"
        assert tokenizer_of(name).facts.coverage == covered


@pytest.mark.parametrize("artifact", EXACT)
def test_bytes_give_every_text_back(artifact: str, tokenizer_of: Find) -> None:
    tokenizer = tokenizer_of(artifact)

    @property_settings(60)
    @given(texts(tokenizer.controls), subsets(tokenizer.controls))
    def check(some: list[str], allowed: frozenset[str]) -> None:
        for text in some:
            spans = tokenizer.find_controls(text, allowed)
            for ids in (
                tokenizer.encode(text),
                tokenizer.encode_special(text),
                tokenizer.encode_spans(text, spans),
            ):
                assert tokenizer.decode_bytes(ids) == text.encode(), ascii(text)
                assert b"".join(tokenizer.byte_parts(ids)) == text.encode(), ascii(text)

    check()


IN_T5 = (
    "abc AB 01 .,!'\"-( \n\t\u00a0\u3000\u200b\u2581\u00e9e\u0301\u00fc\u00df\uff21\uff11\ufb01\0"
)
"""Characters that T5's model has, as they are or after its normalization."""


@pytest.mark.parametrize("artifact", SENTENCEPIECE)
def test_sentencepiece_gives_the_text_as_it_normalized_it(
    artifact: str, tokenizer_of: Find
) -> None:
    tokenizer, oracle = tokenizer_of(artifact), reference(artifact)
    assert isinstance(oracle, SentencePieceReference)
    compared: set[str] = set()
    between = re.compile("(" + "|".join(map(re.escape, tokenizer.controls)) + ")")

    def normalized(text: str) -> str:
        # The library writes a blank as U+2581 and puts one before all; nothing has none.
        return oracle.processor.normalize(text).replace("\u2581", " ").removeprefix(" ")

    @property_settings(60)
    @given(texts(tokenizer.controls), st.lists(st.text(IN_T5), min_size=3))
    def check(some: list[str], within: list[str]) -> None:
        for text in (*some, *within, "<s> a </s> b".join(within)):
            ids, special = tokenizer.encode(text), tokenizer.encode_special(text)
            if artifact == "t5-base" and tokenizer.unknown_id in (*ids, *special):
                continue  # Text outside its vocabulary is lost: round_trip is "lossy".
            compared.add(text)
            assert tokenizer.decode_bytes(ids).decode() == normalized(text), ascii(text)
            # Each stretch between control tokens is a text of its own.
            parts = between.split(text)
            expected = [p if p in tokenizer.controls else normalized(p) for p in parts]
            assert tokenizer.decode_bytes(special).decode() == "".join(expected), ascii(text)

    check()
    assert len(compared) > 40


# Counts


REQUESTS = st.fixed_dictionaries(
    {
        "special_policy": st.sampled_from(SpecialPolicy),
        "add_special_tokens": st.booleans(),
    }
)


def outcome(run: Callable[[], Any]) -> Any:
    """What an operation answers, or the code of its refusal."""
    try:
        return run()
    except RequestError as error:
        return error.code


@EVERY_ARTIFACT
def test_the_count_is_the_number_of_ids(artifact: str, catalog: Catalog) -> None:
    controls = catalog.resolve(artifact).tokenizer.controls

    @property_settings(40)
    @given(texts(controls), REQUESTS, st.none() | subsets(controls))
    def check(some: list[str], asked: dict[str, Any], allowed: frozenset[str] | None) -> None:
        asked = {"tokenizer": artifact, **asked}
        if allowed is not None and asked["special_policy"] is SpecialPolicy.SPECIAL:
            asked["allowed_special"] = sorted(allowed)
        call = Call(catalog, Settings())
        totals = []
        for text in some:
            encoded = outcome(lambda: encode(EncodeRequest(text=text, **asked), call))  # noqa: B023
            counted = outcome(lambda: count(CountRequest(text=text, **asked), call))  # noqa: B023
            if isinstance(encoded, str):
                assert counted == encoded == "special_token_in_text"
                continue
            totals.append(len(encoded.ids))
            assert counted.count == encoded.count == len(encoded.ids), ascii(text)
            assert counted.unknown_tokens == encoded.unknown_tokens, ascii(text)
            assert counted.special_tokens_added == encoded.special_tokens_added, ascii(text)
            assert counted.bytes == len(text.encode())
        batch = count(CountRequest(texts=some, **asked), call)
        assert batch.count == sum(totals)

    check()


# Policies


@EVERY_ARTIFACT
def test_literal_text_never_gives_a_control_id(artifact: str, tokenizer_of: Find) -> None:
    tokenizer = tokenizer_of(artifact)
    control_ids = set(tokenizer.controls.values()) - {tokenizer.unknown_id}

    @property_settings(60)
    @given(texts(tokenizer.controls), subsets(tokenizer.controls))
    def check(some: list[str], allowed: frozenset[str]) -> None:
        allowed_ids = {tokenizer.controls[spelling] for spelling in allowed}
        for text in some:
            assert not control_ids & set(tokenizer.encode(text)), ascii(text)
            narrowed = tokenizer.encode_spans(text, tokenizer.find_controls(text, allowed))
            assert control_ids & set(narrowed) <= allowed_ids, (ascii(text), sorted(allowed))

    check()


@EVERY_ARTIFACT
def test_every_control_spelling_is_text_or_its_id(artifact: str, tokenizer_of: Find) -> None:
    tokenizer = tokenizer_of(artifact)
    control_ids = set(tokenizer.controls.values()) - {tokenizer.unknown_id}
    for spelling, token_id in tokenizer.controls.items():
        for text in (spelling, f"a{spelling}b", spelling * 2, f"  {spelling} \n", f"1{spelling}\0"):
            assert not control_ids & set(tokenizer.encode(text)), ascii(text)
            special = tokenizer.encode_special(text)
            assert special.count(token_id) == text.count(spelling), ascii(text)
            spans = tokenizer.find_controls(text, frozenset({spelling}))
            assert tokenizer.encode_spans(text, spans) == special, ascii(text)
    everything = "".join(tokenizer.controls)
    assert not control_ids & set(tokenizer.encode(everything))
    recognised = tokenizer.encode_special(everything)
    if artifact in SENTENCEPIECE or not tokenizer.frame.before:
        assert recognised == list(tokenizer.controls.values())


# Malformed bytes


TRAIL = range(0x80, 0xC0)
WELL_FORMED: list[tuple[range, ...]] = [
    (range(0x80),),
    (range(0xC2, 0xE0), TRAIL),
    (range(0xE0, 0xE1), range(0xA0, 0xC0), TRAIL),
    (range(0xE1, 0xED), TRAIL, TRAIL),
    (range(0xED, 0xEE), range(0x80, 0xA0), TRAIL),
    (range(0xEE, 0xF0), TRAIL, TRAIL),
    (range(0xF0, 0xF1), range(0x90, 0xC0), TRAIL, TRAIL),
    (range(0xF1, 0xF4), TRAIL, TRAIL, TRAIL),
    (range(0xF4, 0xF5), range(0x80, 0x90), TRAIL, TRAIL),
]
"""The Unicode Standard, table 3-7: well-formed UTF-8 byte sequences."""


def read_slowly(data: bytes) -> tuple[str, list[tuple[int, str]]]:
    """The text with a U+FFFD for each maximal ill-formed part; where each begins, and its kind.

    After the definition D93b: the longest part that begins a well-formed sequence, or one byte.
    """
    text = ""
    faults: list[tuple[int, str]] = []
    place = 0
    while place < len(data):
        longest, whole, cut = 1, False, False
        for row in WELL_FORMED:
            fitting = 0
            while (
                fitting < len(row)
                and place + fitting < len(data)
                and data[place + fitting] in row[fitting]
            ):
                fitting += 1
            if fitting:
                longest, whole = fitting, fitting == len(row)
                cut = not whole and place + fitting == len(data)
        if whole:
            text += data[place : place + longest].decode()
        else:
            text += "\ufffd"
            faults.append((place, "truncated" if cut else "malformed"))
        place += longest
    return text, faults


def check_reading(joined: bytes, ids: Sequence[int], parts: Sequence[bytes]) -> None:
    """Both modes on the bytes that `ids` spell."""
    text, faults = read_slowly(joined)
    assert text == joined.decode(errors="replace")
    assert read_utf8(joined, DecodeMode.REPLACE, ids, lambda: parts) == (text, len(faults))
    if not faults:
        assert joined.decode() == text
        assert read_utf8(joined, DecodeMode.STRICT, ids, lambda: parts) == (text, 0)
        return
    with pytest.raises(InvalidUtf8) as refused:
        read_utf8(joined, DecodeMode.STRICT, ids, lambda: parts)
    offset, reason = faults[0]
    index = next(i for i in range(len(parts)) if sum(map(len, parts[: i + 1])) > offset)
    assert refused.value.members == {
        "byte_offset": offset,
        "index": index,
        "id": ids[index],
        "reason": reason,
    }


EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1]
EDGES += [0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
PIECES = st.one_of(
    st.sampled_from(EDGES).map(lambda byte: bytes([byte])),
    st.binary(max_size=3),
    st.sampled_from(["\ufffd", "\u00e9", "\u0939", "\U0001f389", "\ud7ff", "\uffff"]).map(
        str.encode
    ),
    st.characters(codec="utf-8").map(lambda character: character.encode()[:-1]),
)


@property_settings(400)
@given(st.lists(PIECES, max_size=10))
def test_strict_and_replace_differ_on_malformed_bytes_only(parts: list[bytes]) -> None:
    check_reading(b"".join(parts), range(1000, 1000 + len(parts)), parts)


def test_every_pair_of_bytes() -> None:
    for first in range(256):
        for second in range(256):
            data = bytes([first, second])
            text, faults = read_slowly(data)
            assert text == data.decode(errors="replace")
            expected = text, len(faults)
            assert read_utf8(data, DecodeMode.REPLACE, [1, 2], lambda: [b"", b""]) == expected


@EVERY_ARTIFACT
def test_ids_that_spell_malformed_bytes(artifact: str, catalog: Catalog) -> None:
    tokenizer = catalog.resolve(artifact).tokenizer
    broken = 0

    @property_settings(60)
    @given(st.lists(id_lists(tokenizer), max_size=12))
    def check(lists: list[list[int]]) -> None:
        nonlocal broken
        for ids in lists:
            joined, parts = tokenizer.decode_bytes(ids), tokenizer.byte_parts(ids)
            assert joined == b"".join(parts)
            check_reading(joined, ids, parts)
            text, faults = read_slowly(joined)
            broken += bool(faults)
            request = DecodeRequest(tokenizer=artifact, ids=ids, mode=DecodeMode.REPLACE)
            answer: Any = decode(request, Call(catalog, Settings()))
            assert (answer.text, answer.replacements) == (text, len(faults))

    check()
    # These formats decode to text, which is never malformed.
    if EMBEDDED_LOCK[artifact]["format"] != "wordpiece" and artifact not in (
        "all-minilm-l6-v2",
        "t5-base",
    ):
        assert broken > 100


# Two formats of one vocabulary


@pytest.mark.parametrize(("first", "second"), SAME_VOCABULARY)
def test_one_vocabulary_in_two_formats(first: str, second: str, catalog: Catalog) -> None:
    one, other = catalog.resolve(first), catalog.resolve(second)
    assert one.artifact.format != other.artifact.format
    assert one.fingerprint != other.fingerprint
    assert one.vocabulary_sha256 == other.vocabulary_sha256
    assert one.tokenizer.controls == other.tokenizer.controls

    @property_settings(100)
    @given(texts(one.tokenizer.controls), subsets(one.tokenizer.controls))
    def check(some: list[str], allowed: frozenset[str]) -> None:
        for text in some:
            ids = one.tokenizer.encode(text)
            assert ids == other.tokenizer.encode(text), ascii(text)
            special = one.tokenizer.encode_special(text)
            assert special == other.tokenizer.encode_special(text), ascii(text)
            spans = one.tokenizer.find_controls(text, allowed)
            assert spans == other.tokenizer.find_controls(text, allowed), ascii(text)
            assert one.tokenizer.decode_bytes(ids) == other.tokenizer.decode_bytes(ids)

    check()


def test_other_vocabularies_have_other_digests(catalog: Catalog) -> None:
    digests = {entry.name: entry.vocabulary_sha256 for entry in catalog}
    assert len(set(digests.values())) == len(digests) - len(SAME_VOCABULARY)
