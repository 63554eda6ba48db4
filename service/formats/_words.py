r"""Whether a pipeline of the tokenizers library gives for a text what it gives for its words.

Words are what blanks, tabs, LF and CR part. They are all there is where each normalizer works on
what stands between blanks, the pre-tokenizer drops these and has no piece across one, and no added
token is looked for in the text as it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from service.formats._definition import Definition

_NORMALIZERS = frozenset(
    {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip"}
)
"""None composes, reorders or maps across a blank; what `Strip` takes away at an end is blanks,
which are dropped in any case."""

_BLANKS_TO_ONE = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}

_SPLITTERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit"})

_WORD_PATTERNS = frozenset({r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+", r"\S+"})
"""Patterns of words in which no match holds a blank or looks at what stands around: CLIP's, and
that of subword-nmt, whose input has blanks between words."""


def is_word_by_word(definition: Definition, controls: Container[str]) -> bool:
    """Whether this is true of a definition whose control tokens are kept out of reach."""
    return (
        all(map(_is_local, _steps(definition["normalizer"], "normalizers")))
        and _drops_blanks(definition["pre_tokenizer"])
        and all(token["content"] in controls for token in definition["added_tokens"])
    )


def _steps(component: Definition | None, parts: str) -> list[Definition]:
    """Of a sequence its parts; the library passes over `parts` in any other component."""
    if component is None:
        return []
    is_sequence = component.get("type") == "Sequence"
    steps: list[Definition] = component[parts] if is_sequence else [component]
    return steps


def _is_local(normalizer: Definition) -> bool:
    return normalizer.get("type") in _NORMALIZERS or normalizer == _BLANKS_TO_ONE


def _drops_blanks(pre_tokenizer: Definition | None) -> bool:
    """Whether the first step does; a ByteLevel behind it sees no blank and adds none."""
    match _steps(pre_tokenizer, "pretokenizers"):
        case [first]:
            return _is_splitter(first)
        case [first, {"type": "ByteLevel", "add_prefix_space": False}]:
            return _is_splitter(first)
    return False


def _is_splitter(step: Definition) -> bool:
    if step.get("type") in _SPLITTERS:
        return True
    match step:
        case {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Removed",
            "invert": True,
        }:
            return pattern in _WORD_PATTERNS
    return False
