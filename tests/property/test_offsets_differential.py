"""Details of encoded texts: offsets, bytes and the mask against slow references.

Where a library tells the ranges itself it is asked; where it works on bytes they are counted.
"""

from __future__ import annotations

import base64
import functools
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import NAMES, MinbpeReference, SentencePieceReference, TiktokenReference, reference

from service.api.operations import Call
from service.api.operations.encode import EncodeRequest, encode
from service.catalog.catalog import Catalog
from service.catalog.loading import load_catalog
from service.core.alignment import Unit
from service.core.policy import SpecialPolicy
from service.settings import Settings
from tests.fuzzing import property_settings
from tests.locks import LockedFolder
from tests.recognised import (
    MADE,
    LimitedSentencePiece,
    LimitedTokenizers,
    add_made,
    find,
    limited,
    limited_made,
    spelling_texts,
)
from tests.slowly import codepoint_ranges, joining_texts, pairs_in_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sentencepiece

    from service.core.tokenizer import Tokenizer
    from tests.recognised import Limited
    from tests.slowly import Pair

BY_BYTES = {name for name in NAMES if isinstance(reference(name), TiktokenReference)}
BY_BYTES |= {"gpt2", "minbpe-service"}
"""Artifacts whose ids' bytes, joined, are the text's."""

EVERY_ARTIFACT = pytest.mark.parametrize("name", [*NAMES, *MADE])
AT_ONCE = 5

COMPATIBLE = "\u33a5\u00bd\u2167\u3300\ufdfa\ufb03\u246b\u0130e\u0301\uff21\u00a8 a"
"""Characters that a normalizer turns into several, or into one with their neighbours."""


@pytest.fixture(scope="module")
def everything(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The embedded artifacts and those made for tests."""
    folder = LockedFolder(tmp_path_factory.mktemp("made"))
    for name in MADE:
        add_made(folder, name)
    return Catalog([*catalog, *load_catalog(folder.root)])


@pytest.fixture(scope="module")
def oracle_of(everything: Catalog) -> Callable[[str], Limited]:
    return lambda name: (
        limited_made(name, everything.resolve(name).tokenizer.controls)
        if name in MADE
        else limited(name)
    )


def texts_of(tokenizer: Tokenizer) -> st.SearchStrategy[list[str]]:
    one = st.one_of(
        spelling_texts(tokenizer.controls),
        joining_texts(12),
        st.text(st.sampled_from(COMPATIBLE), max_size=8),
    )
    return st.lists(one, min_size=AT_ONCE, max_size=AT_ONCE)


def answered(everything: Catalog, name: str, text: str, **asked: Any) -> Any:
    return encode(EncodeRequest(tokenizer=name, text=text, **asked), Call(everything, Settings()))


# ---- what each id's bytes and range are, said slowly --------------------------------------------


def stretches(
    limited: Limited, text: str, policy: SpecialPolicy
) -> list[tuple[str, int, str | None]]:
    """The parts of a text: (text, where it begins, the control spelling that it is)."""
    parts: list[tuple[str, int, str | None]] = []
    place = 0
    special = policy is SpecialPolicy.SPECIAL
    for found in find(limited, text, 0, len(text), None) if special else []:
        parts += [(text[place : found.start], place, None)] if found.start > place else []
        parts.append((text[found.start : found.end], found.start, found.content))
        place = found.end
    return [*parts, (text[place:], place, None)] if place < len(text) else parts


def bytes_of(name: str, oracle: Limited, token_id: int) -> bytes:
    """The bytes of an id, from the reference library's own names of them."""
    for content, control in oracle.controls.items():
        if control == token_id:
            return content.encode()
    known = reference(name)
    if isinstance(known, TiktokenReference):
        return known.encoding.decode_single_token_bytes(token_id)
    if isinstance(known, MinbpeReference):
        return known.vocab[token_id]
    if isinstance(known, SentencePieceReference):
        piece = known.processor.id_to_piece(token_id)
        is_byte = known.processor.is_byte(token_id)
        return bytes.fromhex(piece[3:5]) if is_byte else piece.replace("\u2581", " ").encode()
    assert isinstance(oracle, LimitedTokenizers)
    piece = oracle.plain.id_to_token(token_id)
    letters = byte_of_letter() if name in ("gpt2", "clip-vit-large-patch14") else {}
    stem = piece.removesuffix("</w>") if letters else ""
    return bytes(letters[letter] for letter in stem) + piece[len(stem) :].encode()


def byte_of_letter() -> dict[str, int]:
    """GPT-2's letters: printing bytes are themselves, the others are counted from 256 on."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


def sentencepiece_ranges(
    processor: sentencepiece.SentencePieceProcessor, text: str, begin: int
) -> list[Pair]:
    """Ranges from the library's map of its normalized text, a piece with all it has a part of."""
    normalized, places = processor.normalize(text, with_offsets=True)
    ids = processor.encode(text)
    pieces = processor.encode(text, out_type=str)
    ranges: list[Pair] = []
    position = in_bytes = 0
    for token_id, piece in zip(ids, pieces, strict=True):
        first = position
        if processor.is_byte(token_id):
            in_bytes += 1
            position += in_bytes == len(normalized[position].encode())
            last = first
        else:
            position += len(piece)
            last = position - 1
        in_bytes = 0 if position > first else in_bytes
        # The blank put before the text is of no character of it.
        dummy = len(places) > 1 and normalized.startswith("\u2581") and places[0] == places[1]
        if dummy and first == last == 0:
            ranges.append((begin + places[0], begin + places[0]))
            continue
        end = next((place for place in places[last + 1 :] if place > places[last]), len(text))
        ranges.append((begin + places[first], begin + end))
    assert position == len(normalized)
    return ranges


def content_ranges(name: str, oracle: Limited, text: str, policy: SpecialPolicy) -> list[Pair]:
    """The code points behind each content id."""
    if name in BY_BYTES:
        found = find(oracle, text, 0, len(text), None) if policy is SpecialPolicy.SPECIAL else []
        ids = oracle.encode(text, found)
        return codepoint_ranges(text, [bytes_of(name, oracle, token_id) for token_id in ids])
    if isinstance(oracle, LimitedTokenizers):
        if policy is SpecialPolicy.SPECIAL:
            ranges: list[Pair] = oracle.plain.encode(text, add_special_tokens=False).offsets
            return ranges
        return oracle.literal_offsets(text)
    assert isinstance(oracle, LimitedSentencePiece)
    processor = oracle.plain if policy is SpecialPolicy.SPECIAL else oracle.processor
    ranges = []
    waiting = ""
    for part, begin, content in [*stretches(oracle, text, policy), ("", len(text), "")]:
        # A user-defined piece is one of its stretch; a control piece ends it.
        if content is not None and content not in oracle.parsed:
            if waiting:
                start = begin - len(waiting)
                ranges += sentencepiece_ranges(processor, waiting, start)
            waiting = ""
            ranges += [(begin, begin + len(part))] if content else []
        else:
            waiting += part
    return ranges


# ---- offsets ------------------------------------------------------------------------------------

POLICIES = st.sampled_from([SpecialPolicy.LITERAL, SpecialPolicy.SPECIAL])


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
def test_offsets_are_the_references(
    name: str, everything: Catalog, oracle_of: Callable[[str], Limited]
) -> None:
    oracle = oracle_of(name)
    tokenizer = everything.resolve(name).tokenizer

    @property_settings(50)
    @given(texts_of(tokenizer), POLICIES, st.booleans())
    def compare(texts: list[str], policy: SpecialPolicy, framed: bool) -> None:  # noqa: FBT001
        for text in texts:
            asked = {"special_policy": policy, "add_special_tokens": framed}
            shown = (ascii(text), policy.value)
            answer = answered(everything, name, text, offsets=Unit.CODEPOINT, **asked)
            before, after = tokenizer.frame if framed else ((), ())
            expected = content_ranges(name, oracle, text, policy)
            assert answer.offsets == [
                *[None] * len(before),
                *expected,
                *[None] * len(after),
            ], shown
            ids = answered(everything, name, text, **asked).ids
            assert answer.ids == ids, shown
            ask = functools.partial(answered, everything, name, text, **asked)
            of_content = slice(len(before), len(before) + len(expected))
            check_units(ask, of_content, text, expected, exact=name in BY_BYTES)

    compare()


def check_units(
    ask: Callable[..., Any], of_content: slice, text: str, expected: Sequence[Pair], *, exact: bool
) -> None:
    """The other units say the same, and bytes are exact where the ids are bytes."""
    utf16 = ask(offsets=Unit.UTF16).offsets
    assert utf16[of_content] == pairs_in_unit(text, expected, Unit.UTF16)
    in_bytes = ask(offsets=Unit.BYTE, token_bytes=True)
    ranges = in_bytes.offsets[of_content]
    if not exact:
        assert ranges == pairs_in_unit(text, expected, Unit.BYTE)
        return
    data = text.encode()
    tokens = [base64.b64decode(token) for token in in_bytes.token_bytes[of_content]]
    assert [data[start:end] for start, end in ranges] == tokens
    assert b"".join(tokens) == data


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
def test_ranges_rise_and_cover(name: str, everything: Catalog) -> None:
    tokenizer = everything.resolve(name).tokenizer

    @property_settings(50)
    @given(texts_of(tokenizer), POLICIES)
    def check(texts: list[str], policy: SpecialPolicy) -> None:
        for text in texts:
            answer = answered(everything, name, text, offsets=Unit.CODEPOINT, special_policy=policy)
            pairs = answer.offsets
            assert len(pairs) == len(answer.ids)
            for start, end in pairs:
                assert 0 <= start <= end <= len(text)
            for one, other in itertools.pairwise(pairs):
                assert one[0] <= other[0], ascii(text)
                assert one[1] <= other[1], ascii(text)
            if name in BY_BYTES:
                covered = {place for start, end in pairs for place in range(start, end)}
                assert covered == set(range(len(text))), ascii(text)

    check()


@pytest.mark.parametrize("name", sorted(BY_BYTES & {*NAMES} - {"gpt2", "minbpe-service"}))
def test_starts_are_those_that_tiktoken_tells(name: str, everything: Catalog) -> None:
    known = reference(name)
    assert isinstance(known, TiktokenReference)

    @property_settings(30)
    @given(texts_of(everything.resolve(name).tokenizer))
    def check(texts: list[str]) -> None:
        for text in texts:
            answer = answered(everything, name, text, offsets=Unit.CODEPOINT)
            assert known.encoding.decode_with_offsets(answer.ids) == (
                text,
                [start for start, _ in answer.offsets],
            ), ascii(text)

    check()


@pytest.mark.parametrize("name", ["mistral-7b-v0.3", "uni_bytefb", "llama_prepend"])
def test_each_byte_piece_covers_its_character(name: str, everything: Catalog) -> None:
    tokenizer = everything.resolve(name).tokenizer
    seen = 0

    @property_settings(40)
    @given(texts_of(tokenizer))
    def check(texts: list[str]) -> None:
        nonlocal seen
        for text in texts:
            answer = answered(everything, name, text, offsets=Unit.CODEPOINT, token_bytes=True)
            groups: dict[Pair, bytes] = {}
            for token, pair in zip(answer.token_bytes, answer.offsets, strict=True):
                token_bytes = base64.b64decode(token)
                if len(token_bytes) == 1 and token_bytes >= b"\x80":
                    groups[pair] = groups.get(pair, b"") + token_bytes
            for (start, end), joined in groups.items():
                seen += 1
                assert end == start + 1, ascii(text)
                # Of the text as the model's normalizer left it: mistral's and llama's leave it.
                if name != "uni_bytefb":
                    assert joined == text[start:end].encode(), ascii(text)

    check()
    assert seen > 100


# ---- bytes and mask -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_token_bytes_are_the_vocabularys(
    name: str, everything: Catalog, oracle_of: Callable[[str], Limited]
) -> None:
    oracle = oracle_of(name)
    tokenizer = everything.resolve(name).tokenizer
    vocabulary = tokenizer.vocabulary()

    @property_settings(30)
    @given(texts_of(tokenizer), POLICIES)
    def check(texts: list[str], policy: SpecialPolicy) -> None:
        for text in texts:
            answer = answered(
                everything,
                name,
                text,
                token_bytes=True,
                special_policy=policy,
                add_special_tokens=True,
            )
            assert len(answer.token_bytes) == len(answer.ids)
            for token, token_id in zip(answer.token_bytes, answer.ids, strict=True):
                token_bytes = base64.b64decode(token, validate=True)
                assert token_bytes == vocabulary[token_id] == bytes_of(name, oracle, token_id)

    check()


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
def test_the_mask_tells_real_markers_from_typed_ones(
    name: str, everything: Catalog, oracle_of: Callable[[str], Limited]
) -> None:
    oracle = oracle_of(name)
    tokenizer = everything.resolve(name).tokenizer

    @property_settings(30)
    @given(texts_of(tokenizer), POLICIES, st.booleans())
    def check(texts: list[str], policy: SpecialPolicy, framed: bool) -> None:  # noqa: FBT001
        for text in texts:
            answer = answered(
                everything,
                name,
                text,
                special_tokens_mask=True,
                special_policy=policy,
                add_special_tokens=framed,
            )
            before, after = tokenizer.frame if framed else ((), ())
            special = policy is SpecialPolicy.SPECIAL
            found = find(oracle, text, 0, len(text), None) if special else []
            assert answer.special_tokens_mask == [
                *[1] * len(before),
                *oracle.mask(text, found),
                *[1] * len(after),
            ], (ascii(text), policy.value)

    check()
