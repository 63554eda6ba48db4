"""The worked examples: those of a tokenizer.json are run here, and none is left without a test."""

from __future__ import annotations

import ast
import json
import math
import pathlib
from typing import TYPE_CHECKING, Any

import pytest

from service.core.policy import DecodeMode
from service.core.utf8 import read_utf8
from service.formats.minbpe import MinbpeOptions
from service.formats.minbpe import build as build_minbpe
from service.formats.tokenizer_json import TokenizerJsonOptions
from service.formats.tokenizer_json import build as build_tokenizer_json
from service.formats.wordpiece import WordPieceOptions
from service.formats.wordpiece import build as build_wordpiece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.tokenizer import Tokenizer

TESTS = pathlib.Path(__file__).parent
EXAMPLES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((TESTS / "data" / "worked_examples.json").read_text(encoding="utf-8"))
}

_HERE = "test_worked_examples.py::"
_MINBPE = "formats/test_minbpe.py::test_worked_example_"
_MERGES = "formats/test_bpe_merges.py::test_worked_example_"
COVERED = {
    "merge-order-beats-longest-match": [f"{_HERE}test_merge_order"],
    "a-rule-becomes-applicable-after-another": [f"{_HERE}test_merge_order"],
    "word-bpe-training": [
        f"{_MINBPE}of_training",
        f"{_HERE}test_words_with_an_end_mark",
        f"{_MERGES}with_the_mark_on_the_last_letter",
    ],
    "word-bpe-six-merges": [
        f"{_HERE}test_words_with_an_end_mark",
        f"{_HERE}test_six_merges_are_the_first_six",
        f"{_MERGES}with_the_mark_on_the_last_letter",
    ],
    "weighted-pair-counts": [f"{_MINBPE}of_counts"],
    "word-bpe-without-end-marker": [f"{_MINBPE}of_training", f"{_MERGES}without_end_mark"],
    "word-bpe-without-end-marker-2": [f"{_MINBPE}of_training", f"{_MERGES}without_end_mark"],
    "a-tie-needs-a-stated-rule": [
        f"{_MINBPE}of_counts",
        "formats/test_minbpe.py::test_a_tie_goes_to_the_pair_that_stands_first_in_the_text",
    ],
    "pairs-never-cross-chunks": [
        f"{_MINBPE}of_counts",
        f"{_MINBPE}of_chunks_is_cut_by_the_pattern",
    ],
    "overlapping-pairs": [f"{_MINBPE}of_overlap", f"{_HERE}test_overlapping_pairs"],
    "byte-bpe-basic": [f"{_MINBPE}of_bytes"],
    "bytes-before-text": [
        f"{_MINBPE}of_bytes_that_are_no_character_alone",
        f"{_HERE}test_bytes_before_text",
    ],
    "unigram-best-path": [f"{_HERE}test_unigram_best_path"],
    "normalization-erases": [f"{_HERE}test_normalization_erases"],
    "wordpiece-training-score": [f"{_HERE}test_wordpiece_is_greedy"],
}
"""Which tests an example is run by: what it says of training and of encoding."""


def test_every_example_has_its_tests() -> None:
    assert set(COVERED) == set(EXAMPLES)
    for named in {name for names in COVERED.values() for name in names}:
        file, _, function = named.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, named


def load(model: Mapping[str, Any], **parts: Any) -> Tokenizer:
    """A tokenizer.json of a model and what else is given."""
    definition = {"version": "1.0", "added_tokens": [], "model": model, **parts}
    return build_tokenizer_json(
        {"tokenizer": json.dumps(definition).encode()}, TokenizerJsonOptions()
    )


def bpe(merges: Sequence[Sequence[str]], letters: str, **more: Any) -> dict[str, Any]:
    pieces = [*letters, *("".join(merge) for merge in merges)]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    return {"type": "BPE", "vocab": vocab, "merges": [list(merge) for merge in merges], **more}


@pytest.mark.parametrize(
    "case", [name for name, case in EXAMPLES.items() if "rules_in_order" in case]
)
def test_merge_order(case: str) -> None:
    example = EXAMPLES[case]
    model = bpe(example["rules_in_order"], "".join(sorted(set(example["text"]))))
    tokenizer = load(model, decoder={"type": "Fuse"})
    ids = tokenizer.encode(example["text"])
    assert ids == [model["vocab"][piece] for piece in example["pieces"]]
    assert tokenizer.decode_bytes(ids).decode() == example["text"]


def test_ids_of_the_same_text_that_encoding_does_not_give() -> None:
    example = EXAMPLES["merge-order-beats-longest-match"]
    model = bpe(example["rules_in_order"], "abcd")
    tokenizer = load(model, decoder={"type": "Fuse"})
    others = [model["vocab"]["ab"], model["vocab"]["cd"]]
    assert tokenizer.decode_bytes(others).decode() == example["text"]
    assert tokenizer.encode(example["text"]) != others


END = "\x01"


@pytest.mark.parametrize("case", ["word-bpe-training", "word-bpe-six-merges"])
def test_words_with_an_end_mark(case: str) -> None:
    """Merges of minbpe are of any two symbols, so one byte can be the examples' `</w>`."""
    example = EXAMPLES[case]
    spelled = {chr(byte): byte for byte in range(0x80)}
    lines = []
    for left, right, _ in example["merges"]:
        one, other = left.replace("</w>", END), right.replace("</w>", END)
        lines.append(f"{spelled[one]} {spelled[other]}\n")
        spelled[one + other] = 255 + len(lines)
    tokenizer = build_minbpe(
        {"model": f"minbpe v1\n\n0\n{''.join(lines)}".encode()}, MinbpeOptions()
    )
    for word, pieces in example["encodings"].items():
        expected = [spelled[piece.replace("</w>", END)] for piece in pieces]
        assert tokenizer.encode(word + END) == expected, word


def test_six_merges_are_the_first_six() -> None:
    six = EXAMPLES["word-bpe-six-merges"]["merges"]
    assert EXAMPLES["word-bpe-training"]["merges"][:6] == six


def test_overlapping_pairs() -> None:
    example = EXAMPLES["overlapping-pairs"]
    model = bpe([example["pair"]], "a")
    assert load(model).encode("".join(example["symbols"])) == [
        model["vocab"][piece] for piece in example["merged"]
    ]


BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


def test_bytes_before_text() -> None:
    """A byte fallback, where the library's own decoder reads each byte piece as text."""
    example = EXAMPLES["bytes-before-text"]
    tokenizer = load(
        {
            "type": "BPE",
            "vocab": {piece: number for number, piece in enumerate(["<unk>", *BYTE_PIECES])},
            "merges": [],
            "unk_token": "<unk>",
            "byte_fallback": True,
        },
        decoder={
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
    )
    ids = [1 + int(byte, 16) for byte in example["id_bytes_hex"]]
    assert tokenizer.encode(example["joined"]) == ids
    assert tokenizer.decode_bytes(ids).decode() == example["joined"]
    alone = [
        read_utf8(tokenizer.decode_bytes([token_id]), DecodeMode.REPLACE, [token_id], list)
        for token_id in ids
    ]
    assert "".join(text for text, _ in alone) == example["each_alone_replaced"]
    assert [replacements for _, replacements in alone] == [1, 1]


def test_unigram_best_path() -> None:
    example = EXAMPLES["unigram-best-path"]
    scores = [[piece, math.log(chance)] for piece, chance in example["probabilities"].items()]
    pieces = [["<unk>", 0.0], *scores]
    tokenizer = load({"type": "Unigram", "unk_id": 0, "vocab": pieces})
    order = [piece for piece, _ in pieces]
    assert tokenizer.encode(example["text"]) == [order.index(piece) for piece in example["pieces"]]
    chances = example["probabilities"]
    for path, score in example["scores"].items():
        assert math.prod(chances[piece] for piece in path.split()) == pytest.approx(score)
    # With the pieces alone more likely than the pair, the other path is the best.
    likelier = [["<unk>", 0.0], ["a", math.log(0.7)], ["b", math.log(0.7)], ["ab", math.log(0.4)]]
    other = load({"type": "Unigram", "unk_id": 0, "vocab": likelier})
    assert other.encode(example["text"]) == [order.index("a"), order.index("b")]


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_normalization_erases(form: str) -> None:
    written, other = EXAMPLES["normalization-erases"][form]
    assert written != other
    letters = "".join(dict.fromkeys(f"A\u00e9{written}{other}"))
    tokenizer = load(bpe([], letters), normalizer={"type": form.upper()}, decoder={"type": "Fuse"})
    decoded = {tokenizer.decode_bytes(tokenizer.encode(text)).decode() for text in (written, other)}
    assert tokenizer.encode(written) == tokenizer.encode(other)
    assert len(decoded) == 1
    plain = load(bpe([], letters), decoder={"type": "Fuse"})
    assert all(plain.decode_bytes(plain.encode(text)).decode() == text for text in (written, other))


def test_wordpiece_is_greedy() -> None:
    """The score is a heuristic of training; what the example says of encoding holds here."""
    assert "greedy longest match first" in EXAMPLES["wordpiece-training-score"]["why"]
    pieces = [
        "[UNK]",
        "un",
        "una",
        "##aff",
        "##ff",
        "##able",
        "##a",
        "##b",
        "ab",
        "abc",
        "##cd",
        "##d",
    ]
    tokenizer = build_wordpiece(
        {"vocab": "\n".join(pieces).encode()}, WordPieceOptions(lowercase=True)
    )

    def spelled(text: str) -> list[str]:
        return [pieces[token_id] for token_id in tokenizer.encode(text)]

    # `un ##aff ##able` is whole, but the longest start is `una`, and its rest is taken as it comes.
    assert spelled("unaffable") == ["una", "##ff", "##able"]
    assert spelled("abcd") == ["abc", "##d"]
    assert spelled("abd abe") == ["ab", "##d", "[UNK]"]
    assert spelled("unaffablez ab") == ["[UNK]", "ab"]
