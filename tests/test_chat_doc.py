"""docs/chat.md tells the truth: its example answers what it prints, its numbers are the code's."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from chat_cases import CHATS, CONFIG, chat_tokenizer

from service.api import chat
from service.api.app import create_app
from service.api.text_fields import ChatRequest, TextRequest
from service.catalog.loading import load_catalog
from service.catalog.lock import LockedArtifact
from service.core import chat_limits
from service.core.chat_environment import _NOT_OFFERED
from service.errors import ChatTemplateFailed
from service.formats import formats
from service.settings import Settings
from tests.asgi import AppClient
from tests.chats import GOLDEN, OWN_TEMPLATES
from tests.locks import DATA, LockedFolder

if TYPE_CHECKING:
    import pathlib

DOC = (DATA.parents[1] / "docs" / "chat.md").read_text(encoding="utf-8")
WORDS = " ".join(DOC.split())


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)


def test_the_example_answers_what_is_printed(tmp_path: pathlib.Path) -> None:
    files = {"tokenizer": chat_tokenizer(), "config": CONFIG}
    folder = LockedFolder(tmp_path)
    folder.add(
        "my-model",
        "tokenizer_json",
        {role: json.dumps(content).encode() for role, content in files.items()}
        | {"chat_template": OWN_TEMPLATES["chatml"].read_bytes()},
    )
    (command,) = blocks("sh")
    (printed,) = map(json.loads, blocks("json"))
    (path, body) = re.findall(r":8000(/\w+) .* -d '(.*)'", command, re.DOTALL)[0]
    with AppClient(create_app(Settings(), load_catalog(folder.root))) as client:
        answer = client.ok(path, json.loads(body))
        literal = client.ok("/count", {"tokenizer": "my-model", "text": "<|im_end|>"})
    assert {**answer, "fingerprint": "sha256:..."} == printed
    assert literal["count"] == 7
    assert "seven tokens when it stands alone" in WORDS


def test_the_lock_s_entry_has_keys_and_roles_that_there_are() -> None:
    (source,) = blocks("toml")
    (entry,) = tomllib.loads(source.replace("what sha256sum prints", "0" * 64))["artifact"]
    artifact = msgspec.convert(entry, LockedArtifact)
    known = formats()[artifact.format]
    assert {file.role for file in artifact.file} == known.required_roles | known.optional_roles
    taking = {name for name, made in formats().items() if "chat_template" in made.optional_roles}
    assert taking == {"tokenizer_json", "sentencepiece"}
    assert all(f"`{name}`" in WORDS for name in taking)


def rows(head: str) -> dict[str, str]:
    """First and second cell of the rows of the table with this first column."""
    (table,) = re.findall(
        rf"^\| {re.escape(head)} \|.*?\n\|[- |]*\n(.*?)\n\n", DOC, re.DOTALL | re.MULTILINE
    )
    return {
        line.split("|")[1].strip(" `"): line.split("|")[2].strip() for line in table.splitlines()
    }


def test_the_fields_are_those_of_the_request() -> None:
    own = set(ChatRequest.__struct_fields__) - set(TextRequest.__struct_fields__)
    documented = rows("field")
    assert set(documented) == own
    for field in msgspec.structs.fields(ChatRequest):
        if isinstance(field.default, bool) and field.name in own:
            assert documented[field.name] == f"`{json.dumps(field.default)}`"


def test_the_reasons_are_those_of_the_error() -> None:
    hints: dict[str, Any] = typing.get_type_hints(ChatTemplateFailed.__init__)
    assert set(rows("`reason` of `chat_template_failed`")) == set(typing.get_args(hints["reason"]))


@pytest.mark.parametrize(
    "sentence",
    [
        f"of {len(GOLDEN['real'])} real templates",
        f"transformers {GOLDEN['version']} for {len(CHATS)} conversations",
        f"more than {chat._MAX_VALUES:,} values, or nested deeper than {chat._MAX_DEPTH}",
        f"{chat_limits.MAX_BYTES // 2**20} MiB for all texts",
        *(f"`{name}`" for name in _NOT_OFFERED),
    ],
)
def test_a_number_is_the_code_s(sentence: str) -> None:
    assert sentence in WORDS


def test_the_limits_in_words() -> None:
    assert (chat_limits.MAX_STEPS, chat_limits.MAX_SECONDS) == (1_000_000, 1.0)
    assert "one second, a million steps" in WORDS
