"""POST /decode: what CONTRACT section 3 promises of it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog
    from tests.asgi import AppClient

HELLO = {"tokenizer": "cl100k_base", "ids": [9906, 1917]}
EMOJI = [9468, 236, 231]
"""The ids of one emoji of four bytes: f0 9f, 8e, 89."""
HALF = EMOJI[:2]


def decoded(client: AppClient, ids: list[int], **more: Any) -> dict[str, Any]:
    return client.ok("/decode", {"tokenizer": "cl100k_base", "ids": ids, **more})


def test_the_shape_of_an_answer(client: AppClient) -> None:
    assert client.ok("/decode", {**HELLO, "tokenizer": "gpt-4"}) == {
        "tokenizer": "cl100k_base",
        "fingerprint": client.get("/fingerprint/cl100k_base").json()["fingerprint"],
        "mode": "strict",
        "text": "Hello world",
        "replacements": 0,
    }


def test_the_shape_of_a_batch(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "batch": [[9906, 1917], [], EMOJI], "mode": "replace"}
    answer = client.ok("/decode", body)
    assert set(answer) == {"tokenizer", "fingerprint", "mode", "results"}
    assert answer["mode"] == "replace"
    texts = [item["text"] for item in answer["results"]]
    assert texts == ["Hello world", "", "🎉"]
    assert all(set(item) == {"text", "replacements"} for item in answer["results"])


def test_output_bytes(client: AppClient) -> None:
    answer = decoded(client, HALF, output="bytes", mode="replace")
    assert "text" not in answer
    assert base64.b64decode(answer["bytes_base64"]) == "🎉".encode()[:3]
    assert answer["replacements"] == 0
    strict = decoded(client, HALF, output="bytes")
    assert strict["bytes_base64"] == answer["bytes_base64"], "bytes are bytes, whatever the mode"
    assert decoded(client, [], output="bytes")["bytes_base64"] == ""
    item = client.ok("/decode", {"tokenizer": "cl100k_base", "batch": [HALF], "output": "bytes"})[
        "results"
    ][0]
    assert item == {"bytes_base64": answer["bytes_base64"], "replacements": 0}


def test_bytes_are_joined_before_they_are_read(client: AppClient, catalog: Catalog) -> None:
    text = "é 🎉 👩‍🔬 東京 ภาษา नमस्ते"
    for entry in catalog:
        if entry.tokenizer.facts.round_trip == "lossy":
            continue
        ids = client.ok("/encode", {"tokenizer": entry.name, "text": text})["ids"]
        answer = client.ok("/decode", {"tokenizer": entry.name, "ids": ids})
        assert (answer["text"], answer["replacements"]) == (text, 0), entry.name


@pytest.mark.parametrize(
    ("ids", "text", "replacements"),
    [
        (EMOJI, "🎉", 0),
        (HALF, "\ufffd", 1),
        ([*HALF, 64], "\ufffda", 1),
        ([*HALF, *HALF], "\ufffd\ufffd", 2),
        ([231, 231], "\ufffd\ufffd", 2),
        ([64, 231, 64], "a\ufffda", 1),
    ],
)
def test_replace(client: AppClient, ids: list[int], text: str, replacements: int) -> None:
    """One U+FFFD for each maximal ill-formed part."""
    answer = decoded(client, ids, mode="replace")
    assert (answer["text"], answer["replacements"]) == (text, replacements)


def test_a_replacement_character_of_the_text_itself_is_none(client: AppClient) -> None:
    ids = client.ok("/encode", {"tokenizer": "cl100k_base", "text": "a\ufffdb"})["ids"]
    for mode in ("strict", "replace"):
        answer = decoded(client, ids, mode=mode)
        assert (answer["text"], answer["replacements"]) == ("a\ufffdb", 0)
    answer = decoded(client, [*ids, *HALF], mode="replace")
    assert (answer["text"], answer["replacements"]) == ("a\ufffdb\ufffd", 1)


@pytest.mark.parametrize(
    ("ids", "byte_offset", "index", "reason"),
    [
        (HALF, 0, 0, "truncated"),
        ([64, 9468], 1, 1, "truncated"),
        ([*HALF, 64], 0, 0, "malformed"),
        ([*EMOJI, 231], 4, 3, "malformed"),
        ([9906, 1917, 9468, 236], 11, 2, "truncated"),
    ],
)
def test_strict_names_the_byte_and_the_id(
    client: AppClient, ids: list[int], byte_offset: int, index: int, *, reason: str
) -> None:
    response = client.post("/decode", {"tokenizer": "cl100k_base", "ids": ids})
    refusal = problem(response, 422, "invalid_utf8")
    assert (refusal["byte_offset"], refusal["reason"]) == (byte_offset, reason)
    assert (refusal["index"], refusal["id"]) == (index, ids[index])


@pytest.mark.parametrize("mode", ["strict", "replace"])
@pytest.mark.parametrize("output", ["text", "bytes"])
def test_an_id_outside_the_vocabulary(
    client: AppClient, catalog: Catalog, mode: str, output: str
) -> None:
    for entry in catalog:
        outside = [-1, entry.max_id + 1, *entry.holes[:1], 2**31, 2**63]
        for token_id in outside:
            ids = [entry.max_id, entry.max_id, token_id]
            body = {"tokenizer": entry.name, "ids": ids, "mode": mode, "output": output}
            refusal = problem(client.post("/decode", body), 422, "invalid_token_id")
            assert (refusal["index"], refusal["id"]) == (2, token_id), entry.name


def test_in_a_batch_an_item_has_its_own_fault(client: AppClient) -> None:
    batch = [[9906], [64, 100256], [64, 9468], [1917]]
    results = client.ok("/decode", {"tokenizer": "cl100k_base", "batch": batch})["results"]
    assert (results[0]["text"], results[3]["text"]) == ("Hello", " world")
    invalid, broken = results[1]["error"], results[2]["error"]
    assert (invalid["code"], invalid["index"], invalid["id"]) == ("invalid_token_id", 1, 100256)
    assert (broken["code"], broken["index"], broken["byte_offset"]) == ("invalid_utf8", 1, 1)
    assert invalid["detail"]
    assert broken["reason"] == "truncated"


SPELT = [
    ("cl100k_base", "<|endoftext|>"),
    ("gpt2", "<|endoftext|>"),
    ("o200k_harmony", "<|start|>"),
    ("bert-base-uncased", "[SEP]"),
    ("all-minilm-l6-v2", "[SEP]"),
    ("mistral-7b-v0.3", "</s>"),
    ("mistral-7b-v0.3", "[INST]"),
    ("t5-base", "</s>"),
    ("clip-vit-large-patch14", "<|endoftext|>"),
]


@pytest.mark.parametrize(("tokenizer", "spelling"), SPELT)
def test_a_control_id_decodes_to_its_spelling(
    client: AppClient, catalog: Catalog, tokenizer: str, spelling: str
) -> None:
    control = catalog.resolve(tokenizer).tokenizer.controls[spelling]
    hello = client.ok("/encode", {"tokenizer": tokenizer, "text": "hello"})["ids"]
    body = {"tokenizer": tokenizer, "ids": [*hello, control]}
    text = client.ok("/decode", body)["text"]
    assert text.startswith("hello")
    assert text.endswith(spelling)
    assert client.ok("/decode", {**body, "skip_special_tokens": True})["text"] == "hello"
    alone = {"tokenizer": tokenizer, "ids": [control]}
    assert client.ok("/decode", alone)["text"] == spelling
    assert client.ok("/decode", {**alone, "skip_special_tokens": True})["text"] == ""


def test_every_control_id_of_every_artifact(client: AppClient, catalog: Catalog) -> None:
    for entry in catalog:
        controls = {
            spelling: token_id
            for spelling, token_id in entry.tokenizer.controls.items()
            if token_id != entry.tokenizer.unknown_id
        }
        batch = [[token_id] for token_id in controls.values()]
        body = {"tokenizer": entry.name, "batch": batch}
        spelt = [item["text"] for item in client.ok("/decode", body)["results"]]
        assert spelt == list(controls)
        skipped = client.ok("/decode", {**body, "skip_special_tokens": True})["results"]
        assert {item["text"] for item in skipped} <= {""}


def test_skipping_special_tokens_keeps_the_callers_count(client: AppClient) -> None:
    """`index` is a place in the ids that the caller sent, not in those that were left."""
    end = 100257
    body = {"tokenizer": "cl100k_base", "skip_special_tokens": True}
    ids = [end, 64, end, end, 100256]
    refusal = problem(client.post("/decode", {**body, "ids": ids}), 422, "invalid_token_id")
    assert (refusal["index"], refusal["id"]) == (4, 100256)
    ids = [end, 64, end, 9468]
    refusal = problem(client.post("/decode", {**body, "ids": ids}), 422, "invalid_utf8")
    assert (refusal["index"], refusal["id"], refusal["byte_offset"]) == (3, 9468, 1)
    assert decoded(client, [9468, end, 236, 231], skip_special_tokens=True)["text"] == "🎉"
    assert decoded(client, [end, end], skip_special_tokens=True)["text"] == ""


def test_lossy_formats_say_so(client: AppClient, catalog: Catalog) -> None:
    for entry in catalog:
        page = client.get(f"/fingerprint/{entry.name}").json()
        expected = {
            "tiktoken": {"exact"},
            "minbpe": {"exact"},
            "wordpiece": {"lossy"},
            "bpe_merges": {"lossy"},
            "tokenizer_json": {"exact", "lossy"},
            "sentencepiece": {"normalizing", "lossy"},
        }[page["format"]]
        assert page["round_trip"] in expected
