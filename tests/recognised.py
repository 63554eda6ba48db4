"""The reference libraries with control spellings recognised at given places and nowhere else.

A library knows of spellings, not of places. So it is told of another spelling at the id of each
control token, one that no text holds, and of none of the real ones: where a control token is
to be recognised, the other spelling stands in the text that it is given.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Protocol

import sentencepiece
import tiktoken
import tokenizers
from hypothesis import strategies as st
from reference import (
    MinbpeReference,
    SentencePieceReference,
    TiktokenReference,
    TokenizersReference,
    reference,
)
from sentencepiece import sentencepiece_model_pb2

from service.catalog.loading import load_catalog
from tests.locks import DATA, LockedFolder
from tests.mixed_texts import mixed_texts

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Mapping, Sequence

    from service.core.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Spelling:
    """What a library's search for a control token heeds."""

    content: str
    is_control: bool = True
    single_word: bool = False
    normalized: bool = False
    """Looked for after all others, in the text as the normalizer made it."""
    lowercase: bool = False
    """The normalizer makes letters small, those of the spelling, too."""
    after_blank: bool = False
    """Normalized itself, it begins with the blank that the normalizer puts before all text."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A control spelling at a place of a text."""

    start: int
    end: int
    content: str


def stand_in(content: str, number: int) -> str:
    """The other spelling: it begins and ends as the real one, for the sake of neighbours."""
    return f"{content[0]}\U00105afe{number}\U00105aff{content[-1]}"


class Limited(Protocol):
    """A reference library that recognises what it is told to."""

    controls: Mapping[str, int]
    spellings: Sequence[Spelling]

    def encode(self, text: str, found: Sequence[Found]) -> list[int]:
        """The ids of `text` with control tokens at the places found."""

    def mask(self, text: str, found: Sequence[Found]) -> list[int]:
        """1 for each id that is a control token, 0 for those of other text."""


def find(
    limited: Limited, text: str, start: int, end: int, allowed: frozenset[str] | None
) -> list[Found]:
    """The control spellings that lie wholly in text[start:end], the leftmost, then the longest.

    A neighbour that counts for `single_word` may stand outside.
    """
    known = [
        spelling
        for spelling in limited.spellings
        if not spelling.is_control or allowed is None or spelling.content in allowed
    ]
    found: list[tuple[Found, bool]] = []
    for normalized in (False, True):
        some = {
            spelling.content.lower() if spelling.lowercase else spelling.content: spelling
            for spelling in known
            if spelling.normalized is normalized
        }
        if not some:
            continue
        lowercase = all(spelling.lowercase for spelling in some.values())
        longest_first = sorted(some, key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, longest_first)))
        taken = [(one.start, one.end) for one, _ in found]
        edges = [start, *itertools.chain.from_iterable(taken), end]
        for low, high in zip(edges[::2], edges[1::2], strict=True):
            stretch = text[low:high].lower() if lowercase else text[low:high]
            for match in pattern.finditer(stretch):
                spelling = some[match[0]]
                place = Found(low + match.start(), low + match.end(), spelling.content)
                if spelling.single_word and _beside_letters(text, place):
                    continue
                if spelling.after_blank and place.start and text[place.start - 1] != " ":
                    continue
                found.append((place, spelling.is_control))
        found.sort(key=lambda one: one[0].start)
    return [place for place, is_control in found if is_control]


def _beside_letters(text: str, place: Found) -> bool:
    around = text[max(place.start - 1, 0) : place.start] + text[place.end : place.end + 1]
    return any(character.isalnum() or character == "_" for character in around)


def _marked(text: str, found: Iterable[Found], names: Mapping[str, str]) -> str:
    for place in sorted(found, key=lambda one: one.start, reverse=True):
        text = text[: place.start] + names[place.content] + text[place.end :]
    return text


def _mask(limited: Limited, text: str, found: Sequence[Found]) -> list[int]:
    """Where no other text has the id of a control token."""
    control_ids = set(limited.controls.values())
    return [int(token_id in control_ids) for token_id in limited.encode(text, found)]


def _names(controls: Iterable[str]) -> dict[str, str]:
    return {content: stand_in(content, n) for n, content in enumerate(sorted(controls))}


class LimitedTiktoken:
    """tiktoken with its special tokens under other names."""

    def __init__(self, oracle: TiktokenReference) -> None:
        self.controls = oracle.controls
        self.spellings = [Spelling(content) for content in oracle.controls]
        self._names = _names(oracle.controls)
        self._encoding = tiktoken.Encoding(
            name="renamed",
            pat_str=oracle.encoding._pat_str,
            mergeable_ranks=oracle.encoding._mergeable_ranks,
            special_tokens={self._names[c]: token_id for c, token_id in self.controls.items()},
        )

    def encode(self, text: str, found: Sequence[Found]) -> list[int]:
        return self._encoding.encode(_marked(text, found, self._names), allowed_special="all")

    def mask(self, text: str, found: Sequence[Found]) -> list[int]:
        return _mask(self, text, found)


class LimitedMinbpe:
    """minbpe's published way with its special tokens under other names."""

    def __init__(self, oracle: MinbpeReference) -> None:
        self.controls = oracle.controls
        self.spellings = [Spelling(content) for content in oracle.controls]
        self._names = _names(oracle.controls)
        self._oracle = copy.copy(oracle)
        self._oracle.controls = {self._names[c]: number for c, number in oracle.controls.items()}

    def encode(self, text: str, found: Sequence[Found]) -> list[int]:
        return self._oracle.encode(_marked(text, found, self._names), None)

    def mask(self, text: str, found: Sequence[Found]) -> list[int]:
        return _mask(self, text, found)


class LimitedTokenizers:
    """A tokenizer.json with its control tokens under other names."""

    def __init__(self, definition: dict[str, Any], controls: Mapping[str, int]) -> None:
        self.controls = controls
        self._names = _names(controls)
        definition = copy.deepcopy({**definition, "truncation": None, "padding": None})
        definition["post_processor"] = None
        self.plain = tokenizers.Tokenizer.from_str(json.dumps(definition))
        """As it is, all control tokens recognised."""
        normalizer = json.dumps(definition["normalizer"]) if definition["normalizer"] else ""
        self.spellings = [
            Spelling(
                token["content"],
                is_control=token["content"] in controls,
                single_word=token["single_word"],
                normalized=token["normalized"] and bool(normalizer),
                lowercase=token["normalized"] and "Lowercase" in normalizer,
                after_blank=token["normalized"] and "Prepend" in normalizer,
            )
            for token in definition["added_tokens"]
        ]
        model = definition["model"]
        for token in definition["added_tokens"]:
            token["content"] = self._names.get(token["content"], token["content"])
        model["vocab"] = {self._names.get(p, p): number for p, number in model["vocab"].items()}
        # A merge that makes a control token's piece would let text spell it.
        merges = [merge for merge in model.get("merges", []) if "".join(merge) not in controls]
        model.update({"merges": merges} if merges else {})
        model["unk_token"] = self._names.get(model.get("unk_token"), model.get("unk_token"))
        self._renamed = tokenizers.Tokenizer.from_str(json.dumps(definition))

    def encode(self, text: str, found: Sequence[Found]) -> list[int]:
        return self._encoded(text, found).ids

    def _encoded(self, text: str, found: Sequence[Found]) -> tokenizers.Encoding:
        marked = _marked(text, found, self._names)
        return self._renamed.encode(marked, add_special_tokens=False)

    def mask(self, text: str, found: Sequence[Found]) -> list[int]:
        # By what stands there: the id of the unknown token stands for unknown text, too.
        marked = _marked(text, found, self._names)
        names = set(self._names.values())
        pairs = self._encoded(text, found).offsets
        return [int(marked[start:end].strip() in names) for start, end in pairs]

    def literal_offsets(self, text: str) -> list[tuple[int, int]]:
        """The library's own offsets with nothing recognised."""
        return self._encoded(text, []).offsets


class LimitedSentencePiece:
    """A model whose control pieces stand between stretches, and whose parsed ones are renamed."""

    def __init__(
        self, data: bytes, controls: Mapping[str, int], parsed: Sequence[str] = ()
    ) -> None:
        self.controls = controls
        self.parsed = frozenset(parsed)
        self.plain = sentencepiece.SentencePieceProcessor(model_proto=data)
        """As it is, the parsed pieces recognised."""
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(data)
        user_defined = [piece.piece for piece in model.pieces if piece.type == piece.USER_DEFINED]
        self.spellings = [Spelling(content) for content in controls]
        self.spellings += [
            Spelling(content, is_control=False) for content in user_defined if content not in parsed
        ]
        self._names = _names(controls)
        for piece in model.pieces:
            if piece.piece in parsed:
                piece.piece = self._names[piece.piece]
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        unseen = {self._names[c]: number for c, number in controls.items() if c not in parsed}
        self._unseen = unseen
        self._pattern = re.compile("(" + "|".join(map(re.escape, unseen)) + ")")

    def encode(self, text: str, found: Sequence[Found]) -> list[int]:
        ids: list[int] = []
        for part in self._pattern.split(_marked(text, found, self._names)):
            ids += [self._unseen[part]] if part in self._unseen else self.processor.encode(part)
        return ids

    def mask(self, text: str, found: Sequence[Found]) -> list[int]:
        return _mask(self, text, found)


@functools.cache
def limited(name: str) -> Limited:
    """The limited reference of an embedded artifact."""
    oracle = reference(name)
    if isinstance(oracle, TiktokenReference):
        return LimitedTiktoken(oracle)
    if isinstance(oracle, MinbpeReference):
        return LimitedMinbpe(oracle)
    if isinstance(oracle, TokenizersReference):
        known = oracle.knowing(frozenset(oracle.controls))
        return LimitedTokenizers(json.loads(known.to_str()), oracle.controls)
    assert isinstance(oracle, SentencePieceReference)
    return LimitedSentencePiece(oracle.processor.serialized_model_proto(), oracle.controls)


def spelling_texts(controls: Mapping[str, int]) -> st.SearchStrategy[str]:
    """Texts with many control spellings, beside and across each other."""
    some = sorted(controls)[:6]
    beside = ["", "", " ", "a", "1", "_", "\n", "hello", " world", "\u00e9", "\U0001f389", "cat"]
    runs = st.lists(st.sampled_from([*some, *some, *beside]), max_size=8).map("".join)
    return st.one_of(runs, mixed_texts(controls, max_fragments=6))


# ---- artifacts that are made for the tests ------------------------------------------------------


def llama_like(*, metaspace: bool, normalized: bool = False) -> dict[str, Any]:
    """A tokenizer.json as Llama's converters write it: BPE with byte pieces and a blank in front.

    `metaspace`: the blank by a pre-tokenizer, as they write it now, else by the normalizer.
    """
    letters = [*"\u2581abcdehlorstw.,!<>/|[]\u00e9", "\u2581\u2581"]
    merges = [
        *(("\u2581", "\u2581"), ("l", "l"), ("h", "e"), ("he", "ll"), ("hell", "o")),
        *(("\u2581", "hello"), ("o", "r"), ("w", "or"), ("l", "d"), ("wor", "ld")),
        *(("\u2581", "world"), ("\u2581", "a"), ("<", "s"), ("s", "t"), ("a", "b")),
    ]
    if not normalized:
        merges.append(("<s", ">"))  # text could spell a control token, were it not hidden
    controls = ["<unk>", "<s>", "</s>", "<|im_start|>"]
    pieces = [*controls, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    pieces += [left + right for left, right in merges if left + right not in (*controls, *letters)]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    normalizer = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        ],
    }
    blank = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": vocab[content],
                "content": content,
                "single_word": False,
                "lstrip": content == "<|im_start|>",
                "rstrip": content == "<|im_start|>",
                "normalized": normalized,
                "special": True,
            }
            for content in controls
        ],
        "normalizer": None if metaspace else normalizer,
        "pre_tokenizer": {**blank, "split": False} if metaspace else None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": _sequence("A")}],
            "pair": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": _sequence("A")},
                {"SpecialToken": {"id": "<s>", "type_id": 1}},
                {"Sequence": _sequence("B")},
            ],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(merge) for merge in merges],
        },
    }


def _sequence(which: str) -> dict[str, Any]:
    return {"id": which, "type_id": 0 if which == "A" else 1}


SYNTHETIC: dict[str, tuple[str, str, dict[str, Any]]] = {
    "addedflags": ("tokenizer_json", "addedflags.tokenizer.json", {}),
    "uni_bytefb": ("sentencepiece", "uni_bytefb.model", {}),
    "uni_nmt_nfkc": ("sentencepiece", "uni_nmt_nfkc.model", {"ordinary_pieces": ["<sep>"]}),
    "uni_parsed": ("sentencepiece", "uni_nmt_nfkc.model", {"parse_special": ["<sep>"]}),
}
"""Name to format, file under tests/data/synthetic, and options."""

LLAMAS: dict[str, dict[str, Any]] = {
    "llama_prepend": llama_like(metaspace=False),
    "llama_metaspace": llama_like(metaspace=True),
    "llama_normalized": llama_like(metaspace=False, normalized=True),
}

MADE = (*SYNTHETIC, *LLAMAS)


def add_made(folder: LockedFolder, name: str) -> None:
    """Pin one of these artifacts in a folder."""
    if name in LLAMAS:
        folder.add(name, "tokenizer_json", {"tokenizer": json.dumps(LLAMAS[name]).encode()})
        return
    artifact_format, file, options = SYNTHETIC[name]
    role = "model" if artifact_format == "sentencepiece" else "tokenizer"
    folder.add(name, artifact_format, {role: DATA / "synthetic" / file}, options)


def made(name: str, root: pathlib.Path) -> Tokenizer:
    """The service's tokenizer of one of these artifacts."""
    folder = LockedFolder(root / name)
    add_made(folder, name)
    return load_catalog(folder.root).resolve(name).tokenizer


def limited_made(name: str, controls: Mapping[str, int]) -> Limited:
    """The limited reference of one of these artifacts."""
    if name in LLAMAS:
        return LimitedTokenizers(LLAMAS[name], controls)
    artifact_format, file, options = SYNTHETIC[name]
    data = (DATA / "synthetic" / file).read_bytes()
    if artifact_format == "tokenizer_json":
        return LimitedTokenizers(json.loads(data), controls)
    return LimitedSentencePiece(data, controls, options.get("parse_special", ()))
