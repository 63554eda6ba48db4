"""The minbpe format: its parser, its ids against the published algorithm, the embedded model."""

# ruff: noqa: S311 - seeds make these texts repeat; nothing here is a secret

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import importlib.util
import itertools
import json
import pathlib
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.core.tokenizer import ControlSpan, Frame
from service.errors import EngineLimit, InvalidTokenId
from service.formats import FormatError
from service.formats._common import Template
from service.formats._minbpe_model import parse_model
from service.formats.minbpe import (
    FORMAT,
    PROBED_PATTERNS,
    MinbpeOptions,
    MinbpeTokenizer,
    Splitter,
    build,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_TESTS = pathlib.Path(__file__).parents[1]
ARTIFACT = _TESTS.parent / "artifacts" / "minbpe-service"
TRAINED = (ARTIFACT / "minbpe-service.model").read_bytes()
EXAMPLES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((_TESTS / "data" / "worked_examples.json").read_text(encoding="utf-8"))
}
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
END, START = "<|endoftext|>", "<|startoftext|>"


def model_file(
    merges: Sequence[tuple[int, int]] = (),
    pattern: str = "",
    special_tokens: Mapping[str, int] | None = None,
) -> bytes:
    """A `.model` file as minbpe's save() writes it."""
    special_tokens = special_tokens or {}
    lines = ["minbpe v1", pattern, str(len(special_tokens))]
    lines += [f"{spelling} {token_id}" for spelling, token_id in special_tokens.items()]
    lines += [f"{left} {right}" for left, right in merges]
    return "".join(f"{line}\n" for line in lines).encode()


def load(data: bytes, template: Template | None = None) -> MinbpeTokenizer:
    return build({"model": data}, MinbpeOptions(template=template))


class Reference:
    """minbpe's load, _encode_chunk, encode and decode, in the slow way that it publishes."""

    def __init__(self, data: bytes) -> None:
        lines = iter(data.decode().split("\n")[:-1])
        assert next(lines).strip() == "minbpe v1"
        self.pattern = next(lines).strip()
        self.special: dict[str, int] = {}
        for _ in range(int(next(lines))):
            spelling, token_id = next(lines).split()
            self.special[spelling] = int(token_id)
        self.merges: dict[tuple[int, int], int] = {}
        self.vocab = {byte: bytes([byte]) for byte in range(256)}
        for new, line in enumerate(lines, start=256):
            left, right = map(int, line.split())
            self.merges[left, right] = new
            self.vocab[new] = self.vocab[left] + self.vocab[right]
        self.vocab |= {token_id: text.encode() for text, token_id in self.special.items()}

    def encode_chunk(self, chunk: str) -> list[int]:
        ids = list(chunk.encode())
        while len(ids) >= 2:
            stats = dict.fromkeys(itertools.pairwise(ids))
            pair = min(stats, key=lambda p: self.merges.get(p, float("inf")))
            if pair not in self.merges:
                break
            merged = []
            i = 0
            while i < len(ids):
                if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
                    merged.append(self.merges[pair])
                    i += 2
                else:
                    merged.append(ids[i])
                    i += 1
            ids = merged
        return ids

    def encode_ordinary(self, text: str) -> list[int]:
        chunks = regex.findall(self.pattern, text) if self.pattern else [text]
        return [token_id for chunk in chunks for token_id in self.encode_chunk(chunk)]

    def encode(self, text: str, allowed: frozenset[str] | None = None) -> list[int]:
        special = {k: v for k, v in self.special.items() if allowed is None or k in allowed}
        if not special:
            return self.encode_ordinary(text)
        ids: list[int] = []
        for part in regex.split("(" + "|".join(map(regex.escape, special)) + ")", text):
            ids += [special[part]] if part in special else self.encode_ordinary(part)
        return ids

    def decode(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.vocab[token_id] for token_id in ids)


@functools.cache
def trained() -> tuple[MinbpeTokenizer, Reference]:
    return load(TRAINED), Reference(TRAINED)


@functools.cache
def training() -> ModuleType:
    """train.py as a module; it is a script and belongs to no package."""
    spec = importlib.util.spec_from_file_location("minbpe_service_train", ARTIFACT / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Ids


WORDS = """the ing don't 'LL 1234567 é naïve Straße привет नमस्ते తెలుగు ภาษาไทย العربية 你好
    こんにちは 한국어 👩‍💻 🇩🇪 ( ) () <| |>"""
SNIPPETS = st.sampled_from(
    [
        *WORDS.split(),
        *("  ", "\n", "\r\n", "\t", "e\u0301", "\u00a0", "\u2028", "\u0000", "\u017f", "'\u017f"),
        *(END, START),
    ]
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(SNIPPETS, max_size=25).map("".join))


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_the_trained_model_gives_the_references_ids(text: str) -> None:
    tokenizer, reference = trained()
    ids = tokenizer.encode(text)
    assert ids == reference.encode_ordinary(text)
    assert tokenizer.decode_bytes(ids) == text.encode() == reference.decode(ids)
    assert not set(ids) & set(tokenizer.controls.values())
    assert tokenizer.encode_special(text) == reference.encode(text)
    only = frozenset({START})
    spans = tokenizer.find_controls(text, only)
    assert tokenizer.encode_spans(text, spans) == reference.encode(text, only)


def test_the_corpus_gives_the_references_ids() -> None:
    tokenizer, reference = trained()
    text = (ARTIFACT / "corpus.txt").read_text(encoding="utf-8")
    assert tokenizer.encode(text) == reference.encode_ordinary(text)


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Small models over a to d, in which merges compete and may spell the same bytes."""
    alphabet = [97, 98, 99, 100]
    merges: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 20))):
        known = [*alphabet, *range(256, 256 + len(merges))]
        pair = draw(st.tuples(st.sampled_from(known), st.sampled_from(known)))
        if pair not in merges:
            merges.append(pair)
    return model_file(merges, "", {"<d>": 1000})


def _check_against_the_reference(data: bytes, text: str) -> None:
    tokenizer, reference = load(data), Reference(data)
    assert tokenizer.encode(text) == reference.encode_ordinary(text)
    assert tokenizer.encode_special(text) == reference.encode(text)
    assert tokenizer.vocabulary() == reference.vocab


PARTS = st.lists(st.sampled_from(["a", "b", "c", "d", " ", "<d>"]), max_size=50)


@settings(max_examples=300, deadline=None)
@given(models(), PARTS)
@example(model_file([(97, 98), (98, 99), (256, 99), (97, 257)]), ["a", "b", "c"])
@example(model_file([(98, 99), (97, 98), (257, 99), (97, 256)]), ["a", "b", "c"])
@example(model_file([(97, 97), (256, 97), (256, 256)]), ["a"] * 7)
def test_any_model_gives_the_references_ids(data: bytes, parts: list[str]) -> None:
    _check_against_the_reference(data, "".join(parts))


@settings(max_examples=20, deadline=None)  # each loads a model and probes its pattern
@given(models(), PARTS, st.sampled_from([GPT2, r"(?s:.{1,5})"]))
def test_any_model_with_a_pattern_gives_the_references_ids(
    data: bytes, parts: list[str], pattern: str
) -> None:
    data = data.replace(b"\n\n", f"\n{pattern}\n".encode(), 1)
    _check_against_the_reference(data, "".join(parts))


def test_one_spelling_under_two_ids_keeps_both() -> None:
    tokenizer = load(model_file([(97, 98), (98, 99), (256, 99), (97, 257)]))
    assert tokenizer.vocabulary()[258] == tokenizer.vocabulary()[259] == b"abc"
    assert tokenizer.encode("abc") == [258]
    assert load(model_file([(98, 99), (97, 98), (257, 99), (97, 256)])).encode("abc") == [259]
    assert tokenizer.decode_bytes([258, 259]) == b"abcabc"


def test_worked_example_of_bytes() -> None:
    case = EXAMPLES["byte-bpe-basic"]
    tokenizer = load(model_file([(left, right) for left, right, _ in case["merges"]]))
    assert tokenizer.encode(case["text"]) == case["ids"]
    assert len(tokenizer.vocabulary()) == case["vocab_size"]


def test_worked_example_of_bytes_that_are_no_character_alone() -> None:
    case = EXAMPLES["bytes-before-text"]
    parts = load(model_file()).byte_parts([int(byte, 16) for byte in case["id_bytes_hex"]])
    assert b"".join(parts).decode() == case["joined"]
    assert "".join(part.decode(errors="replace") for part in parts) == case["each_alone_replaced"]


@pytest.mark.timeout(60)
def test_time_of_one_letter() -> None:
    tokenizer = load(model_file([(97, 97), (256, 256), (257, 257), (258, 258)]))
    assert tokenizer.encode("a" * 300_000) == [259] * (300_000 // 16)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["", None], ids=["no pattern", "its own pattern"])
def test_time_of_one_long_word(pattern: str | None) -> None:
    data = TRAINED if pattern is None else TRAINED.replace(TRAINED.split(b"\n")[1], b"", 1)
    word = "".join(random.Random(7).choices("etaoinshrdlu", k=300_000))
    tokenizer = load(data)
    assert tokenizer.decode_bytes(tokenizer.encode(word)) == word.encode()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [" ", "\n", " \n", "!", "7"])
def test_time_of_runs_that_the_pattern_could_backtrack_in(text: str) -> None:
    tokenizer, _ = trained()
    run = text * 300_000 + "x"
    assert tokenizer.decode_bytes(tokenizer.encode(run)) == run.encode()


def test_threads_get_the_same_ids() -> None:
    tokenizer = load(TRAINED)
    rng = random.Random(3)
    texts = [" ".join(rng.choices(["some", "words", "repeat", "1999"], k=400)) for _ in range(40)]
    expected = [trained()[1].encode_ordinary(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == expected


def test_an_answer_that_is_changed_does_not_change_the_next_one() -> None:
    tokenizer = load(model_file([(97, 98)], r"(?s:.+)"))
    tokenizer.encode("ab").append(0)
    assert tokenizer.encode("ab") == [256]


# Special tokens, decoding, facts


def test_special_tokens_are_text_unless_asked_for() -> None:
    tokenizer, _ = trained()
    text = f"a{END}b{START}{END}"
    assert 1024 not in tokenizer.encode(text)
    assert tokenizer.encode_special(text) == [97, 1024, 98, 1025, 1024]
    spans = tokenizer.find_controls(text, frozenset({START}))
    assert spans == [ControlSpan(15, 30, START)]
    assert tokenizer.encode_spans(text, spans).count(1025) == 1
    assert 1024 not in tokenizer.encode_spans(text, spans)


def test_decoding_spells_every_id() -> None:
    tokenizer, _ = trained()
    assert tokenizer.decode_bytes([1024, 104, 105, 1025]) == f"{END}hi{START}".encode()
    assert tokenizer.byte_parts([0xC3, 0xA9]) == [b"\xc3", b"\xa9"]
    assert tokenizer.decode_bytes([]) == b""


@pytest.mark.parametrize("bad", [1026, -1, 2**70])
def test_decoding_refuses_an_unknown_id(bad: int) -> None:
    tokenizer, _ = trained()
    with pytest.raises(InvalidTokenId) as caught:
        tokenizer.decode_bytes([97, bad])
    assert caught.value.members == {"index": 1, "id": bad}
    with pytest.raises(InvalidTokenId):
        tokenizer.byte_parts([bad])


def test_the_vocabulary_can_be_changed_by_its_receiver_alone() -> None:
    tokenizer = load(model_file())
    dict(tokenizer.vocabulary()).clear()
    vocabulary = tokenizer.vocabulary()
    assert isinstance(vocabulary, dict)
    vocabulary.clear()
    assert tokenizer.decode_bytes([97]) == b"a"


def test_facts() -> None:
    tokenizer, _ = trained()
    assert tokenizer.facts.library == "tokenizer-service"  # the encoder is written here
    assert tokenizer.facts.coverage == "every_byte"
    assert tokenizer.facts.round_trip == "exact"
    assert tokenizer.facts.roles == {"bos": 1025, "eos": 1024}
    assert tokenizer.facts.pipeline["pre_tokenizer"] == {
        "type": "Split",
        "pattern": training().PATTERN,
    }
    assert load(model_file()).facts.pipeline["pre_tokenizer"] is None
    assert tokenizer.unknown_id is None
    assert FORMAT.required_roles == {"model"}
    assert not FORMAT.optional_roles


def test_the_template_frames() -> None:
    assert trained()[0].frame == Frame((), ())
    template = Template(before=[START], after=[END, END])
    assert load(TRAINED, template).frame == Frame((1025,), (1024, 1024))


def test_the_template_names_special_tokens_only() -> None:
    with pytest.raises(FormatError, match="'<s>' is not a special token"):
        load(TRAINED, Template(before=["<s>"]))


# The parser


def test_parse_keeps_order_and_blank_like_content() -> None:
    model = parse_model(model_file([(97, 98), (256, 99)], "a|\u2028|(?s:.)", {"<x>": 300}))
    assert model.pattern == "a|\u2028|(?s:.)"
    assert model.special_tokens == {"<x>": 300}
    assert model.merges == {(97, 98): 256, (256, 99): 257}


def test_lines_may_end_in_cr_lf() -> None:
    assert parse_model(TRAINED.replace(b"\n", b"\r\n")) == parse_model(TRAINED)


def test_a_special_token_may_leave_a_hole_before_its_id() -> None:
    tokenizer = load(model_file([(97, 98)], "", {END: 5000}))
    assert tokenizer.encode_special(f"ab{END}") == [256, 5000]
    with pytest.raises(InvalidTokenId):
        tokenizer.decode_bytes([257])


REFUSED = {
    "empty": (b"", "line 1: the file ends within a line"),
    "only a line end": (b"\n", "line 1: expected 'minbpe v1'"),
    "header of another version": (b"minbpe v2\n\n0\n", "line 1: expected 'minbpe v1'"),
    "header with a blank": (b"minbpe v1 \n\n0\n", "line 1: expected 'minbpe v1'"),
    "byte order mark": (b"\xef\xbb\xbfminbpe v1\n\n0\n", "line 1: expected 'minbpe v1'"),
    "Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 6097\n",
        "line 1: a Git LFS pointer",
    ),
    "not UTF-8": (b"minbpe v1\n\xff\n0\n", "line 2: not UTF-8"),
    "lone CR": (b"minbpe v1\n\n0\r97 98\n", "line 3: a CR that no LF follows"),
    "ends after the header": (b"minbpe v1\n", "line 1: the file ends before the number"),
    "ends after the pattern": (b"minbpe v1\n\n", "line 2: the file ends before the number"),
    "cut within a special token": (
        b"minbpe v1\n\n2\n<a> 300\n",
        "line 4: the file ends before all 2 special tokens",
    ),
    "cut within a number": (TRAINED[:-1], "line 773: the file ends within a line"),
    "cut within a merge": (model_file([(97, 98)])[:-4] + b"\n", "line 4: expected two ids"),
    "blanks around the pattern": (b"minbpe v1\n.| \n0\n", "line 2: blanks around the pattern"),
    "blank pattern": (b"minbpe v1\n \n0\n", "line 2: blanks around the pattern"),
    "no number of special tokens": (b"minbpe v1\n\n\n", "line 3: expected an integer"),
    "negative number": (b"minbpe v1\n\n-1\n", "line 3: expected an integer"),
    "number in words": (b"minbpe v1\n\nnone\n", "line 3: expected an integer"),
    "number with underscore": (b"minbpe v1\n\n0\n9_7 98\n", "line 4: expected an integer"),
    "number with zero before": (b"minbpe v1\n\n0\n097 98\n", "line 4: expected an integer"),
    "other digits": ("minbpe v1\n\n0\n\u0669\u0667 98\n".encode(), "line 4: expected an integer"),
    "thousands of digits": (
        b"minbpe v1\n\n" + b"1" * 5000 + b"\n",
        "line 3: expected an integer",
    ),
    "id past 32 bits": (model_file([], "", {END: 2**32}), "line 4: expected an integer"),
    "special token of two words": (
        b"minbpe v1\n\n1\nend of text 300\n",
        "line 4: expected a special token without blanks",
    ),
    "special token without id": (
        b"minbpe v1\n\n1\n<a>\n",
        "line 4: expected a special token without blanks",
    ),
    "id of a special token in words": (b"minbpe v1\n\n1\n<a> b\n", "line 4: expected an integer"),
    "special token twice": (
        b"minbpe v1\n\n2\n<a> 300\n<a> 301\n",
        "line 5: special token '<a>' stands twice",
    ),
    "special tokens on one id": (
        b"minbpe v1\n\n2\n<a> 300\n<b> 300\n",
        "line 5: id 300 stands for two special tokens",
    ),
    "special token on a byte": (
        model_file([], "", {"<a>": 97}),
        "line 4: special token '<a>' has the id of an ordinary token",
    ),
    "special token on a merge": (
        model_file([(97, 98), (98, 99)], "", {"<b>": 300, "<a>": 257}),
        "line 5: special token '<a>' has the id of an ordinary token",
    ),
    "special token begins another": (
        model_file([], "", {"<a>b": 300, "<c>": 301, "<a>": 302}),
        "special token '<a>' begins special token '<a>b'",
    ),
    "more special tokens than said": (b"minbpe v1\n\n0\n<a> 300\n", "line 4: expected an integer"),
    "merge of one id": (b"minbpe v1\n\n0\n97\n", "line 4: expected two ids"),
    "merge of three ids": (b"minbpe v1\n\n0\n97 98 256\n", "line 4: expected two ids"),
    "merge with a tab": (b"minbpe v1\n\n0\n97\t98\n", "line 4: expected two ids"),
    "merge with two blanks": (b"minbpe v1\n\n0\n97  98\n", "line 4: expected two ids"),
    "blank line between": (b"minbpe v1\n\n0\n97 98\n\n98 99\n", "line 5: expected two ids"),
    "blank line at the end": (model_file([(97, 98)]) + b"\n", "line 5: expected two ids"),
    "garbage at the end": (model_file([(97, 98)]) + b"# end\n", "line 5: expected an integer"),
    "NUL at the end": (model_file([(97, 98)]) + b"\0", "line 5: the file ends within a line"),
    "merge of itself": (model_file([(256, 97)]), "line 4: the merge that makes id 256 refers to"),
    "merge of a later id": (
        model_file([(97, 98), (97, 258), (98, 99)]),
        "line 5: the merge that makes id 257 refers to id 258",
    ),
    "pair twice": (
        model_file([(97, 98), (98, 99), (97, 98)]),
        "line 6: the pair 97 98 stands twice",
    ),
    "tokens that double and double": (
        model_file([(97, 97), *((new, new) for new in range(256, 282))]),
        "the tokens exceed",
    ),
    "pattern that does not compile": (model_file([], "("), "line 2: the pattern is refused"),
    "pattern with a list": (model_file([], r"\L<words>|."), "line 2: the pattern is refused"),
    "pattern nested deeply": (
        model_file([], "(?:" * 5000 + ")" * 5000),
        "line 2: the pattern is refused",
    ),
    "pattern with a group": (
        model_file([], r"(?s:(a)|.)"),
        "line 2: the pattern has a capturing group",
    ),
    "pattern with a named group": (
        model_file([], r"(?s:(?P<x>a)|.)"),
        "line 2: the pattern has a capturing group",
    ),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError) as caught:
        load(data)
    assert reason in caught.value.reason
    assert "\n" not in caught.value.reason
    assert caught.value.role == "model"


@pytest.mark.parametrize(
    "pattern",
    [
        r".",  # no line feed
        r"\w+",
        r"\S+|\n",
        r"(?s:..)",  # the last of an odd number
        r"(?s:...)",  # ... and all code points in a row are a multiple of three
        r"\p{L}+|\P{L}{2}|\n",
        r"[^\u0378]",  # everything but one unassigned code point
        r"[^\U0002f800]+",
        r"(?r)(?s:.)",  # backwards
        r"(?s:^.)",
        r"(?s:a\Kb|.)",
    ],
)
def test_a_pattern_that_passes_over_text_is_refused(pattern: str) -> None:
    with pytest.raises(FormatError, match="line 2: the pattern passes over") as caught:
        load(model_file([], pattern))
    assert caught.value.role == "model"


@pytest.mark.parametrize("pattern", [GPT2, r"(?s:.)", r"(?s:.*)", r"(?s:.)|", r"\s+|\S+"])
def test_a_pattern_that_covers_all_text_is_taken(pattern: str) -> None:
    tokenizer = load(model_file([(97, 98)], pattern))
    assert tokenizer.decode_bytes(tokenizer.encode("ab\n é")) == "ab\n é".encode()


def test_a_pattern_that_takes_quadratic_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by fuzzing: a start that hung, with the interpreter held."""
    monkeypatch.setattr("service.formats.minbpe._PROBE_SECONDS", 0.2)
    with pytest.raises(FormatError, match="line 2: splitting a text of all code points"):
        Splitter(r"[^\s\p{L}\p{N}]++x|\p{L}+|\p{N}+|\s+|[^\s\p{L}\p{N}]")


def test_patterns_that_a_start_does_not_probe_pass_the_probe() -> None:
    pattern = parse_model(TRAINED).pattern
    assert {hashlib.sha256(pattern.encode()).hexdigest()} == PROBED_PATTERNS
    Splitter(pattern).probe()


def test_a_gap_that_the_probe_did_not_show_is_an_error_and_no_loss() -> None:
    tokenizer = load(model_file([], r"(?s:zeb\Kra|.)"))
    assert tokenizer.encode("zeb") == [122, 101, 98]
    with pytest.raises(EngineLimit):
        tokenizer.encode("a zebra")


# Training


def _run_training(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "train.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.timeout(120)
def test_training_again_gives_the_same_bytes() -> None:
    done = _run_training(ARTIFACT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.timeout(120)
def test_check_tells_another_model_and_another_corpus(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(ARTIFACT, folder)
    model = folder / "minbpe-service.model"
    (folder / "corpus.txt").write_text("aaabdaaabac", encoding="utf-8")
    assert _run_training(folder, "--check").returncode == 1
    assert model.read_bytes() == TRAINED
    assert _run_training(folder).returncode == 0
    assert _run_training(folder, "--check").returncode == 0
    model.unlink()
    assert _run_training(folder, "--check").returncode == 1


def test_the_script_does_not_need_the_service() -> None:
    source = (ARTIFACT / "train.py").read_text(encoding="utf-8")
    assert "import service" not in source
    assert "from service" not in source


def test_the_trained_model() -> None:
    model = parse_model(TRAINED)
    assert model.special_tokens == {END: 1024, START: 1025}
    assert len(model.merges) == 1024 - 256
    assert model.pattern == training().PATTERN


def _training_words(words: Mapping[str, int], end: str | None) -> dict[tuple[int, ...], int]:
    """Words as symbols; byte 0 is the end of a word."""
    return {(*word.encode(), *([0] if end else [])): count for word, count in words.items()}


def _learned(chunks: Mapping[tuple[int, ...], int], merges: int) -> list[list[Any]]:
    names = {byte: chr(byte) for byte in range(1, 256)} | {0: "</w>"}
    found = []
    for new, ((left, right), count) in enumerate(training().learn(chunks, 256, 255 + merges), 256):
        found.append([names[left], names[right], count])
        names[new] = names[left] + names[right]
    return found


@pytest.mark.parametrize("case", [k for k, v in EXAMPLES.items() if "merges" in v and "words" in v])
def test_worked_example_of_training(case: str) -> None:
    data = EXAMPLES[case]
    assert data["tie"] == "the pair met first"
    chunks = _training_words(data["words"], data.get("end_of_word"))
    assert _learned(chunks, len(data["merges"])) == data["merges"]


@pytest.mark.parametrize("case", [k for k, v in EXAMPLES.items() if "counts" in v])
def test_worked_example_of_counts(case: str) -> None:
    data = EXAMPLES[case]
    if "words" in data:
        chunks = _training_words(data["words"], data.get("end_of_word"))
        sequences = list(chunks.items())
    else:
        sequences = [(tuple(chunk.encode()), 1) for chunk in data["chunks"]]
    counts = training().pair_counts(sequences)
    for left, right, count in data["counts"]:
        assert counts[ord(left), 0 if right == "</w>" else ord(right)] == count


def test_worked_example_of_chunks_is_cut_by_the_pattern() -> None:
    data = EXAMPLES["pairs-never-cross-chunks"]
    chunks = training().chunk_counts("".join(data["chunks"]))
    assert list(chunks) == [tuple(chunk.encode()) for chunk in dict.fromkeys(data["chunks"])]
    assert sum(len(chunk) * count for chunk, count in chunks.items()) == data["symbols"]
    assert len({symbol for chunk in chunks for symbol in chunk}) == data["distinct"]


def test_worked_example_of_overlap() -> None:
    data = EXAMPLES["overlapping-pairs"]
    symbols = [ord(symbol) for symbol in data["symbols"]]
    assert training().pair_counts([(symbols, 1)]) == {(97, 97): data["counted"]}
    assert training().replace(symbols, (97, 97), 256) == [256, 97]


def test_a_tie_goes_to_the_pair_that_stands_first_in_the_text() -> None:
    data = EXAMPLES["a-tie-needs-a-stated-rule"]
    assert _learned(_training_words(data["words"], None), 1) == [["b", "a", 9]]
    assert _learned({tuple(b"cdabcdab"): 1}, 1) == [["c", "d", 2]]
    assert _learned({tuple(b"abcdabcd"): 1}, 1) == [["a", "b", 2]]


def test_training_stops_when_no_pair_occurs_twice() -> None:
    assert _learned({tuple(b"abcab"): 1}, 50) == [["a", "b", 2]]
    assert _learned({}, 50) == []


def _minbpe_train(text: str, vocabulary_size: int) -> list[tuple[int, int]]:
    """RegexTokenizer.train as published: no weights, all counts again in every round."""
    chunks = [list(chunk.encode()) for chunk in regex.findall(training().PATTERN, text)]
    merges: list[tuple[int, int]] = []
    for new in range(256, vocabulary_size):
        stats: dict[tuple[int, int], int] = {}
        for chunk in chunks:
            for pair in itertools.pairwise(chunk):
                stats[pair] = stats.get(pair, 0) + 1
        best = max(stats, key=lambda pair: stats[pair])
        merges.append(best)
        chunks = [training().replace(chunk, best, new) for chunk in chunks]
    return merges


def test_training_equals_minbpes() -> None:
    text = (ARTIFACT / "corpus.txt").read_text(encoding="utf-8")[:6000]
    learned = training().learn(training().chunk_counts(text), 256, 355)
    assert [pair for pair, _ in learned] == _minbpe_train(text, 356)
