"""Building the fast engine for an artifact's literal text.

It is a memory of words where these are all there is (service/engines/words.py), else the fast
library's, of which one function here serves a format. Where that can't have an artifact, or would
have to be trusted with more than its bytes, there is no engine and the reference answers.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
from typing import TYPE_CHECKING

import fastokens

from service.core.faults import is_fault
from service.core.split_patterns import with_properties
from service.core.tokenizer import DescribesLiteral, WordByWord
from service.engines import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.core.tokenizer import Tokenizer
    from service.engines.engine import Engine
    from service.formats import Options

LIBRARY = "fastokens"

_ANY_TEXT = "Any text"

PRESETS = {
    "f021c3d976978e62ee64cdad150cc3405c2e3d6e3b40407850bb9e8d9eb65899": "cl100k_base",
    "2d1b8dc11e89af71459b36004f698ab3693f59fd84f63e8ec2b49564ab857420": "o200k_base",
}
"""SHA-256 of a split pattern to the name under which the library has it compiled in; any other
pattern of a rank file goes through a general engine, which is several times slower."""


def engine_version(reference: Tokenizer) -> str:
    """The fast library for a tokenizer and its version, as a certificate names it."""
    if _works_by_words(reference) is not None:
        return words.ENGINE
    return _library_version()


@functools.cache
def _library_version() -> str:
    return f"{LIBRARY}=={importlib.metadata.version(LIBRARY)}"


def _works_by_words(reference: object) -> WordByWord | None:
    return reference if isinstance(reference, WordByWord) and reference.word_by_word else None


def is_built_of_files(artifact_format: str) -> bool:
    """Whether an engine needs no reference to be built."""
    return _BUILDERS.get(artifact_format) is _of_ranks


def build_engine(
    artifact_format: str,
    files: Mapping[str, bytes],
    options: Options,
    reference: Tokenizer | None,
) -> Engine | None:
    """The fast engine for the literal text of an artifact; None where there is none.

    `reference` may be None where the engine is built of files alone. What the engine's `encode`
    gives is to be compared with it before anybody relies on it.
    """
    by_words = _works_by_words(reference)
    if by_words is not None:
        return words.WordMemory(by_words.encode_each)
    build = _BUILDERS.get(artifact_format)
    if build is None:
        return None
    try:
        return build(reference, files, options)
    except BaseException as error:
        # A vocabulary with a hole, a component or a pattern that it does not know: an error of
        # its own for each, or a panic, and all of them mean that the reference answers.
        if not is_fault(error):
            raise
        return None


def _preset_of(pattern: str) -> str | None:
    return PRESETS.get(hashlib.sha256(pattern.encode()).hexdigest())


def _of_ranks(
    _: Tokenizer | None, files: Mapping[str, bytes], options: Options
) -> fastokens.Tokenizer | None:
    pattern: str = getattr(options, "pattern")  # noqa: B009 - an option of this format
    return _engine_of_ranks(files["ranks"], pattern)


@functools.lru_cache(maxsize=8)
def _engine_of_ranks(ranks: bytes, pattern: str) -> fastokens.Tokenizer:
    """One engine for all artifacts that differ in their special tokens alone."""
    # The library takes a path: the verified bytes get one that nobody else can change.
    descriptor = os.memfd_create("ranks", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(ranks)
        path = f"/proc/self/fd/{descriptor}"
        preset = _preset_of(pattern)
        split = {"encoding": preset} if preset else {"pattern": with_properties(pattern)}
        return _complete(fastokens.Tokenizer.from_tiktoken(path, **split, special_tokens={}))
    finally:
        os.close(descriptor)


def _of_literal_json(
    reference: Tokenizer | None, _: Mapping[str, bytes], __: Options
) -> fastokens.Tokenizer | None:
    """Of what the reference says of itself, in which no control spelling can be reached."""
    described = reference.literal_json() if isinstance(reference, DescribesLiteral) else None
    return None if described is None else _complete(fastokens.Tokenizer.from_json_str(described))


def _complete(engine: fastokens.Tokenizer) -> fastokens.Tokenizer:
    """With the tables that it makes when it first encodes, which takes 0.1 to 0.3 s."""
    engine.encode_batch_flat([_ANY_TEXT])
    return engine


_BUILDERS: dict[
    str, Callable[[Tokenizer | None, Mapping[str, bytes], Options], fastokens.Tokenizer | None]
] = {
    "tiktoken": _of_ranks,
    "tokenizer_json": _of_literal_json,
    "sentencepiece": _of_literal_json,
    "minbpe": _of_literal_json,
}
