"""Decoding in slices: a stream cut anywhere gives the text of one decode, in every format."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from reference import NAMES

from service.api.operations import Call
from service.api.operations.decode import DecodeRequest, decode
from service.catalog.catalog import Catalog
from service.catalog.loading import load_catalog
from service.core.policy import DecodeMode
from service.core.utf8 import is_utf8
from service.errors import InvalidUtf8
from service.settings import Settings
from tests.fuzzing import property_settings
from tests.locks import LockedFolder
from tests.mixed_texts import id_lists, mixed_texts
from tests.recognised import MADE, add_made
from tests.slowly import joining_texts

if TYPE_CHECKING:
    from service.catalog.catalog import Entry

EVERY_ARTIFACT = pytest.mark.parametrize("name", [*NAMES, *MADE])
AT_ONCE = 5


@pytest.fixture(scope="module")
def everything(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The embedded artifacts and those made for tests."""
    folder = LockedFolder(tmp_path_factory.mktemp("made"))
    for name in MADE:
        add_made(folder, name)
    return Catalog([*catalog, *load_catalog(folder.root)])


def streams_of(entry: Entry) -> st.SearchStrategy[list[list[int]]]:
    """Ids of texts, ids at random with many cut characters, and both after each other."""
    tokenizer = entry.tokenizer
    text = st.one_of(mixed_texts(tokenizer.controls, max_fragments=6), joining_texts(15))
    of_text = text.map(tokenizer.encode_special)
    framed = of_text.map(lambda ids: [*tokenizer.frame.before, *ids, *tokenizer.frame.after])
    at_random = id_lists(tokenizer)
    both = st.tuples(of_text, at_random, of_text).map(lambda lists: [*chain(*lists)])
    stream = st.one_of(framed, at_random, at_random, both)
    return st.lists(stream, min_size=AT_ONCE, max_size=AT_ONCE)


CUTS = st.lists(st.integers(0, 40), max_size=12)


def slices_of(ids: list[int], cuts: list[int]) -> list[list[int]]:
    edges = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    return [ids[start:end] for start, end in pairwise(edges)]


class Decoder:
    """Asks the operation in one way."""

    def __init__(self, catalog: Catalog, name: str, **asked: Any) -> None:
        self._catalog = catalog
        self._asked = {"tokenizer": name, **asked}

    def __call__(self, ids: list[int], **more: Any) -> Any:
        request = DecodeRequest(ids=ids, **self._asked, **more)
        return decode(request, Call(self._catalog, Settings()))

    def streamed(self, slices: list[list[int]]) -> tuple[str, int]:
        """The text and the replacements of all slices, as a client without a state gets them."""
        text, replacements = "", 0
        waiting: list[int] = []
        for number, ids in enumerate(slices):
            final = number == len(slices) - 1
            sent = [*waiting, *ids]
            answer = self(sent, final=final, pieces=True)
            assert "".join(answer.pieces) == answer.text
            assert len(answer.pieces) == len(sent)
            text += answer.text
            replacements += answer.replacements
            pending = 0 if final else answer.pending_ids
            assert 0 <= pending <= len(sent)
            waiting = sent[len(sent) - pending :]
        return text, replacements


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
@pytest.mark.parametrize("skip", [False, True])
def test_slices_joined_are_one_decoding(name: str, everything: Catalog, *, skip: bool) -> None:
    replacing = Decoder(everything, name, mode=DecodeMode.REPLACE, skip_special_tokens=skip)
    strict = Decoder(everything, name, mode=DecodeMode.STRICT, skip_special_tokens=skip)

    @property_settings(28)
    @given(streams_of(everything.resolve(name)), CUTS)
    def check(streams: list[list[int]], cuts: list[int]) -> None:
        for ids in streams:
            whole = replacing(ids)
            slices = slices_of(ids, cuts)
            shown = (ids, slices)
            assert replacing.streamed(slices) == (whole.text, whole.replacements), shown
            if not whole.replacements:
                assert strict.streamed(slices) == (whole.text, 0), shown

    check()


@EVERY_ARTIFACT
def test_one_id_at_a_time(name: str, everything: Catalog) -> None:
    """As a model's server sends them."""
    replacing = Decoder(everything, name, mode=DecodeMode.REPLACE)

    @property_settings(15)
    @given(streams_of(everything.resolve(name)))
    def check(streams: list[list[int]]) -> None:
        for ids in streams:
            whole = replacing(ids)
            slices = [[token_id] for token_id in ids] + [[]]
            assert replacing.streamed(slices) == (whole.text, whole.replacements), ids

    check()


@pytest.mark.timeout(600)
@EVERY_ARTIFACT
@pytest.mark.parametrize("skip", [False, True])
def test_pieces_joined_are_the_text(name: str, everything: Catalog, *, skip: bool) -> None:
    entry = everything.resolve(name)
    replacing = Decoder(everything, name, mode=DecodeMode.REPLACE, skip_special_tokens=skip)
    strict = Decoder(everything, name, mode=DecodeMode.STRICT, skip_special_tokens=skip)

    @property_settings(15)
    @given(streams_of(entry))
    def check(streams: list[list[int]]) -> None:
        for ids in streams:
            answer = replacing(ids, pieces=True)
            assert "".join(answer.pieces) == answer.text == replacing(ids).text, ids
            assert len(answer.pieces) == len(ids)
            assert answer.pending_ids is UNSET  # the stream is at its end
            if skip:
                for token_id, piece in zip(ids, answer.pieces, strict=True):
                    assert token_id not in entry.control_ids or piece == ""
            if not answer.replacements:
                assert strict(ids, pieces=True).pieces == answer.pieces, ids
                continue
            with pytest.raises(InvalidUtf8):
                strict(ids, pieces=True)

    check()


@EVERY_ARTIFACT
def test_a_piece_is_given_as_soon_as_nothing_can_change_it(name: str, everything: Catalog) -> None:
    """Of formats whose ids' bytes depend on no neighbour, only a cut character waits."""
    entry = everything.resolve(name)
    if entry.tokenizer.sizes is None:
        return
    replacing = Decoder(everything, name, mode=DecodeMode.REPLACE)

    @property_settings(15)
    @given(streams_of(entry))
    def check(streams: list[list[int]]) -> None:
        for ids in streams:
            answer = replacing(ids, final=False)
            joined = entry.tokenizer.decode_bytes(ids[len(ids) - answer.pending_ids :])
            # What waits is the beginning of one character, or nothing.
            assert len(joined) <= 3 or not is_utf8(joined[:-1]), ids
            if is_utf8(entry.tokenizer.decode_bytes(ids)):
                assert answer.pending_ids == 0

    check()
