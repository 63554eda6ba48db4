"""Artifacts with chat templates, and an oracle of their ids that knows no rendering."""

from __future__ import annotations

import copy
import itertools
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from chat_cases import BOS, EOS, NOW

from service.catalog.catalog import Catalog, Entry
from service.catalog.chat import ChatTemplates
from service.catalog.loading import load_catalog
from service.core.chat import ChatTemplate, prepared_messages
from service.core.provenance import USER, traced_values
from service.errors import ChatTemplateFailed
from tests.locks import DATA, LockedFolder

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterable, Mapping, Sequence

OWN_TEMPLATES = {path.stem: path for path in sorted((DATA / "chat").glob("*.jinja"))}
"""The templates that this project wrote for its tests, by name."""

GOLDEN: dict[str, Any] = json.loads(
    (DATA.parent / "golden" / "chat.json").read_text(encoding="ascii")
)
"""What transformers makes of the chats of scripts/chat_cases.py."""

NAMES = {"bos_token": BOS, "eos_token": EOS}
"""What the templates see as the special tokens there."""

FIRST_MARKER = 256
"""Ids below are bytes."""


def byte_level(spellings: Iterable[str], *, bos: str | None = None) -> bytes:
    """A tokenizer.json whose ids are the bytes of the text, and one for each spelling."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    added = [
        {
            "id": FIRST_MARKER + place,
            "content": spelling,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for place, spelling in enumerate(spellings)
    ]
    frame = None
    if bos is not None:
        (found,) = [token["id"] for token in added if token["content"] == bos]
        framed = [
            {"SpecialToken": {"id": bos, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ]
        frame = {
            "type": "TemplateProcessing",
            "single": framed,
            "pair": [*framed, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {bos: {"id": bos, "ids": [found], "tokens": [bos]}},
        }
    definition = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "post_processor": frame,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in letters.items()},
            "merges": [],
        },
    }
    return json.dumps(definition).encode()


def rendering(
    template: ChatTemplate, chat: Mapping[str, Any], *, traced: bool = False
) -> dict[str, str]:
    """The text of one of those chats, or how the template failed."""
    variables = {
        "messages": prepared_messages(chat["messages"]),
        "tools": chat.get("tools"),
        "documents": None,
        "add_generation_prompt": chat.get("add_generation_prompt", True),
        **chat.get("arguments", {}),
    }
    if traced:
        variables = traced_values(variables, USER)
    now = datetime.fromisoformat(NOW)
    try:
        return {"text": template.render(variables, now, 1_000_000, traced=traced)}
    except ChatTemplateFailed as failed:
        return {"error": str(failed.members["reason"])}


class Marked(NamedTuple):
    """A rendering with the parts of it that are to be control ids."""

    text: str
    spans: Sequence[tuple[int, int]]

    def ids(self, controls: Mapping[str, int]) -> list[int]:
        """The ids that a tokenizer of `byte_level` has to give."""
        ids: list[int] = []
        position = 0
        for start, end in self.spans:
            ids += self.text[position:start].encode()
            ids.append(controls[self.text[start:end]])
            position = end
        return [*ids, *self.text[position:].encode()]


def marked(*parts: str | tuple[str]) -> Marked:
    """A rendering in parts; a part in a tuple is a control token."""
    text = ""
    spans: list[tuple[int, int]] = []
    for part in parts:
        (added,) = part if isinstance(part, tuple) else (part,)
        if isinstance(part, tuple):
            spans.append((len(text), len(text) + len(added)))
        text += added
    return Marked(text, spans)


def found_outside(
    text: str, spellings: Iterable[str], taken: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Where the spellings stand in a text, outside of parts that are taken, the longest first."""
    longest_first = sorted(spellings, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
    found: list[tuple[int, int]] = []
    for start, end in itertools.pairwise([0, *itertools.chain(*taken), len(text)]):
        if (start, end) not in taken:
            found += (match.span() for match in pattern.finditer(text, start, end))
    return found


def with_template(entry: Entry, template: ChatTemplate) -> Catalog:
    """A catalog of a loaded artifact alone, with another template."""
    other = copy.copy(entry)
    other.chat = ChatTemplates({"default": template}, "of another template")
    return Catalog([other])


def byte_level_entry(
    folder: pathlib.Path, spellings: Iterable[str], *, bos: str | None = None, **files: bytes
) -> Entry:
    """The tokenizer of `byte_level`, pinned in a folder and loaded; further files by role."""
    locked = LockedFolder(folder)
    locked.add("bytes", "tokenizer_json", {"tokenizer": byte_level(spellings, bos=bos), **files})
    return load_catalog(locked.root).resolve("bytes")
