"""The chat template of an artifact: where it comes from, what it is given, and what is refused."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from service.catalog.loading import load_catalog
from service.catalog.probes import CHAT_PROBES, probe_count, probe_ids, probes_digest
from service.errors import ArtifactError
from tests.chats import byte_level
from tests.locks import LockedFolder

if TYPE_CHECKING:
    import pathlib

    from service.catalog.catalog import Catalog, Entry

SPELLINGS = ("<s>", "</s>", "<bos>", "<|im_start|>")
HELLO = b"{{ bos_token }}{{ eos_token }}{{ messages[0].content }}"
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> LockedFolder:
    return LockedFolder(tmp_path / "artifacts")


def add(folder: LockedFolder, files: dict[str, bytes | dict[str, Any]], **more: Any) -> None:
    """Add a tokenizer with further files; an object is written as JSON."""
    written = {
        role: content if isinstance(content, bytes) else json.dumps(content).encode()
        for role, content in files.items()
    }
    more.setdefault("name", f"case{len(folder.artifacts)}")
    folder.add(
        artifact_format="tokenizer_json",
        files={"tokenizer": byte_level(SPELLINGS), **written},
        **more,
    )


def loaded(folder: LockedFolder, **files: bytes | dict[str, Any]) -> Entry:
    """The artifact with these files beside its tokenizer, loaded."""
    add(folder, dict(files))
    return load_catalog(folder.root).resolve(folder.artifacts[-1]["name"])


def rendered(entry: Entry, *, tools: bool = False, **variables: Any) -> str:
    template = entry.chat_template(tools=tools)
    assert template is not None
    return template.render({"messages": MESSAGES, **variables}, None, 1000)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- where it comes from ----------------------------------------------------------------------


def test_no_artifact_that_comes_with_the_service_has_one(catalog: Catalog) -> None:
    """Their licences and authors are others'."""
    assert [entry.name for entry in catalog if entry.chat is not None] == []


def test_none(folder: LockedFolder) -> None:
    for files in ({}, {"config": {}}, {"config": {"chat_template": None}}):
        entry = loaded(folder, **files)
        assert entry.chat_template(tools=False) is None
        assert entry.chat_template(tools=True) is None
        assert entry.template_sha256 is None


def test_a_file(folder: LockedFolder) -> None:
    entry = loaded(folder, chat_template=b"file: {{ messages[0].content }}\n")
    assert rendered(entry) == rendered(entry, tools=True) == "file: Hello"
    assert entry.template_sha256 == sha256(b"file: {{ messages[0].content }}\n")


def test_a_field_of_the_config(folder: LockedFolder) -> None:
    entry = loaded(folder, config={"chat_template": "field: {{ messages[0].content }}"})
    assert rendered(entry) == rendered(entry, tools=True) == "field: Hello"
    assert entry.template_sha256 == sha256(b"field: {{ messages[0].content }}")


def test_a_file_goes_before_the_field(folder: LockedFolder) -> None:
    entry = loaded(folder, chat_template=b"file", config={"chat_template": "field"})
    assert rendered(entry) == "file"
    assert entry.template_sha256 == sha256(b"file")


def named(**sources: str) -> dict[str, Any]:
    return {
        "chat_template": [{"name": name, "template": source} for name, source in sources.items()]
    }


def test_several_by_name(folder: LockedFolder) -> None:
    entry = loaded(folder, config=named(rag="R", default="D", tool_use="T"))
    assert rendered(entry) == "D"
    assert rendered(entry, tools=True) == "T"
    assert entry.template_sha256 == sha256(b"DRT")


def test_several_without_one_for_tools(folder: LockedFolder) -> None:
    entry = loaded(folder, config=named(default="D", rag="R"))
    assert rendered(entry) == rendered(entry, tools=True) == "D"


def test_several_without_a_default(folder: LockedFolder) -> None:
    """Transformers refuses a chat without tools then, too."""
    entry = loaded(folder, config=named(tool_use="T"))
    assert entry.chat_template(tools=False) is None
    assert rendered(entry, tools=True) == "T"


# ---- what it is given -------------------------------------------------------------------------


def test_the_names_of_tokens_are_the_config_s(folder: LockedFolder) -> None:
    config = {"bos_token": "<bos>", "eos_token": {"__type": "AddedToken", "content": "</s>"}}
    assert rendered(loaded(folder, chat_template=HELLO, config=config)) == "<bos></s>Hello"


def test_what_a_config_does_not_name_is_undefined(folder: LockedFolder) -> None:
    """As in transformers: Qwen's config has `"bos_token": null`."""
    config = {"bos_token": None, "add_bos_token": True, "image_token": "<image>"}
    source = b"{{ bos_token is defined }}{{ eos_token is defined }}{{ image_token is defined }}"
    assert rendered(loaded(folder, chat_template=source, config=config)) == "FalseFalseFalse"


def test_without_a_config_they_are_those_of_the_roles(folder: LockedFolder) -> None:
    assert rendered(loaded(folder, chat_template=HELLO)) == "<s></s>Hello"


def test_a_sentencepiece_model_may_have_one(folder: LockedFolder) -> None:
    folder.add_embedded("mistral-7b-v0.3", files={"chat_template": HELLO})
    (entry,) = load_catalog(folder.root)
    assert rendered(entry) == "<s></s>Hello"


# ---- what is refused --------------------------------------------------------------------------

NO_TEMPLATES: dict[str, dict[str, bytes | dict[str, Any]]] = {
    "no Jinja": {"chat_template": b"{% for %}"},
    "a block without an end": {"chat_template": b"{% if true %}"},
    "a filter that does not exist": {"chat_template": b"{{ messages | nope }}"},
    "a filter that is not offered": {"chat_template": b"{{ messages | random }}"},
    "a tag of another environment": {"chat_template": b"{% trans %}a{% endtrans %}"},
    "no UTF-8": {"chat_template": b"\xff"},
    "nested too deep for Python": {
        "chat_template": b"{% for x in y %}" * 30 + b"{% endfor %}" * 30
    },
    "nested too deep for Jinja": {"chat_template": b"{{ " + b"(" * 9999 + b")" * 9999 + b" }}"},
    "in a config": {"config": {"chat_template": "{% for %}"}},
    "in a list of a config": {"config": named(default="a", tool_use="{{")},
    "a number": {"config": {"chat_template": 5}},
    "a list of texts": {"config": {"chat_template": ["a"]}},
    "without its name": {"config": {"chat_template": [{"template": "a"}]}},
    "named, a number": {"config": {"chat_template": [{"name": "default", "template": 5}]}},
}


@pytest.mark.parametrize("name", NO_TEMPLATES)
def test_a_template_that_does_not_compile_refuses_the_start(
    folder: LockedFolder, name: str
) -> None:
    add(folder, NO_TEMPLATES[name])
    with pytest.raises(ArtifactError) as caught:
        load_catalog(folder.root)
    line = str(caught.value)
    assert len(line.splitlines()) == 1, line
    (role,) = NO_TEMPLATES[name]
    (path,) = [file["path"] for file in folder.artifacts[0]["file"] if file["role"] == role]
    assert line.startswith(f"artifact 'case0', file {path!r}: the chat template can't be used: ")


def test_a_template_that_is_not_the_pinned_one_refuses_the_start(folder: LockedFolder) -> None:
    add(folder, {"chat_template": HELLO}, written={"chat_template": HELLO + b" "})
    with pytest.raises(ArtifactError, match="chat_template"):
        load_catalog(folder.root)


def test_a_rank_file_has_no_template(folder: LockedFolder) -> None:
    folder.add_embedded("cl100k_base", files={"chat_template": HELLO})
    with pytest.raises(ArtifactError, match="not known: chat_template"):
        load_catalog(folder.root)


# ---- the fingerprint and the probes -----------------------------------------------------------


def test_the_fingerprint_moves_with_the_template(folder: LockedFolder) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"chat_template": b"a"},
        {"chat_template": b"b"},
        {"config": {"chat_template": "a"}},
        {"config": named(default="a")},
        {"config": named(default="a", tool_use="b")},
        {"config": named(default="b", tool_use="a")},
        {"config": named(default="a", rag="b")},
        {"chat_template": b"a", "config": {"bos_token": "<s>"}},
        {"chat_template": b"a", "config": {"bos_token": "<bos>"}},
    ]
    fingerprints = {loaded(folder, **files).fingerprint for files in variants}
    assert len(fingerprints) == len(variants)


def test_the_probes_cover_chats(folder: LockedFolder) -> None:
    source = b"{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}{% endfor %}"
    plain = loaded(folder)
    entry = loaded(folder, chat_template=source)
    ids = probe_ids(entry.tokenizer, entry.chat)
    assert ids[: -len(CHAT_PROBES)] == probe_ids(plain.tokenizer, None)
    marker = entry.tokenizer.controls["<|im_start|>"]
    assert [chat.count(marker) for chat in ids[-len(CHAT_PROBES) :]] == list(map(len, CHAT_PROBES))
    assert probe_count(entry.tokenizer, entry.chat) == len(ids)


def test_a_chat_that_the_template_refuses_is_an_empty_probe(folder: LockedFolder) -> None:
    entry = loaded(folder, chat_template=b"{{ raise_exception('no') }}")
    ids = probe_ids(entry.tokenizer, entry.chat)
    assert ids[-len(CHAT_PROBES) :] == [[]] * len(CHAT_PROBES)


def test_pinned_probes_stop_a_start_with_other_renderings(folder: LockedFolder) -> None:
    """Another version of Jinja that renders otherwise is the same as another library of ids."""
    one = loaded(folder, chat_template=b"{{ messages[0].content }}")
    other = loaded(folder, chat_template=b"{{ messages[0].content }}!")
    pinned = f"sha256:{probes_digest(one.tokenizer, one.chat).removeprefix('sha256:')}"
    assert pinned != f"sha256:{probes_digest(other.tokenizer, other.chat).removeprefix('sha256:')}"
    add(folder, {"chat_template": b"{{ messages[0].content }}"}, name="good", probes=pinned)
    assert load_catalog(folder.root).resolve("good").chat is not None
    add(folder, {"chat_template": b"{{ messages[0].content }}!"}, name="bad", probes=pinned)
    with pytest.raises(ArtifactError, match="'bad': the probe ids moved"):
        load_catalog(folder.root)


def test_the_probes_need_no_clock(folder: LockedFolder) -> None:
    """Else a start would fail tomorrow."""
    source = b"{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no clock' }}"
    entry = loaded(folder, chat_template=source)
    ids = probe_ids(entry.tokenizer, entry.chat)
    assert ids[-1] == list(b"no clock")
    template = entry.chat_template(tools=False)
    assert template is not None
    assert template.render({}, datetime(2026, 11, 30, tzinfo=UTC), 100) == "30 Nov 2026"
