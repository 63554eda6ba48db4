"""The fast engine of each format: exact where it is built, and not built where it can't be."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import fastokens
import msgspec
import pytest
import tokenizers
from qwen3_package import QWEN3_PACKAGE, NotToBeHadError, qwen3

from service.catalog.certificates import write_certificates
from service.catalog.loading import certify_entry, load_catalog
from service.catalog.lock import read_lock
from service.catalog.probes import PROBES
from service.core.alignment import Unit
from service.core.tokenizer import DescribesLiteral
from service.engines import builders
from service.engines.builders import build_engine
from service.engines.certify import CertificationError, compare, documents, random_texts
from service.engines.fast import FastTokenizer
from service.formats import formats
from service.formats._sentencepiece_json import literal_json
from service.formats._sentencepiece_model import Piece, parse_model
from tests.locks import DATA, EMBEDDED_LOCK, LockedFolder, embedded_bytes

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Mapping

    from service.core.tokenizer import Tokenizer


class Pair(NamedTuple):
    """A reference tokenizer and its fast engine, if there is one."""

    reference: Tokenizer
    engine: fastokens.Tokenizer | None

    def fast(self, text: str) -> list[int]:
        assert self.engine is not None
        ids: list[int] = self.engine.encode(text).ids
        return ids

    def assert_equal(self, texts: int) -> None:
        """Both give the same ids: for random texts, and for some that the library cuts."""
        controls = self.reference.controls
        long = [text for text in documents(controls) if len(text) < 20_000][:8]
        for text in ("", " ", *PROBES, *random_texts(texts, controls), *long):
            assert self.fast(text) == self.reference.encode(text), ascii(text)[:300]


def pair(name: str, files: Mapping[str, bytes], options: Mapping[str, Any] | None = None) -> Pair:
    converted = msgspec.convert(options or {}, formats()[name].options)
    reference = formats()[name].build(files, converted)
    return Pair(reference, build_engine(name, files, converted, reference))


@functools.cache
def embedded(name: str) -> Pair:
    locked = EMBEDDED_LOCK[name]
    files = {file["role"]: embedded_bytes(name, file["role"]) for file in locked["file"]}
    return pair(locked["format"], files, locked.get("options"))


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a tokenizer says of its literal text."""
    assert isinstance(tokenizer, DescribesLiteral)
    said = tokenizer.literal_json()
    assert said is not None
    definition: dict[str, Any] = json.loads(said)
    return definition


@pytest.mark.parametrize(
    "name",
    ["p50k_base", "t5-base"],
)
def test_what_the_library_can_t_have_is_left_to_the_reference(name: str) -> None:
    """A hole in the ranks, or another kind of model."""
    assert embedded(name).engine is None


def test_no_description_has_a_control_spelling() -> None:
    for name in ("gpt2", "mistral-7b-v0.3"):
        reference = embedded(name).reference
        definition = described(reference)
        spelt = {token["content"] for token in definition["added_tokens"]}
        spelt |= set(definition["model"]["vocab"])
        assert spelt.isdisjoint(reference.controls)


def test_qwen3_is_exact() -> None:
    """A normalizer (NFC), a split pattern of its own, control tokens that are not special."""
    try:
        data = qwen3()
    except NotToBeHadError as reason:
        pytest.skip(f"{QWEN3_PACKAGE} can't be had: {reason}")
    found = pair("tokenizer_json", {"tokenizer": data})
    found.assert_equal(6_000)
    assert found.engine is not None
    fast = FastTokenizer("qwen3", found.reference, found.engine, "")
    for text in ("plain \u00e9", "e\u0301 is put together", "\u1112\u1161\u11ab", "\u212b", ""):
        aligned, expected = fast.align(text, []), found.reference.align(text, [])
        assert aligned.ids == expected.ids
        assert aligned.offsets(Unit.BYTE) == expected.offsets(Unit.BYTE), ascii(text)


def llama_like(**changes: Any) -> bytes:
    """Mistral's vocabulary as a tokenizer.json of Llama's kind, with two added tokens."""
    definition = described(embedded("mistral-7b-v0.3").reference)
    vocab = definition["model"]["vocab"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    definition["added_tokens"] = [
        {"id": vocab["ing"], "content": "ing", **flags, "special": False},
        {"id": len(vocab), "content": "<control>", **flags, "special": True},
    ]
    return json.dumps(definition | changes).encode()


METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalizer": None, "pre_tokenizer": {**METASPACE, "split": False}},
        {"truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0}},
    ],
    ids=["prepend", "metaspace", "truncation"],
)
def test_byte_fallback_is_exact(changes: dict[str, Any]) -> None:
    """Ordinary added tokens are found, control tokens are not, nothing is cut."""
    found = pair("tokenizer_json", {"tokenizer": llama_like(**changes)})
    assert set(found.reference.controls) == {"<control>"}
    if found.engine is None:
        assert changes.get("pre_tokenizer"), "the library knows Llama's own normalizer"
        return
    found.assert_equal(3_000)
    for text in ("sing<control>ing", " ing <control>", "e\u0301\u4e00\U0001f469"):
        assert found.fast(text) == found.reference.encode(text)


def test_byte_level_is_the_literal_twin() -> None:
    found = embedded("gpt2")
    assert found.fast("<|endoftext|>") == found.reference.encode("<|endoftext|>")
    assert len(found.fast("<|endoftext|>")) == 7
    # Read by the library out of the file as it stands, the spelling is the control token.
    plain = tokenizers.Tokenizer.from_buffer(embedded_bytes("gpt2", "tokenizer"))
    assert plain.encode("<|endoftext|>").ids == [50256]


def test_a_model_without_a_dummy_prefix_is_exact() -> None:
    model = parse_model(embedded_bytes("mistral-7b-v0.3", "model"))
    model.normalizer_spec.add_dummy_prefix = False
    pair("sentencepiece", {"model": model.SerializeToString()}).assert_equal(3_000)


def unused(model: Any) -> None:
    model.pieces[1000].type = Piece.UNUSED


def user_defined(model: Any) -> None:
    model.pieces[1000].type = Piece.USER_DEFINED


def extra_blanks(model: Any) -> None:
    model.normalizer_spec.remove_extra_whitespaces = True


def character_map(model: Any) -> None:
    model.normalizer_spec.precompiled_charsmap = b"\0"


def suffix(model: Any) -> None:
    model.trainer_spec.treat_whitespace_as_suffix = True


def no_bytes(model: Any) -> None:
    model.trainer_spec.byte_fallback = False


@pytest.mark.parametrize(
    "change", [unused, user_defined, extra_blanks, character_map, suffix, no_bytes]
)
def test_models_with_rules_of_their_own_are_not_described(change: Callable[[Any], None]) -> None:
    model = parse_model(embedded_bytes("mistral-7b-v0.3", "model"))
    assert literal_json(model) is not None
    change(model)
    assert literal_json(model) is None


def minbpe(*merges: str, pattern: str = r"\s+|\S+") -> Pair:
    lines = ["minbpe v1", pattern, "1", "<|end|> 300", *merges]
    return pair("minbpe", {"model": "".join(f"{line}\n" for line in lines).encode()})


def test_minbpe_is_exact() -> None:
    embedded("minbpe-service").assert_equal(6_000)
    # "aba" is made of "ab" and "a" alone, and the earlier merge comes first wherever it stands.
    found = minbpe("97 98", "98 97", "256 97", "257 256")
    for text in ("aba", "abab", "baba", "babab", "<|end|>", "a b\n"):
        assert found.fast(text) == found.reference.encode(text)


@pytest.mark.parametrize("name", ["minbpe-service", "r50k_base"])
def test_a_blank_to_pcre_alone_is_none(name: str) -> None:
    """U+180E was a blank until Unicode 6.3, and is one to the library's regular expressions."""
    found = embedded(name)
    for text in ("\u180e's", "\u180e\u180e's", "a  \u180e", "\u180e \u180ea", ".\u180e\u180e."):
        assert found.fast(text) == found.reference.encode(text), ascii(text)


def test_a_minbpe_model_that_a_tokenizer_json_can_t_hold_is_not_described() -> None:
    """Two ids with the same bytes, or one chunk however long the text is."""
    assert minbpe("97 98", "98 97").engine is not None
    assert minbpe("97 98", "98 97", "256 97", "97 257").engine is None
    assert minbpe("97 98", pattern="").engine is None


def test_a_unigram_model_is_not_described() -> None:
    assert literal_json(parse_model((DATA / "synthetic" / "uni_bytefb.model").read_bytes())) is None


class PanicException(BaseException):
    """What a panic of the fast library looks like: its name is all that PyO3 tells."""


def test_whatever_building_raises_leaves_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = embedded("gpt2").reference
    options = formats()["tokenizer_json"].options()

    def raising(error: BaseException) -> None:
        def build(*_: object) -> None:
            raise error

        monkeypatch.setitem(builders._BUILDERS, "tokenizer_json", build)

    for error in (ValueError("no"), PanicException("called unwrap()")):
        raising(error)
        assert build_engine("tokenizer_json", {}, options, reference) is None
    raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        build_engine("tokenizer_json", {}, options, reference)


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certify with less than it takes."""
    monkeypatch.setattr("service.engines.certify._RANDOM_TEXTS", 300)
    monkeypatch.setattr("service.engines.certify.sys.maxunicode", 0x300)
    monkeypatch.setattr("service.engines.certify._DOCUMENT_CHARACTERS", (4_000,))


def planted(piece: str) -> Callable[[str], list[int]]:
    """GPT-2's engine without the merges that a piece takes part in."""
    definition = described(embedded("gpt2").reference)
    model = definition["model"]
    model["merges"] = [
        merge for merge in model["merges"] if piece not in merge and "".join(merge) != piece
    ]
    engine = fastokens.Tokenizer.from_json_str(json.dumps(definition))
    return lambda text: engine.encode(text).ids


@pytest.mark.usefixtures("_briefly")
def test_a_difference_that_is_planted_is_found() -> None:
    reference = embedded("gpt2").reference
    assert compare(reference, embedded("gpt2").fast, PROBES)[2] == ""
    assert "\u00df" in compare(reference, planted("\u00c3\u0141"), PROBES)[2], "of one character"
    with pytest.raises(CertificationError):
        compare(reference, planted("\u0120the"), PROBES)


@pytest.mark.usefixtures("_briefly")
def test_a_folder_is_certified_and_served_fast(tmp_path: pathlib.Path) -> None:
    folder = LockedFolder(tmp_path)
    folder.add("llama", "tokenizer_json", {"tokenizer": llama_like()})
    folder.add_embedded("mistral-7b-v0.3")
    folder.add_embedded("t5-base")
    certified = [certify_entry(folder.root, artifact) for artifact in read_lock(folder.root)]
    held = [certificate for certificate in certified if certificate is not None]
    assert [certificate.artifact for certificate in held] == ["llama", "mistral-7b-v0.3"]
    assert [certificate.reference.split("==")[0] for certificate in held] == [
        "tokenizers",
        "sentencepiece",
    ]
    write_certificates(folder.root, held)
    states = {entry.name: entry.engine_state for entry in load_catalog(folder.root)}
    assert states == {"llama": "fast", "mistral-7b-v0.3": "fast", "t5-base": "uncertified"}
    stale = [msgspec.structs.replace(held[0], reference="tokenizers==0.0.1")]
    write_certificates(folder.root, stale)
    states = {entry.name: entry.engine_state for entry in load_catalog(folder.root)}
    assert states == {"llama": "stale", "mistral-7b-v0.3": "uncertified", "t5-base": "uncertified"}
