"""The formats' loaders on files that are wrong: a tokenizer that works, or one line that says why.

Each runs as at start: verified bytes, the loader, the chat template, the self-test. The lock pins
whatever the file holds, so that the loader sees it: a hash that differs would stop all before.
"""

from __future__ import annotations

import hashlib
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from fuzz.harness import Harness, check_line
from fuzz.mutators import mutate_json, mutate_sentencepiece
from service.catalog.loading import load_entry
from service.catalog.lock import LockedArtifact, LockedFile
from service.core.alignment import Unit
from service.core.faults import is_fault
from service.errors import ArtifactError
from service.formats import formats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuzz.harness import Mutator
    from service.catalog.catalog import Entry
    from service.catalog.lock import Role

SEPARATOR = b"\n%%%%\n"
"""Between the files of an artifact that has several."""

TEXTS = ("", "a", "The cat 12 ", "  na\u00efve\u00a0\u6771\u4eac\n\n\U0001f642", "\0\x7f\ufffd")


class FormatHarness(Harness):
    """One format."""

    def __init__(
        self,
        name: str,
        roles: tuple[Role, ...],
        options: Mapping[str, Any],
        options_of_two: Mapping[str, Any] | None = None,
        *,
        dictionary: tuple[bytes, ...],
        mutator: Mutator | None = None,
    ) -> None:
        """`roles` are of the files, in the order in which an input has them.

        `options_of_two` are the options for an input with a second file, where they differ.
        """
        self.name = name
        self.dictionary = dictionary
        self.mutator = mutator
        self._roles = roles
        self._options = options
        self._options_of_two = options_of_two or options
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-format-")

    def run(self, data: bytes) -> bool:
        """See Harness."""
        files = dict(zip(self._roles, data.split(SEPARATOR, len(self._roles) - 1), strict=False))
        root = pathlib.Path(self._folder.name)
        for role, content in files.items():
            (root / role).write_bytes(content)
        artifact = LockedArtifact(
            name="fuzzed",
            format=self.name,
            license="none",
            source="a fuzzer",
            options=dict(self._options if len(files) == 1 else self._options_of_two),
            file=[
                LockedFile(
                    role=role,
                    path=role,
                    sha256=hashlib.sha256(content).hexdigest(),
                    bytes=len(content),
                )
                for role, content in files.items()
            ],
        )
        try:
            entry = load_entry(root, artifact)
        except ArtifactError as error:
            check_line(str(error))
            return False
        for text in TEXTS:
            _check_use(entry, text)
        return True


def _check_use(entry: Entry, text: str) -> None:
    """What was loaded gives ids of its vocabulary; a fault is a 500 of one request, as any."""
    tokenizer = entry.tokenizer
    try:
        ids = tokenizer.encode(text)
        spans = tokenizer.find_controls(text, None)
        special = tokenizer.encode_special(text)
        aligned = tokenizer.align(text, spans)
        count = tokenizer.count(text)
        decoded = tokenizer.decode_bytes(ids)
        parts = tokenizer.byte_parts(ids)
        offsets = aligned.offsets(Unit.CODEPOINT)
    except BaseException as error:
        # No memory is none of them: it would be the next request's, too.
        if isinstance(error, MemoryError) or not is_fault(error):
            raise
        return
    vocabulary = tokenizer.vocabulary()
    assert all(token_id in vocabulary for token_id in (*ids, *special)), "an id of no token"
    assert count == len(ids)
    assert len(parts) == len(ids)
    assert b"".join(parts) == decoded
    assert len(offsets) == len(aligned.ids)
    assert all(0 <= start <= end <= len(text) for start, end in offsets), offsets
    if tokenizer.facts.round_trip == "exact":
        assert decoded == text.encode()


def format_harnesses() -> tuple[FormatHarness, ...]:
    """Each format, with options as its artifacts have them."""
    # Loads them, too: atheris has to see that.
    known = formats()
    words = rb"'s|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+".decode()
    found = (
        FormatHarness(
            "tiktoken",
            ("ranks",),
            {
                "pattern": r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                "special_tokens": {"<|end|>": 300},
            },
            dictionary=(b"IQ== ", b" 300\n", b" 4294967295\n", b"=", b"\r\n", b"-1"),
        ),
        FormatHarness(
            "minbpe",
            ("model",),
            {},
            dictionary=(b"minbpe v1\n", b"\n", b"\r\n", b" ", b"256", b"<|end|> ", b"4294967295"),
        ),
        FormatHarness(
            "bpe_merges",
            ("merges", "vocab"),
            {"base_alphabet": "bytes", "pattern": words},
            {
                "base_alphabet": "characters",
                "pattern": r"\w+|[^\w\s]+",
                "unk_token": "<unk>",
                "special_tokens": {"<s>": 0},
            },
            dictionary=(b"#version: 0.2\n", b"</w>\n", b"<unk>", SEPARATOR, b"{", b'": 1,', b"}"),
        ),
        FormatHarness(
            "wordpiece",
            ("vocab",),
            {"lowercase": True, "template": {"before": ["[CLS]"], "after": ["[SEP]"]}},
            dictionary=(b"[UNK]\n", b"[CLS]\n", b"[SEP]\n", b"##", b"\r\n", b"\xe2\x80\xa8"),
        ),
        FormatHarness(
            "tokenizer_json",
            ("tokenizer", "config"),
            {},
            dictionary=(SEPARATOR, *_JSON_WORDS),
            mutator=mutate_json,
        ),
        FormatHarness(
            "sentencepiece",
            ("model",),
            {},
            dictionary=(b"<unk>", b"<s>", b"</s>", b"<0x00>", b"\xe2\x96\x81", b"[MARK]"),
            mutator=mutate_sentencepiece,
        ),
    )
    assert {harness.name for harness in found} == set(known), "a format without a harness"
    return found


_JSON_WORDS = tuple(
    f'"{word}"'.encode()
    for word in (
        *("type", "model", "vocab", "merges", "added_tokens", "normalizer", "pre_tokenizer"),
        *("post_processor", "decoder", "unk_token", "unk_id", "byte_fallback", "dropout"),
        *("BPE", "Unigram", "WordPiece", "WordLevel", "Sequence", "ByteLevel", "Metaspace"),
        *("ByteFallback", "Fuse", "Strip", "Replace", "TemplateProcessing", "Precompiled"),
        *("NFKC", "Prepend", "Lowercase", "BertNormalizer", "Split", "Digits", "Whitespace"),
        *("content", "special", "single_word", "lstrip", "normalized", "id", "chat_template"),
    )
)
