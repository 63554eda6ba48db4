"""POST /encode: what CONTRACT section 3 promises of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog
    from tests.asgi import AppClient

HELLO = {"tokenizer": "cl100k_base", "text": "Hello world"}
END = "<|endoftext|>"

KNOWN = [
    ("cl100k_base", "Hello world", [9906, 1917]),
    ("o200k_base", "Hello world", [13225, 2375]),
    ("gpt2", "Hello world", [15496, 995]),
    ("r50k_base", "Hello world", [15496, 995]),
    ("cl100k_base", "🎉", [9468, 236, 231]),
]


@pytest.mark.parametrize(("tokenizer", "text", "ids"), KNOWN)
def test_known_answers(client: AppClient, tokenizer: str, text: str, ids: list[int]) -> None:
    answer = client.ok("/encode", {"tokenizer": tokenizer, "text": text})
    assert answer["ids"] == ids
    assert (answer["count"], answer["bytes"]) == (len(ids), len(text.encode()))


def test_the_shape_of_an_answer(client: AppClient) -> None:
    answer = client.ok("/encode", {**HELLO, "tokenizer": "gpt-4"})
    fingerprint = client.get("/fingerprint/cl100k_base").json()["fingerprint"]
    assert answer == {
        "tokenizer": "cl100k_base",
        "fingerprint": fingerprint,
        "special_policy": "literal",
        "add_special_tokens": False,
        "ids": [9906, 1917],
        "count": 2,
        "bytes": 11,
        "special_tokens_added": 0,
        "unknown_tokens": 0,
    }


def test_the_shape_of_a_batch(client: AppClient) -> None:
    body = {
        "tokenizer": "bert-base-uncased",
        "texts": ["hello", "", "東 hello ภาษา"],
        "add_special_tokens": True,
    }
    answer = client.ok("/encode", body)
    head = {"tokenizer", "fingerprint", "special_policy", "add_special_tokens"}
    assert set(answer) == head | {"results", "count", "bytes"}
    assert answer["add_special_tokens"] is True
    first, empty, last = answer["results"]
    assert first == {
        "ids": [101, 7592, 102],
        "count": 3,
        "bytes": 5,
        "special_tokens_added": 2,
        "unknown_tokens": 0,
    }
    assert (empty["ids"], empty["bytes"]) == ([101, 102], 0)
    assert (last["ids"][-2], last["unknown_tokens"]) == (100, 1)
    assert answer["count"] == sum(item["count"] for item in answer["results"])
    assert answer["bytes"] == sum(len(text.encode()) for text in body["texts"])


def test_an_empty_batch_and_an_empty_text(client: AppClient) -> None:
    answer = client.ok("/encode", {"tokenizer": "cl100k_base", "texts": []})
    assert (answer["results"], answer["count"], answer["bytes"]) == ([], 0, 0)
    answer = client.ok("/encode", {"tokenizer": "cl100k_base", "text": ""})
    assert (answer["ids"], answer["count"], answer["bytes"]) == ([], 0, 0)


def test_every_alias_leads_to_its_artifact(client: AppClient, catalog: Catalog) -> None:
    for entry in catalog:
        for name in (entry.name, *entry.artifact.aliases):
            answer = client.ok("/encode", {"tokenizer": name, "text": "a"})
            assert answer["tokenizer"] == entry.name
            assert answer["fingerprint"] == entry.fingerprint


# ---- policies -----------------------------------------------------------------------------


def test_every_spelling_of_every_artifact_under_every_policy(
    client: AppClient, catalog: Catalog
) -> None:
    """One text a spelling; o200k_harmony has a thousand, of which some are enough here."""
    for entry in catalog:
        controls = entry.tokenizer.controls
        spellings = sorted(controls)[:40]
        texts = [f"a{spelling}b" for spelling in spellings]
        body: dict[str, Any] = {"tokenizer": entry.name, "texts": texts}
        ids = set(controls.values()) - {entry.tokenizer.unknown_id}
        literal = client.ok("/encode", body)
        for item in literal["results"]:
            assert ids.isdisjoint(item["ids"])
        special = client.ok("/encode", {**body, "special_policy": "special"})
        for spelling, item in zip(spellings, special["results"], strict=True):
            assert controls[spelling] in item["ids"]
        reject = client.ok("/encode", {**body, "special_policy": "reject"})
        for place, (spelling, item) in enumerate(zip(spellings, reject["results"], strict=True)):
            error = item["error"]
            assert error["code"] == "special_token_in_text"
            assert error["token"] == spelling
            assert (error["offset"], error["pointer"]) == (1, f"/texts/{place}")
        assert [answer["special_policy"] for answer in (literal, special, reject)] == [
            "literal",
            "special",
            "reject",
        ]


def test_literal_and_special(client: AppClient) -> None:
    literal = client.ok("/encode", {**HELLO, "text": END})
    assert literal["count"] == 7
    assert literal["ids"][:4] == [27, 91, 8862, 728]
    special = client.ok("/encode", {**HELLO, "text": END, "special_policy": "special"})
    assert special["ids"] == [100257]


def test_allowed_special_narrows(client: AppClient) -> None:
    text = f"{END}<|fim_prefix|>"
    body = {"tokenizer": "cl100k_base", "text": text, "special_policy": "special"}
    assert client.ok("/encode", body)["ids"] == [100257, 100258]
    only = client.ok("/encode", {**body, "allowed_special": ["<|fim_prefix|>"]})["ids"]
    assert only[-1] == 100258
    assert 100257 not in only
    assert only[:4] == [27, 91, 8862, 728]
    nothing = client.ok("/encode", {**body, "allowed_special": []})["ids"]
    assert nothing == client.ok("/encode", {"tokenizer": "cl100k_base", "text": text})["ids"]


@pytest.mark.parametrize("policy", ["literal", "reject", None])
@pytest.mark.parametrize("allowed", [[], [END]])
def test_allowed_special_needs_special(
    client: AppClient, policy: str | None, allowed: list[str]
) -> None:
    body = {**HELLO, "allowed_special": allowed}
    if policy is not None:
        body["special_policy"] = policy
    for path in ("/encode", "/count"):
        refusal = problem(client.post(path, body), 422, "validation")
        assert refusal["pointer"] == "/allowed_special"


def test_allowed_special_takes_no_misspelling(client: AppClient) -> None:
    """Else a spelling that was to be recognised would stay literal in silence."""
    allowed = [END, "<|endoftxt|>"]
    body = {**HELLO, "special_policy": "special", "allowed_special": allowed}
    assert problem(client.post("/encode", body), 422, "validation")["pointer"] == (
        "/allowed_special/1"
    )


@pytest.mark.parametrize(
    ("before", "offset"),
    [("", 0), ("ab", 2), ("é", 1), ("🎉🎉", 2), ("e\u0301 👩‍🔬", 6), ("\0", 1)],
)
def test_reject_counts_code_points(client: AppClient, before: str, offset: int) -> None:
    for tokenizer, spelling in (
        ("cl100k_base", END),
        ("gpt2", END),
        ("bert-base-uncased", "[SEP]"),
        ("all-minilm-l6-v2", "[SEP]"),
        ("mistral-7b-v0.3", "</s>"),
        ("t5-base", "</s>"),
        ("clip-vit-large-patch14", END),
    ):
        body = {
            "tokenizer": tokenizer,
            "text": f"{before}{spelling} {spelling}",
            "special_policy": "reject",
        }
        refusal = problem(client.post("/encode", body), 422, "special_token_in_text")
        assert (refusal["token"], refusal["offset"]) == (spelling, offset), tokenizer
        assert refusal["pointer"] == "/text"


def test_reject_in_a_batch_stands_in_its_place(client: AppClient) -> None:
    texts = ["a", "🎉", "b", f"🎉 🎉{END}", "Hello world"]
    body = {"tokenizer": "cl100k_base", "texts": texts, "special_policy": "reject"}
    answer = client.ok("/encode", body)
    error = answer["results"][3]["error"]
    assert error["code"] == "special_token_in_text"
    assert (error["token"], error["offset"], error["pointer"]) == (END, 3, "/texts/3")
    assert error["detail"]
    assert "request_id" not in error, "that is of the request, not of an item"
    assert answer["results"][4]["ids"] == [9906, 1917]
    answered = [item for item in answer["results"] if "error" not in item]
    assert answer["count"] == sum(item["count"] for item in answered)
    assert answer["bytes"] == sum(item["bytes"] for item in answered)


def test_reject_of_a_clean_text_is_literal(client: AppClient) -> None:
    rejecting = client.ok("/encode", {**HELLO, "special_policy": "reject"})
    assert rejecting["ids"] == [9906, 1917]
    assert rejecting["special_policy"] == "reject"


# ---- the frame ----------------------------------------------------------------------------

FRAMES = [
    ("bert-base-uncased", [101], [102]),
    ("all-minilm-l6-v2", [101], [102]),
    ("mistral-7b-v0.3", [1], []),
    ("t5-base", [], [1]),
    ("clip-vit-large-patch14", [49406], [49407]),
    ("cl100k_base", [], []),
    ("gpt2", [], []),
]


@pytest.mark.parametrize(("tokenizer", "before", "after"), FRAMES)
@pytest.mark.parametrize("text", ["hello there", ""])
def test_the_frame(
    client: AppClient, *, tokenizer: str, before: list[int], after: list[int], text: str
) -> None:
    bare = client.ok("/encode", {"tokenizer": tokenizer, "text": text})
    framed = client.ok(
        "/encode", {"tokenizer": tokenizer, "text": text, "add_special_tokens": True}
    )
    assert framed["ids"] == [*before, *bare["ids"], *after]
    assert framed["special_tokens_added"] == len(before) + len(after)
    assert framed["count"] == len(framed["ids"])
    assert framed["bytes"] == bare["bytes"]
    assert bare["special_tokens_added"] == 0
    assert "warnings" not in framed


@pytest.mark.parametrize(
    ("tokenizer", "text", "warned"),
    [
        ("mistral-7b-v0.3", "<s>hello", True),
        ("mistral-7b-v0.3", "<s>", True),
        ("mistral-7b-v0.3", "hello<s>hello", False),
        ("mistral-7b-v0.3", "hello</s>", False),
        ("t5-base", "hello</s>", True),
        ("t5-base", "</s>hello", False),
        ("bert-base-uncased", "[CLS] hello", True),
        ("bert-base-uncased", "hello [SEP]", True),
        ("bert-base-uncased", "[SEP] hello [CLS]", False),
        ("clip-vit-large-patch14", "<|startoftext|>hello", True),
        ("clip-vit-large-patch14", f"hello{END}", True),
        ("cl100k_base", f"{END}hello{END}", False),
    ],
)
def test_a_doubled_special_token_is_warned_of(
    client: AppClient, tokenizer: str, text: str, *, warned: bool
) -> None:
    body = {
        "tokenizer": tokenizer,
        "text": text,
        "special_policy": "special",
        "add_special_tokens": True,
    }
    expected = ["duplicate_special_token"] if warned else None
    for path in ("/encode", "/count"):
        answer = client.ok(path, body)
        assert answer.get("warnings") == expected
        batch = client.ok(path, {**{k: v for k, v in body.items() if k != "text"}, "texts": [text]})
        assert batch["results"][0].get("warnings") == expected
        for calm in ({"special_policy": "literal"}, {"add_special_tokens": False}):
            assert "warnings" not in client.ok(path, {**body, **calm})


def test_the_ids_stay_as_asked_under_a_warning(client: AppClient) -> None:
    body = {
        "tokenizer": "mistral-7b-v0.3",
        "text": "<s>hello",
        "special_policy": "special",
        "add_special_tokens": True,
    }
    ids = client.ok("/encode", body)["ids"]
    assert ids[:2] == [1, 1]
    assert ids[2:] == client.ok("/encode", {"tokenizer": "mistral-7b-v0.3", "text": "hello"})["ids"]


# ---- unknown tokens -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenizer", "text", "policy", "unknown"),
    [
        ("bert-base-uncased", "hello ภาษา there ภาษา", "literal", 2),
        ("bert-base-uncased", "hello", "literal", 0),
        ("bert-base-uncased", "hello [UNK]", "literal", 0),
        ("bert-base-uncased", "hello [UNK]", "special", 0),
        ("bert-base-uncased", "[UNK] ภาษา [UNK]", "special", 1),
        ("bert-base-uncased", "x" * 101, "literal", 1),
        ("all-minilm-l6-v2", "[UNK] ภาษา [UNK]", "special", 1),
        ("all-minilm-l6-v2", "ภาษา", "literal", 1),
        ("t5-base", "hello 東 there", "literal", 1),
        ("mistral-7b-v0.3", "hello \U0001f9ea 東", "literal", 0),
        ("cl100k_base", "ภาษา", "literal", 0),
        ("clip-vit-large-patch14", "ภาษา", "literal", 0),
    ],
)
def test_unknown_tokens(
    client: AppClient, *, tokenizer: str, text: str, policy: str, unknown: int
) -> None:
    body = {"tokenizer": tokenizer, "text": text, "special_policy": policy}
    assert client.ok("/encode", body)["unknown_tokens"] == unknown
    assert client.ok("/count", body)["unknown_tokens"] == unknown


# ---- expected_fingerprint -----------------------------------------------------------------


@pytest.mark.parametrize("path", ["/encode", "/decode", "/count"])
def test_expected_fingerprint(client: AppClient, path: str) -> None:
    body: dict[str, Any] = {"tokenizer": "gpt-4", "text": "a"}
    if path == "/decode":
        body = {"tokenizer": "gpt-4", "ids": [64]}
    actual = client.ok(path, body)["fingerprint"]
    client.ok(path, {**body, "expected_fingerprint": actual})
    other = client.ok(path, {**body, "tokenizer": "gpt2"})["fingerprint"]
    refusal = problem(
        client.post(path, {**body, "expected_fingerprint": other}), 409, "fingerprint_mismatch"
    )
    assert (refusal["expected"], refusal["actual"]) == (other, actual)


def test_a_fingerprint_that_differs_refuses_the_whole_batch(client: AppClient) -> None:
    other = client.get("/fingerprint/gpt2").json()["fingerprint"]
    for path, items in (
        ("/encode", {"texts": ["a"]}),
        ("/count", {"texts": ["a"]}),
        ("/decode", {"batch": [[1]]}),
    ):
        body = {"tokenizer": "cl100k_base", "expected_fingerprint": other, **items}
        problem(client.post(path, body), 409, "fingerprint_mismatch")
