"""What the reference libraries say: the oracle of the golden files and of the differential tests.

Nothing here imports the service, or is written the way the service is: a tokenizer of the
tokenizers library in which a spelling shall be ordinary text is one that was never told of it,
and wherever a library has a call of its own for a thing, that call is made.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock

import regex
import sentencepiece
import tiktoken
import tokenizers
from tiktoken_ext import openai_public
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"

NOTHING: frozenset[str] = frozenset()
"""`allowed` of the policy literal."""


class Reference(Protocol):
    """One artifact as its reference library knows it."""

    library: str
    """The distribution that decides the ids."""
    controls: Mapping[str, int]
    """Control spelling to id."""
    unknown_id: int | None

    def encode(
        self, text: str, allowed: frozenset[str] | None, *, framed: bool = False
    ) -> list[int]:
        """The ids of `text`; the spellings in `allowed` (None: all) are control tokens."""

    def decode(self, ids: Sequence[int], errors: str = "strict") -> str:
        """The text of `ids`; `errors` as for bytes.decode, where the library hands out bytes."""


class TiktokenReference:
    """tiktoken's own encoding, with the ranks from the artifact's file instead of a download."""

    library = "tiktoken"
    unknown_id = None

    def __init__(self, name: str) -> None:
        with mock.patch.object(openai_public, "load_tiktoken_bpe", _ranks):
            arguments = openai_public.ENCODING_CONSTRUCTORS[name]()
        self.encoding = tiktoken.Encoding(**arguments)
        self.controls: Mapping[str, int] = dict(arguments["special_tokens"])
        if name == "o200k_harmony":
            # tiktoken gives this id to <|endofprompt|>, too; the lock leaves the second name out.
            del self.controls["<|reserved_200018|>"]

    def encode(
        self,
        text: str,
        allowed: frozenset[str] | None,
        *,
        framed: bool = False,  # noqa: ARG002 - these have no frame
    ) -> list[int]:
        if allowed is None:
            return self.encoding.encode(text, allowed_special="all")
        if not allowed:
            return self.encoding.encode_ordinary(text)
        return self.encoding.encode(text, allowed_special=set(allowed), disallowed_special=())

    def decode(self, ids: Sequence[int], errors: str = "strict") -> str:
        return self.encoding.decode(list(ids), errors=errors)


def _ranks(address: str, expected_hash: str) -> dict[bytes, int]:
    """In the place of tiktoken's loader: the file of that name among the artifacts."""
    stem = address.rsplit("/", 1)[-1].removesuffix(".tiktoken")
    data = (ARTIFACTS / stem / f"{stem}.tiktoken").read_bytes()
    if hashlib.sha256(data).hexdigest() != expected_hash:
        raise ValueError(f"{stem}.tiktoken is not the file that tiktoken expects")
    lines = (line.split() for line in data.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


class TokenizersReference:
    """Tokenizers of the tokenizers library, one for each set of control tokens it knows of."""

    library = "tokenizers"

    def __init__(
        self,
        build: Callable[[frozenset[str]], tokenizers.Tokenizer],
        controls: Mapping[str, int],
        unknown_id: int | None = None,
        decode: Callable[[tokenizers.Tokenizer, Sequence[int]], bytes] | None = None,
    ) -> None:
        self.controls = controls
        self.unknown_id = unknown_id
        self.knowing = functools.lru_cache(maxsize=None)(build)
        self._decode = decode
        for spelling in controls:
            # True of the embedded artifacts, whose models hold no piece that text could spell as
            # a control token: there is nothing to hide but the added token.
            if self._control_ids() & set(self.encode(spelling, NOTHING)):
                raise ValueError(f"a piece of the model spells {spelling!r}")

    def _control_ids(self) -> set[int]:
        return set(self.controls.values()) - {self.unknown_id}

    def encode(
        self, text: str, allowed: frozenset[str] | None, *, framed: bool = False
    ) -> list[int]:
        tokenizer = self.knowing(frozenset(self.controls) if allowed is None else allowed)
        ids: list[int] = tokenizer.encode(text, add_special_tokens=framed).ids
        return ids

    def decode(self, ids: Sequence[int], errors: str = "strict") -> str:
        tokenizer = self.knowing(frozenset(self.controls))
        if self._decode is not None:
            return self._decode(tokenizer, ids).decode(errors=errors)
        text: str = tokenizer.decode(list(ids), skip_special_tokens=False)
        return text


def _from_file(name: str) -> TokenizersReference:
    """A tokenizer.json as it is, but for padding, truncation and the tokens left out."""
    definition = json.loads((ARTIFACTS / name / "tokenizer.json").read_text(encoding="utf-8"))
    added = definition["added_tokens"]
    hole = "the added tokens"
    rest = json.dumps({**definition, "added_tokens": hole})  # once: it is large

    def build(known: frozenset[str]) -> tokenizers.Tokenizer:
        kept = [token for token in added if token["content"] in known]
        tokenizer = tokenizers.Tokenizer.from_str(
            rest.replace(json.dumps(hole), json.dumps(kept), 1)
        )
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    if not all(token["special"] for token in added):
        raise ValueError(f"{name}: which added tokens are control tokens has to be said here")
    model = definition["model"]
    return TokenizersReference(
        build,
        {token["content"]: token["id"] for token in added},
        model["vocab"].get(model.get("unk_token")),
    )


def _bert_base_uncased() -> TokenizersReference:
    """What the library's BertWordPieceTokenizer is made of, around the vocab.txt."""
    lines = (ARTIFACTS / "bert-base-uncased" / "vocab.txt").read_text(encoding="utf-8")
    vocab = {piece: number for number, piece in enumerate(lines.removesuffix("\n").split("\n"))}
    controls = {
        spelling: vocab[spelling] for spelling in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    }

    def build(known: frozenset[str]) -> tokenizers.Tokenizer:
        tokenizer = tokenizers.Tokenizer(
            models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)  # noqa: S106
        )
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
        )
        tokenizer.decoder = decoders.WordPiece(prefix="##")
        tokenizer.add_special_tokens([spelling for spelling in controls if spelling in known])
        return tokenizer

    return TokenizersReference(build, controls, vocab["[UNK]"])


def _clip() -> TokenizersReference:
    """What transformers' CLIPConverter makes of the merges, numbered as CLIP numbers them."""
    lines = (ARTIFACTS / "clip-vit-large-patch14" / "merges.txt").read_text(encoding="utf-8")
    merges = [tuple(line.split()) for line in lines.removesuffix("\n").split("\n")[1:]]
    letters = list(_byte_letters().values())
    begin, end = "<|startoftext|>", "<|endoftext|>"
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), *map("".join, merges), begin, end]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    controls = {begin: vocab[begin], end: vocab[end]}

    def build(known: frozenset[str]) -> tokenizers.Tokenizer:
        tokenizer = tokenizers.Tokenizer(
            models.BPE(
                vocab=vocab,
                merges=merges,
                dropout=None,
                continuing_subword_prefix="",
                end_of_word_suffix="</w>",
                fuse_unk=False,
                unk_token=end,
            )
        )
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
                normalizers.Lowercase(),
            ]
        )
        words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(words), behavior="removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.RobertaProcessing(
            (end, vocab[end]), (begin, vocab[begin]), trim_offsets=False, add_prefix_space=False
        )
        tokenizer.add_special_tokens([spelling for spelling in controls if spelling in known])
        return tokenizer

    return TokenizersReference(build, controls, decode=_decode_clip)


def _decode_clip(tokenizer: tokenizers.Tokenizer, ids: Sequence[int]) -> bytes:
    """CLIP's own rule: letters back to bytes, and a blank for each end of a word but the last.

    The library's decoder keeps the suffix; transformers replaces it in the text afterwards.
    """
    tokens = [tokenizer.id_to_token(token_id) for token_id in ids]
    spelled = "".join(tokens).removesuffix("</w>").replace("</w>", " ")
    byte_of = {letter: byte for byte, letter in _byte_letters().items()} | {" ": 0x20}
    return bytes(byte_of[letter] for letter in spelled)


@functools.cache
def _byte_letters() -> dict[int, str]:
    """GPT-2's letter for each byte, in the order of its bytes_to_unicode()."""
    order = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in order}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(order))
    return letters


class SentencePieceReference:
    """The sentencepiece library, which reads no control piece out of text.

    So the text is split at the control spellings, the leftmost and of two there the longest, and
    each stretch between them is encoded alone.
    """

    library = "sentencepiece"

    def __init__(self, model: Path, *, bos: bool = False, eos: bool = False) -> None:
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self.controls: Mapping[str, int] = {
            self.processor.id_to_piece(token_id): token_id
            for token_id in range(self.processor.get_piece_size())
            if self.processor.is_control(token_id)
        }
        self.unknown_id: int | None = self.processor.unk_id()
        self._frame = {"add_bos": bos, "add_eos": eos}

    def encode(
        self, text: str, allowed: frozenset[str] | None, *, framed: bool = False
    ) -> list[int]:
        frame = self._frame if framed else {}
        allowed = frozenset(self.controls) if allowed is None else allowed
        if not allowed:
            plain: list[int] = self.processor.encode(text, **frame)
            return plain
        ids: list[int] = []
        for part in _splitter(allowed).split(text):
            ids += [self.controls[part]] if part in allowed else self.processor.encode(part)
        # What the library puts around no text at all is the frame.
        alone: list[int] = self.processor.encode("", **frame)
        return alone + ids if frame.get("add_bos") else ids + alone

    def decode(self, ids: Sequence[int], errors: str = "strict") -> str:  # noqa: ARG002 - no bytes
        text: str = self.processor.decode(list(ids))
        return text


@functools.lru_cache(maxsize=4096)
def _splitter(spellings: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")


class MinbpeReference:
    """minbpe's RegexTokenizer, in the slow way in which it is published (it is no package)."""

    library = "regex"  # the one library that has a say: it splits the text
    unknown_id = None

    def __init__(self, model: Path) -> None:
        with model.open(encoding="utf-8") as lines:
            if next(lines).strip() != "minbpe v1":
                raise ValueError("no minbpe model")
            self._pattern = regex.compile(next(lines).strip())
            self.controls: dict[str, int] = {}
            for _ in range(int(next(lines).strip())):
                spelling, token_id = next(lines).strip().split()
                self.controls[spelling] = int(token_id)
            pairs = [tuple(map(int, line.split())) for line in lines]
        self._merges: dict[Any, int] = {pair: number for number, pair in enumerate(pairs, 256)}
        self.vocab = {byte: bytes([byte]) for byte in range(256)}
        for (left, right), token_id in self._merges.items():
            self.vocab[token_id] = self.vocab[left] + self.vocab[right]
        self.vocab |= {token_id: text.encode() for text, token_id in self.controls.items()}
        self._encode_chunk = functools.lru_cache(maxsize=100_000)(self._merge_all)

    def _merge_all(self, chunk: str) -> list[int]:
        ids = list(chunk.encode())
        while len(ids) > 1:
            pair = min(itertools.pairwise(ids), key=lambda p: self._merges.get(p, float("inf")))
            if pair not in self._merges:
                break
            merged: list[int] = []
            place = 0
            while place < len(ids):
                if tuple(ids[place : place + 2]) == pair:
                    merged.append(self._merges[pair])
                    place += 2
                else:
                    merged.append(ids[place])
                    place += 1
            ids = merged
        return ids

    def encode(
        self,
        text: str,
        allowed: frozenset[str] | None,
        *,
        framed: bool = False,  # noqa: ARG002 - it has no frame
    ) -> list[int]:
        allowed = frozenset(self.controls) if allowed is None else allowed
        ids: list[int] = []
        for part in _splitter(allowed).split(text) if allowed else [text]:
            if part in allowed:
                ids.append(self.controls[part])
            else:
                for chunk in self._pattern.findall(part):
                    ids += self._encode_chunk(chunk)
        return ids

    def decode(self, ids: Sequence[int], errors: str = "strict") -> str:
        return b"".join(self.vocab[token_id] for token_id in ids).decode(errors=errors)


_BUILDERS: dict[str, Callable[[], Reference]] = {
    **{
        name: functools.partial(TiktokenReference, name)
        for name in (
            "r50k_base",
            "p50k_base",
            "p50k_edit",
            "cl100k_base",
            "o200k_base",
            "o200k_harmony",
        )
    },
    "gpt2": functools.partial(_from_file, "gpt2"),
    "all-minilm-l6-v2": functools.partial(_from_file, "all-minilm-l6-v2"),
    "bert-base-uncased": _bert_base_uncased,
    "mistral-7b-v0.3": functools.partial(
        SentencePieceReference, ARTIFACTS / "mistral-7b-v0.3" / "tokenizer.model", bos=True
    ),
    "t5-base": functools.partial(
        SentencePieceReference, ARTIFACTS / "t5-base" / "spiece.model", eos=True
    ),
    "clip-vit-large-patch14": _clip,
    "minbpe-service": functools.partial(
        MinbpeReference, ARTIFACTS / "minbpe-service" / "minbpe-service.model"
    ),
}

NAMES = tuple(_BUILDERS)
"""The artifacts that have a reference: all embedded ones."""


@functools.cache
def reference(name: str) -> Reference:
    """The reference of an embedded artifact; built once, up to a second each."""
    return _BUILDERS[name]()


def version_of(library: str) -> str:
    """The installed version of a library."""
    return importlib.metadata.version(library)
