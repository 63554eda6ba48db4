"""Chats are rendered as transformers renders them, to the letter and to the id."""

from __future__ import annotations

import ast
import functools
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chat_cases
import jinja2
import pytest

from service.catalog.loading import load_catalog
from service.core.chat import ChatTemplate, prepared_messages
from service.core.provenance import TEMPLATE, USER, Traced, traced_values
from tests.chats import GOLDEN, NAMES, OWN_TEMPLATES, rendering
from tests.locks import LockedFolder

if TYPE_CHECKING:
    from service.core.tokenizer import Tokenizer

OWN: list[dict[str, Any]] = GOLDEN["own"]
EVERY_TEMPLATE = pytest.mark.parametrize("name", OWN_TEMPLATES)


@functools.cache
def template(name: str) -> ChatTemplate:
    return ChatTemplate(OWN_TEMPLATES[name].read_text(encoding="utf-8"), NAMES)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """gpt2 with the markers of the templates, as the script has it."""
    folder = LockedFolder(tmp_path_factory.mktemp("golden"))
    definition = json.dumps(chat_cases.chat_tokenizer()).encode()
    folder.add("chat", "tokenizer_json", {"tokenizer": definition})
    return load_catalog(folder.root).resolve("chat").tokenizer


@EVERY_TEMPLATE
def test_the_text_is_transformers(name: str) -> None:
    wrong = {}
    for case in OWN:
        if case["template"] == name:
            expected = {key: case[key] for key in ("text", "error") if key in case}
            found = rendering(template(name), chat_cases.CHATS[case["chat"]])
            if found != expected:
                wrong[case["chat"]] = (found, expected)
    assert not wrong


@EVERY_TEMPLATE
def test_the_ids_are_transformers(name: str, tokenizer: Tokenizer) -> None:
    bos, eos = (tokenizer.controls[spelling] for spelling in (chat_cases.BOS, chat_cases.EOS))
    cases = [case for case in OWN if case["template"] == name and "text" in case]
    for case in cases:
        ids = tokenizer.encode_special(case["text"])
        assert ids == case["ids"], case["chat"]
        assert (ids.count(bos), ids.count(eos)) == (case["bos"], case["eos"])
    begins_with_bos = name in ("chatml", "tools", "instruct")
    assert {case["bos"] for case in cases} == {int(begins_with_bos)}


@EVERY_TEMPLATE
def test_a_traced_rendering_is_the_plain_one(name: str) -> None:
    for chat in chat_cases.CHATS.values():
        plain = rendering(template(name), chat)
        assert rendering(template(name), chat, traced=True) == plain


def test_every_chat_is_rendered_with_every_template() -> None:
    assert [(case["template"], case["chat"]) for case in OWN] == [
        (name, chat) for name in OWN_TEMPLATES for chat in chat_cases.CHATS
    ]
    assert GOLDEN["chats"] == list(chat_cases.CHATS)
    assert all(len(real["renderings"]) == len(chat_cases.CHATS) for real in GOLDEN["real"])
    assert GOLDEN["now"] == chat_cases.NOW
    failing = {case["chat"] for case in OWN if "error" in case}
    assert {case["error"] for case in OWN if "error" in case} == {"raised", "error"}
    assert len(failing) < len(chat_cases.CHATS) / 2


def test_the_golden_file_names_its_maker() -> None:
    """Another Jinja: run scripts/make_chat_golden.py with it and read what moved."""
    assert GOLDEN["library"] == "transformers"
    assert GOLDEN["version"]
    assert GOLDEN["jinja2"] == jinja2.__version__


@pytest.mark.parametrize("name", ["make_chat_golden", "chat_cases", "chat_packages"])
def test_the_script_does_not_need_the_service(name: str) -> None:
    tree = ast.parse(Path(chat_cases.__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"service", "tests"}


def test_the_templates_show_what_templates_do() -> None:
    """Else the golden renderings would be of little."""
    sources = "".join(path.read_text(encoding="utf-8") for path in OWN_TEMPLATES.values())
    for sign in (
        *("'<|' + message['role'] + '|>'", "loop.first", "loop.last", "loop.index0", "namespace("),
        *("macro ", "caller(", "{% call", "generation %}", "| trim", "messages[1:]", "[::-1]"),
        *(".split('</think>')[-1].lstrip('\\n')", ".startswith(", "raise_exception(", "{%-"),
        *("strftime_now is defined", "-%}", "join(", "tojson(indent=2)", "tojson(sort_keys=true"),
        *("tool_calls", "documents", "{% break %}", "{% continue %}", "{% filter", "set header %}"),
        *("bos_token", "eos_token", "map(attribute=", "dictsort", "is mapping", "replace("),
    ):
        assert sign in sources, sign


# ---- what templates are given -----------------------------------------------------------------


def test_null_members_of_a_message_are_left_out() -> None:
    messages = [{"role": "user", "content": None, "x": {"y": None}}]
    assert prepared_messages(messages) == [{"role": "user", "x": {"y": None}}]
    assert messages == [{"role": "user", "content": None, "x": {"y": None}}]


@pytest.mark.parametrize(
    ("given", "thinking", "reasoning_content"),
    [
        ({"reasoning_content": "a"}, "a", "a"),
        ({"thinking": "a"}, "a", "a"),
        ({"reasoning": "a"}, "a", "a"),
        ({"reasoning": "a", "thinking": "b"}, "b", "b"),
        ({"reasoning_content": "a", "thinking": "b"}, "b", "a"),
        ({"reasoning_content": None, "reasoning": "a"}, "a", "a"),
        ({"reasoning_content": ""}, "", ""),
    ],
)
def test_reasoning_has_three_names(
    given: dict[str, Any], thinking: str, reasoning_content: str
) -> None:
    (message,) = prepared_messages([{"role": "assistant", **given}])
    assert message["thinking"] == thinking
    assert message["reasoning_content"] == reasoning_content


def test_without_reasoning_there_is_none() -> None:
    assert prepared_messages([{"role": "user", "content": ""}]) == [{"role": "user", "content": ""}]


def test_a_clock_exists_only_when_a_time_is_given() -> None:
    source = "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no clock' }}"
    clock = ChatTemplate(source, {})
    assert clock.render({}, None, 100) == "no clock"
    now = datetime.fromisoformat("2026-11-30T23:59:00-03:00")
    assert clock.render({}, now, 100) == "30 Nov 2026"
    traced = clock.render({}, now, 100, traced=True)
    assert isinstance(traced, Traced)
    assert traced.writers == TEMPLATE * len(traced)


def test_a_user_may_write_a_date_s_format() -> None:
    clock = ChatTemplate("{{ strftime_now(form) }}", {})
    now = datetime.fromisoformat("2026-11-30T23:59:00Z")
    values = traced_values({"form": "%Y"}, USER)
    traced = clock.render(values, now, 100, traced=True)
    assert isinstance(traced, Traced)
    assert traced.writers == USER * 4


def test_rendering_changes_nothing_that_it_is_given() -> None:
    chat = chat_cases.CHATS["call"]
    before = json.dumps(chat)
    for name in OWN_TEMPLATES:
        first = rendering(template(name), chat)
        assert rendering(template(name), chat) == first
    assert json.dumps(chat) == before
