"""A tokenizer.json, by the tokenizers library."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from service.core.alignment import ByteAlignment, Sizes
from service.core.tokenizer import ROLES, Facts
from service.formats import Format, FormatError, Options
from service.formats._byte_level import UTF8_BYTES, letters_to_bytes
from service.formats._common import checked_parts, roles_by_spelling
from service.formats._decoding import ByteDecoding, byte_decoding, has_byte_pieces, uses
from service.formats._definition import Definition, parse_definition, parse_object
from service.formats._library import parts_by_pairs
from service.formats._twins import Twins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.core.alignment import Alignment
    from service.core.tokenizer import ControlSpan


class TokenizerJsonOptions(Options, frozen=True):
    """What a tokenizer.json does not say."""

    unordered = frozenset({"ordinary_added_tokens"})

    ordinary_added_tokens: list[str] = []
    """Added tokens that are ordinary vocabulary although the file's flags would make them
    control spellings."""


class TokenizerJsonTokenizer:
    """A tokenizer.json with padding and truncation dropped."""

    def __init__(
        self, definition: Definition, config: Mapping[str, Any], options: TokenizerJsonOptions
    ) -> None:
        self.controls: Mapping[str, int] = _controls(definition, options.ordinary_added_tokens)
        self._twins = Twins(definition, self.controls)
        library = self._twins.reference
        tokens = {
            token_id: token for token, token_id in library.get_vocab(with_added_tokens=True).items()
        }
        self._added = {token["id"]: token["content"] for token in definition["added_tokens"]}
        self._vocabulary = _vocabulary(definition, tokens, self._added)
        _check_bytes_covered(definition, self._vocabulary, self.controls)
        self._decoding = byte_decoding(definition)
        self._tokens = tokens if self._decoding is None else {}
        self.frame = self._twins.frame
        self.unknown_id = _unknown_id(definition)
        self.facts = _facts(definition, config, self, self._decoding)
        self.pair_frame = self._twins.pair_frame
        decodes_apart = self._decoding is not None and not self._decoding.leading_blanks
        self.sizes = (
            Sizes(self._vocabulary.keys(), self._vocabulary.values()) if decodes_apart else None
        )
        self.word_by_word = self._twins.word_by_word
        self.encode = self._twins.encode
        self.encode_each = self._twins.encode_each
        self.count = self._twins.count
        self.encode_special = self._twins.encode_special
        self.encode_spans = self._twins.encode_spans
        self.find_controls = self._twins.find_controls
        self.literal_json = self._twins.literal_json

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans`, aligned by bytes where they spell the text exactly."""
        if self.sizes is not None:
            ids = self.encode_spans(text, spans)
            if self.decode_bytes(ids) == text.encode():
                return ByteAlignment(text, ids, self.sizes.of(ids))
        return self._twins.align(text, spans)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of `ids`, joined before anything reads them as text. Raises InvalidTokenId."""
        if self._decoding is None:
            return self._library_text(ids).encode()
        return b"".join(self.byte_parts(ids))

    def byte_parts(self, ids: Sequence[int]) -> list[bytes]:
        """What each id adds to the decoded bytes. Raises InvalidTokenId."""
        if self._decoding is None:
            return parts_by_pairs(self._twins.reference, self._spelled(ids))
        parts = checked_parts(ids, self._vocabulary.__getitem__)
        return self._decoding.trim(parts)

    def _library_text(self, ids: Sequence[int]) -> str:
        tokens = self._spelled(ids)
        decoder = self._twins.reference.decoder
        # Without a decoder the library puts a blank between tokens.
        return decoder.decode(tokens) if decoder else " ".join(tokens)

    def _spelled(self, ids: Sequence[int]) -> list[str]:
        return checked_parts(ids, self._tokens.__getitem__)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id."""
        return self._vocabulary[token_id]

    def vocabulary(self) -> Mapping[int, bytes]:
        """Every id with its bytes."""
        return self._vocabulary


def _controls(definition: Definition, ordinary: Sequence[str]) -> dict[str, int]:
    """The control spellings of a tokenizer.json, as CONTRACT section 2 defines them."""
    pieces = definition["model"]["vocab"]
    if isinstance(pieces, list):
        pieces = {piece for piece, _ in pieces}
    controls: dict[str, int] = {}
    for token in definition["added_tokens"]:
        content = token["content"]
        blank_vocabulary = content.isspace() and not token["special"]
        if content in ordinary or blank_vocabulary:
            continue
        if token["special"] or content not in pieces:
            controls[content] = token["id"]
    for content in ordinary:
        if not any(token["content"] == content for token in definition["added_tokens"]):
            raise FormatError(f"option ordinary_added_tokens: {content!r} is no added token")
    return controls


def _vocabulary(
    definition: Definition, tokens: Mapping[int, str], added: Mapping[int, str]
) -> dict[int, bytes]:
    """Id to bytes, with the alphabet of the model undone."""
    in_model = definition["model"]["vocab"]
    if isinstance(in_model, list):
        in_model = {piece for piece, _ in in_model}
    byte_level = uses(definition, "ByteLevel")
    blank = uses(definition, "Metaspace") or _replaces_blank(definition)
    byte_fallback = has_byte_pieces(definition)
    vocabulary: dict[int, bytes] = {}
    for token_id, token in tokens.items():
        if token_id in added and (token not in in_model or not byte_level):
            vocabulary[token_id] = token.encode()
        elif byte_level:
            try:
                vocabulary[token_id] = letters_to_bytes(token)
            except KeyError:
                vocabulary[token_id] = token.encode()
        elif byte_fallback and _is_byte_piece(token):
            vocabulary[token_id] = bytes([int(token[3:5], 16)])
        else:
            vocabulary[token_id] = (token.replace("\u2581", " ") if blank else token).encode()
    return vocabulary


def _is_byte_piece(token: str) -> bool:
    return len(token) == len("<0x00>") and token.startswith("<0x") and token.endswith(">")


def _replaces_blank(definition: Definition) -> bool:
    """Whether the decoder turns U+2581 into a blank by a Replace of its own (Llama, Gemma)."""
    decoder = definition["decoder"] or {}
    return any(
        step.get("type") == "Replace" and step.get("pattern") == {"String": "\u2581"}
        for step in (decoder, *decoder.get("decoders", []))
    )


def _check_bytes_covered(
    definition: Definition, vocabulary: Mapping[int, bytes], controls: Mapping[str, int]
) -> None:
    """Raise FormatError when a byte-based vocabulary lacks a byte that valid UTF-8 can contain."""
    if not (uses(definition, "ByteLevel") or definition["model"].get("byte_fallback")):
        return
    special = set(controls.values())
    present = {
        token[0]
        for token_id, token in vocabulary.items()
        if len(token) == 1 and token_id not in special
    }
    missing = sorted(UTF8_BYTES - present)
    if missing:
        raise FormatError(
            f"expected a piece for each byte that UTF-8 can contain, found none for "
            f"{len(missing)} of them, the first 0x{missing[0]:02x}",
            role="tokenizer",
        )


def _unknown_id(definition: Definition) -> int | None:
    model = definition["model"]
    if isinstance(model["vocab"], list):
        unknown: int | None = model.get("unk_id")
        return unknown
    found: int | None = model["vocab"].get(model.get("unk_token"))
    return found


def _facts(
    definition: Definition,
    config: Mapping[str, Any],
    tokenizer: TokenizerJsonTokenizer,
    decoding: ByteDecoding | None,
) -> Facts:
    unknown = {} if tokenizer.unknown_id is None else {"unk": tokenizer.unknown_id}
    every_byte = uses(definition, "ByteLevel") or bool(definition["model"].get("byte_fallback"))
    exact = (
        every_byte
        and decoding is not None
        and definition["normalizer"] is None
        and not _adds_blank(definition["pre_tokenizer"])
    )
    return Facts(
        library="tokenizers",
        pipeline={
            part: _described(definition[part])
            for part in ("normalizer", "pre_tokenizer", "model", "post_processor", "decoder")
        },
        roles=roles_by_spelling(tokenizer.controls)
        | _roles_of_config(config, tokenizer.controls)
        | unknown,
        coverage="every_byte" if every_byte else "unknown_token",
        round_trip=("exact" if exact else "normalizing")
        if every_byte and decoding is not None
        else "lossy",
    )


def _adds_blank(pre_tokenizer: Definition | None) -> bool:
    """Whether the pre-tokenizer puts a blank before the text, which decoding can't tell."""
    if pre_tokenizer is None:
        return False
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    return any(step.get("add_prefix_space") or step["type"] == "Metaspace" for step in steps)


def _described(component: Definition | None) -> object:
    """A component of the pipeline without its tables, each of which its SHA-256 stands for."""
    if component is None:
        return None
    described = dict(component)
    for table in ("vocab", "merges", "precompiled_charsmap"):
        if described.get(table) is not None:
            data = msgspec.json.encode(described[table], order="deterministic")
            described[table] = {"sha256": hashlib.sha256(data).hexdigest()}
    for parts in ("normalizers", "pretokenizers", "processors", "decoders"):
        if parts in described:
            described[parts] = [_described(part) for part in described[parts]]
    return described


def _roles_of_config(config: Mapping[str, Any], controls: Mapping[str, int]) -> dict[str, int]:
    roles: dict[str, int] = {}
    for role in ROLES:
        token = config.get(f"{role}_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        if isinstance(spelling, str) and spelling in controls:
            roles[role] = controls[spelling]
    return roles


def build(files: Mapping[str, bytes], options: Options) -> TokenizerJsonTokenizer:
    """Build from a verified tokenizer.json. Raises FormatError."""
    assert isinstance(options, TokenizerJsonOptions)  # noqa: S101 - Format ties the two together
    config = parse_object(files["config"], "config") if "config" in files else {}
    return TokenizerJsonTokenizer(parse_definition(files["tokenizer"]), config, options)


FORMAT = Format(
    name="tokenizer_json",
    required_roles=frozenset({"tokenizer"}),
    optional_roles=frozenset({"config", "chat_template"}),
    options=TokenizerJsonOptions,
    build=build,
)
