"""The fingerprint changes if, and only if, something changes that decides ids or text."""

from __future__ import annotations

import base64
import dataclasses
import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2 as model_proto

from service.catalog.loading import load_catalog
from service.core.fingerprint import canonical_json, fingerprint, vocabulary_digest
from service.formats import formats
from tests.fuzzing import property_settings
from tests.locks import EMBEDDED_LOCK, LockedFolder

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

    from service.catalog.catalog import Entry


@dataclasses.dataclass(frozen=True)
class Artifact:
    """What an artifact is made of."""

    format: str
    files: Mapping[str, bytes]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def with_options(self, **changes: Any) -> Artifact:
        return dataclasses.replace(self, options={**self.options, **changes})

    def with_file(self, role: str, data: bytes) -> Artifact:
        return dataclasses.replace(self, files={**self.files, role: data})

    def replacing(self, role: str, old: bytes, new: bytes) -> Artifact:
        assert old in self.files[role]
        return self.with_file(role, self.files[role].replace(old, new, 1))

    def swapping(self, role: str, first: bytes, second: bytes) -> Artifact:
        """With two lines in each other's place."""
        lines = self.files[role].split(b"\n")
        one, other = lines.index(first), lines.index(second)
        lines[one], lines[other] = lines[other], lines[one]
        return self.with_file(role, b"\n".join(lines))


class Loader:
    """Loads artifacts, each from a folder of its own."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._numbers = itertools.count()

    def __call__(self, artifact: Artifact, name: str = "case", **more: Any) -> Entry:
        folder = LockedFolder(self._root / str(next(self._numbers)))
        folder.add(name, artifact.format, artifact.files, artifact.options, **more)
        return load_catalog(folder.root).resolve(name)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    return Loader(tmp_path_factory.mktemp("locks"))


def _ranks(tokens: list[bytes]) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), n) for n, token in enumerate(tokens))


BYTES = [bytes([byte]) for byte in range(256)]
TIKTOKEN = Artifact(
    "tiktoken",
    {"ranks": _ranks([*BYTES, b"ab", b"cd"])},
    {"pattern": r"\p{L}+|\P{L}", "special_tokens": {"<a>": 300, "<b>": 301}},
)

VOCAB = [*"abcdé", "▁", "ab", "<s>", "</s>", "<pad>"]
JSON: dict[str, Any] = {
    "added_tokens": [
        {
            "id": VOCAB.index(spelling),
            "content": spelling,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for spelling in ("<s>", "</s>", "<pad>")
    ],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "BPE",
        "vocab": {piece: number for number, piece in enumerate(VOCAB)},
        "merges": [["a", "b"]],
        "unk_token": "<pad>",
    },
}


def _json_artifact(**changes: Any) -> Artifact:
    return Artifact("tokenizer_json", {"tokenizer": json.dumps(JSON | changes).encode()})


TOKENIZER_JSON = _json_artifact()
WORDPIECE = Artifact(
    "wordpiece",
    {"vocab": "[UNK]\n[CLS]\n[SEP]\na\nb\n##b\né\ne\n<x>".encode()},
    {"lowercase": True},
)
MERGES = Artifact(
    "bpe_merges",
    {"merges": b"#version: 0.2\na b\nc d</w>\nab cd</w>\n"},
    {
        "base_alphabet": "bytes",
        "pattern": r"\p{L}+",
        "special_tokens": {"<a>": 515, "<b>": 516},
        "template": {"before": ["<a>"], "after": ["<b>"]},
    },
)
MINBPE = Artifact("minbpe", {"model": b"minbpe v1\n\n1\n<a> 300\n97 98\n99 100\n"})


def _sentencepiece(pieces: list[str], **spec: Any) -> bytes:
    model = model_proto.ModelProto()
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3, "<x>": 4, "<y>": 4}
    for number, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(number), type=kinds.get(piece, 1))
    model.trainer_spec.model_type = 1
    model.normalizer_spec.name = "identity"
    for name, value in spec.items():
        setattr(model.normalizer_spec, name, value)
    data: bytes = model.SerializeToString()
    return data


PIECES = ["<unk>", "<s>", "</s>", "<x>", "<y>", "▁", "a", "b", "▁a", "ab"]
SENTENCEPIECE = Artifact(
    "sentencepiece",
    {"model": _sentencepiece(PIECES)},
    {"parse_special": ["<x>"], "ordinary_pieces": ["<y>"]},
)

BASES = {
    base.format: base
    for base in (TIKTOKEN, TOKENIZER_JSON, SENTENCEPIECE, WORDPIECE, MERGES, MINBPE)
}


def _swapped(pieces: list[str]) -> list[str]:
    return [*pieces[:-2], pieces[-1], pieces[-2]]


def _vocab(pieces: list[str]) -> dict[str, Any]:
    vocab = {piece: number for number, piece in enumerate(pieces)}
    return {**JSON["model"], "vocab": vocab}


CHANGED: dict[str, Artifact] = {
    "tiktoken: two ids swapped": TIKTOKEN.with_file("ranks", _ranks([*BYTES, b"cd", b"ab"])),
    "tiktoken: the pattern": TIKTOKEN.with_options(pattern=r"\p{L}|\P{L}"),
    "tiktoken: the id of a special token": TIKTOKEN.with_options(
        special_tokens={"<a>": 301, "<b>": 300}
    ),
    "tiktoken: a special token's spelling": TIKTOKEN.with_options(
        special_tokens={"<a>": 300, "<B>": 301}
    ),
    "tiktoken: a special token less": TIKTOKEN.with_options(special_tokens={"<a>": 300}),
    "tiktoken: a token more": TIKTOKEN.with_file("ranks", _ranks([*BYTES, b"ab", b"cd", b"ef"])),
    "tokenizer_json: two ids swapped": _json_artifact(
        model=_vocab(["b", "a", *VOCAB[2:]]),
    ),
    "tokenizer_json: a merge less": _json_artifact(model={**JSON["model"], "merges": []}),
    "tokenizer_json: the normalizer": _json_artifact(normalizer={"type": "NFKC"}),
    "tokenizer_json: the pattern": _json_artifact(pre_tokenizer={"type": "WhitespaceSplit"}),
    "tokenizer_json: a flag of a special token": _json_artifact(
        added_tokens=[{**JSON["added_tokens"][0], "rstrip": True}, *JSON["added_tokens"][1:]]
    ),
    "tokenizer_json: a special token less": _json_artifact(added_tokens=JSON["added_tokens"][:-1]),
    "tokenizer_json: the frame": _json_artifact(
        post_processor={"type": "BertProcessing", "sep": ["</s>", 8], "cls": ["<s>", 7]}
    ),
    "tokenizer_json: a byte that decides nothing": TOKENIZER_JSON.with_file(
        "tokenizer", TOKENIZER_JSON.files["tokenizer"] + b"\n"
    ),
    "tokenizer_json: a config": TOKENIZER_JSON.with_file("config", b"{}"),
    "tokenizer_json: a chat template": TOKENIZER_JSON.with_file("chat_template", b"{{ 1 }}"),
    "tokenizer_json: an added token made ordinary": TOKENIZER_JSON.with_options(
        ordinary_added_tokens=["<pad>"]
    ),
    "sentencepiece: two ids swapped": SENTENCEPIECE.with_file(
        "model", _sentencepiece(_swapped(PIECES))
    ),
    "sentencepiece: the normalization": SENTENCEPIECE.with_file(
        "model", _sentencepiece(PIECES, add_dummy_prefix=False)
    ),
    "sentencepiece: a special token": SENTENCEPIECE.with_options(
        parse_special=[], ordinary_pieces=["<x>", "<y>"]
    ),
    "sentencepiece: the frame": SENTENCEPIECE.with_options(template={"before": ["<s>"]}),
    "sentencepiece: a chat template": SENTENCEPIECE.with_file("chat_template", b"{{ 1 }}"),
    "wordpiece: two ids swapped": WORDPIECE.swapping("vocab", b"a", b"b"),
    "wordpiece: a piece": WORDPIECE.replacing("vocab", b"##b", b"##c"),
    "wordpiece: line ends": WORDPIECE.replacing("vocab", b"a\n", b"a\r\n"),
    "wordpiece: lowercase": WORDPIECE.with_options(lowercase=False),
    "wordpiece: strip_accents": WORDPIECE.with_options(strip_accents=False),
    "wordpiece: tokenize_chinese_chars": WORDPIECE.with_options(tokenize_chinese_chars=False),
    "wordpiece: clean_text": WORDPIECE.with_options(clean_text=False),
    "wordpiece: max_input_chars_per_word": WORDPIECE.with_options(max_input_chars_per_word=99),
    "wordpiece: unk_token": WORDPIECE.with_options(unk_token="<x>"),  # noqa: S106 - a piece
    "wordpiece: a special token": WORDPIECE.with_options(special_tokens={"<x>": 8}),
    "wordpiece: continuing_subword_prefix": WORDPIECE.with_options(continuing_subword_prefix="#"),
    "wordpiece: the frame": WORDPIECE.with_options(template={"before": ["[CLS]"]}),
    "bpe_merges: two ids swapped": MERGES.swapping("merges", b"a b", b"c d</w>"),
    "bpe_merges: another merge": MERGES.replacing("merges", b"ab cd</w>", b"ab d</w>"),
    "bpe_merges: a letter of the header": MERGES.replacing("merges", b"0.2", b"0.3"),
    "bpe_merges: the pattern": MERGES.with_options(pattern=r"\p{L}"),
    "bpe_merges: the normalizers": MERGES.with_options(normalizers=["lowercase"]),
    "bpe_merges: a special token": MERGES.with_options(special_tokens={"<a>": 516, "<b>": 515}),
    "bpe_merges: the frame": MERGES.with_options(template={"before": ["<a>"]}),
    "bpe_merges: the frame's order": MERGES.with_options(
        template={"before": ["<b>"], "after": ["<a>"]}
    ),
    "minbpe: two ids swapped": MINBPE.swapping("model", b"97 98", b"99 100"),
    "minbpe: a special token's id": MINBPE.replacing("model", b"<a> 300", b"<a> 301"),
    "minbpe: a special token's spelling": MINBPE.replacing("model", b"<a> 300", b"<b> 300"),
    "minbpe: the pattern": MINBPE.replacing("model", b"v1\n\n", b"v1\n(?s:.)\n"),
    "minbpe: the frame": MINBPE.with_options(template={"after": ["<a>"]}),
}


@functools.cache
def _of_base(load: Loader, artifact_format: str) -> Entry:
    return load(BASES[artifact_format])


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_moves_it(change: str, load: Loader) -> None:
    base = _of_base(load, CHANGED[change].format)
    changed = load(CHANGED[change])
    assert changed.fingerprint != base.fingerprint
    if "two ids swapped" in change:
        assert changed.vocabulary_sha256 != base.vocabulary_sha256


def test_every_change_is_another_fingerprint(load: Loader) -> None:
    artifacts = [*BASES.values(), *CHANGED.values()]
    assert len({load(artifact).fingerprint for artifact in artifacts}) == len(artifacts)


def test_every_format_is_changed() -> None:
    assert set(BASES) == set(formats()) == {artifact.format for artifact in CHANGED.values()}


def test_every_option_is_changed() -> None:
    """A new option needs a change here, too."""
    for name, artifact_format in formats().items():
        known = {field.name for field in msgspec.structs.fields(artifact_format.options)}
        changed = {
            option
            for artifact in CHANGED.values()
            if artifact.format == name
            for option in artifact.options
            if artifact.options[option] != BASES[name].options.get(option)
        }
        # These can't be changed alone: test_the_options_of_characters_move_it does.
        assert known - changed <= {"base_alphabet", "end_of_word_suffix", "unk_token"}, name


CHARACTERS = Artifact(
    "bpe_merges",
    {"merges": b"a b\n", "vocab": b'{"a": 0, "b": 1, "ab": 2, "<unk>": 3, "<oov>": 4}'},
    {
        "base_alphabet": "characters",
        "pattern": r"\S+",
        "unk_token": "<unk>",
        "end_of_word_suffix": "",
    },
)


def test_the_options_of_characters_move_it(load: Loader) -> None:
    base = load(CHARACTERS).fingerprint
    assert load(CHARACTERS.with_options(unk_token="<oov>")).fingerprint != base  # noqa: S106
    assert load(CHARACTERS.with_options(end_of_word_suffix="</w>")).fingerprint != base
    renumbered = CHARACTERS.replacing("vocab", b'"<oov>": 4', b'"<oov>": 5')
    assert load(renumbered).fingerprint != base


UNCHANGED: dict[str, dict[str, Any]] = {
    "an alias": {"aliases": ["another", "one-more"]},
    "the license": {"license": "MIT"},
    "the source": {"source": "from somewhere else"},
    "the name and the path": {"name": "renamed"},
}


@pytest.mark.parametrize("artifact_format", BASES)
@pytest.mark.parametrize("change", UNCHANGED)
def test_what_decides_no_id_does_not_move_it(
    artifact_format: str, change: str, load: Loader
) -> None:
    base = _of_base(load, artifact_format)
    same = load(BASES[artifact_format], **UNCHANGED[change])
    assert same.fingerprint == base.fingerprint
    assert same.vocabulary_sha256 == base.vocabulary_sha256


def _defaults(artifact_format: str) -> dict[str, Any]:
    """The options of a format that have a default which can be written in a lock."""
    defaults = {}
    for field in msgspec.structs.fields(formats()[artifact_format].options):
        if field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory()
        elif field.default not in (msgspec.NODEFAULT, None):
            defaults[field.name] = field.default
    return defaults


WRITTEN_OUT = [
    (artifact_format, option) for artifact_format in BASES for option in _defaults(artifact_format)
]


@pytest.mark.parametrize(("artifact_format", "option"), WRITTEN_OUT)
def test_a_default_written_out_does_not_move_it(
    artifact_format: str, option: str, load: Loader
) -> None:
    base = BASES[artifact_format]
    absent = dataclasses.replace(
        base, options={key: value for key, value in base.options.items() if key != option}
    )
    if artifact_format == "sentencepiece":  # without the pieces that have to be listed
        plain = [piece for piece in PIECES if piece not in ("<x>", "<y>")]
        absent = Artifact("sentencepiece", {"model": _sentencepiece(plain)})
    if option == "special_tokens":
        absent = absent.with_options(template={})
    written = absent.with_options(**{option: _defaults(artifact_format)[option]})
    assert load(written).fingerprint == load(absent).fingerprint


TEMPLATED = [SENTENCEPIECE, WORDPIECE, MERGES, MINBPE]


@pytest.mark.parametrize("base", TEMPLATED, ids=lambda base: base.format)
@pytest.mark.parametrize("empty", [{}, {"before": [], "after": []}], ids=str)
def test_an_empty_template_is_none(base: Artifact, empty: dict[str, Any], load: Loader) -> None:
    """CONTRACT, section 1: an absent template means nothing around the content."""
    without = {key: value for key, value in base.options.items() if key != "template"}
    absent = dataclasses.replace(base, options=without)
    assert load(absent.with_options(template=empty)).fingerprint == load(absent).fingerprint


@pytest.mark.parametrize("lowercase", [True, False])
def test_strip_accents_written_out_is_what_its_absence_means(
    load: Loader, *, lowercase: bool
) -> None:
    absent = WORDPIECE.with_options(lowercase=lowercase)
    written = absent.with_options(strip_accents=lowercase)
    assert load(absent).tokenizer.encode("É") == load(written).tokenizer.encode("É")
    assert load(absent).fingerprint == load(written).fingerprint


IN_NO_ORDER = {
    "ordinary_added_tokens": TOKENIZER_JSON.with_options(ordinary_added_tokens=["<s>", "</s>"]),
    "parse_special": SENTENCEPIECE.with_options(parse_special=["<x>", "<y>"], ordinary_pieces=[]),
    "ordinary_pieces": SENTENCEPIECE.with_options(parse_special=[], ordinary_pieces=["<x>", "<y>"]),
}


@pytest.mark.parametrize("option", IN_NO_ORDER)
def test_the_order_of_a_list_that_is_a_set_does_not_move_it(option: str, load: Loader) -> None:
    given_so = IN_NO_ORDER[option]
    turned = given_so.with_options(**{option: given_so.options[option][::-1]})
    assert load(turned).fingerprint == load(given_so).fingerprint


def test_the_order_of_tables_does_not_move_it(load: Loader) -> None:
    turned = TIKTOKEN.with_options(special_tokens={"<b>": 301, "<a>": 300})
    assert load(turned).fingerprint == _of_base(load, "tiktoken").fingerprint
    both = TOKENIZER_JSON.with_file("config", b"{}")
    other = dataclasses.replace(both, files=dict(reversed(both.files.items())))
    assert list(both.files) != list(other.files)
    assert load(both).fingerprint == load(other).fingerprint


def test_an_embedded_artifact_has_its_fingerprint_under_another_name(
    tmp_path: pathlib.Path,
) -> None:
    folder = LockedFolder(tmp_path)
    folder.add_embedded("bert-base-uncased", "bert", aliases=["b"])
    entry = load_catalog(folder.root).resolve("b")
    assert entry.fingerprint == EMBEDDED_LOCK["bert-base-uncased"]["fingerprint"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
DESCRIPTIONS = st.fixed_dictionaries(
    {
        "artifact_format": st.sampled_from(["tiktoken", "minbpe"]),
        "files": st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["0", "1"]))),
        "options": st.dictionaries(st.sampled_from(["x", "y"]), JSON_VALUES, max_size=2),
        "controls": st.dictionaries(st.sampled_from(["<a>", "<b>"]), st.integers(0, 3)),
        "before": st.lists(st.integers(0, 2), max_size=2),
        "after": st.lists(st.integers(0, 2), max_size=2),
        "chat_template": st.none() | st.sampled_from(["0", "1"]),
    }
)


def _meaning(description: dict[str, Any]) -> str:
    """Equal for two descriptions that say the same thing: files come in no order."""
    return json.dumps({**description, "files": sorted(description["files"])}, sort_keys=True)


@property_settings(80)
@given(DESCRIPTIONS, DESCRIPTIONS)
def test_equal_descriptions_alone_have_equal_fingerprints(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    same = _meaning(one) == _meaning(other)
    assert (fingerprint(**one) == fingerprint(**other)) == same
    # One thing at a time: two descriptions drawn apart seldom differ in one thing alone.
    for key in one:
        mixed = {**one, key: other[key]}
        assert (fingerprint(**one) == fingerprint(**mixed)) == (_meaning(one) == _meaning(mixed))


@property_settings(100)
@given(JSON_VALUES)
def test_canonical_json_is_json_with_sorted_keys(value: Any) -> None:
    expected = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(canonical_json(value)) == value
    assert len(canonical_json(value)) <= len(expected.encode()) + 5 * expected.count("\\")
    if not any(character in expected for character in "\\\x7f"):
        assert canonical_json(value).decode() == expected


VOCABULARIES = st.dictionaries(
    st.sampled_from([0, 1, 2, 97, 256, 2**32]), st.binary(max_size=2), max_size=4
)


@property_settings(100)
@given(VOCABULARIES, VOCABULARIES)
def test_equal_vocabularies_alone_have_equal_digests(
    one: dict[int, bytes], other: dict[int, bytes]
) -> None:
    assert (vocabulary_digest(one) == vocabulary_digest(other)) == (one == other)
    assert vocabulary_digest(one) == vocabulary_digest(dict(reversed(one.items())))
    moved = {token_id + 1: token for token_id, token in one.items()}
    assert (vocabulary_digest(moved) == vocabulary_digest(one)) == (not one)


@property_settings(30)
@given(st.data())
def test_any_two_ids_swapped_move_both_digests(load: Loader, data: st.DataObject) -> None:
    pieces = WORDPIECE.files["vocab"].split(b"\n")
    first, second = data.draw(
        st.lists(st.sampled_from(pieces), min_size=2, max_size=2, unique=True)
    )
    base, swapped = _of_base(load, "wordpiece"), load(WORDPIECE.swapping("vocab", first, second))
    assert swapped.fingerprint != base.fingerprint
    assert swapped.vocabulary_sha256 != base.vocabulary_sha256
