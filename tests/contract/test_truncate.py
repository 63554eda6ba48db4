"""POST /truncate: what CONTRACT section 3 promises of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import MSGPACK_TYPE, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asgi import AppClient

TEXT = "Hello world, this is a test"
BODY = {"tokenizer": "cl100k_base", "text": TEXT, "max_tokens": 4}
END = "<|endoftext|>"


def test_the_shape_of_an_answer(client: AppClient) -> None:
    answer = client.ok("/truncate", {**BODY, "tokenizer": "gpt-4"})
    fingerprint = client.get("/fingerprint/cl100k_base").json()["fingerprint"]
    assert answer == {
        "tokenizer": "cl100k_base",
        "fingerprint": fingerprint,
        "special_policy": "literal",
        "add_special_tokens": False,
        "text": "Hello world, this",
        "start": 0,
        "end": 17,
        "count": 4,
        "bytes": 17,
        "truncated": True,
    }


def test_a_text_that_fits_stays_as_it_is(client: AppClient) -> None:
    for text in ("", TEXT, "\u00e9\n"):
        answer = client.ok("/truncate", {**BODY, "text": text, "max_tokens": 100})
        count = client.ok("/count", {"tokenizer": "cl100k_base", "text": text})["count"]
        assert (answer["text"], answer["truncated"]) == (text, False)
        assert (answer["start"], answer["end"]) == (0, len(text))
        assert (answer["count"], answer["bytes"]) == (count, len(text.encode()))


def test_the_end_is_kept(client: AppClient) -> None:
    answer = client.ok("/truncate", {**BODY, "keep": "end"})
    assert answer["text"] == " this is a test"
    assert (answer["start"], answer["end"], answer["count"]) == (12, 27, 4)


CUT = "\u8a08\u6e2c\U0001f9ea\u3059\u308b"


@pytest.mark.parametrize(
    ("unit", "start", "end"), [("codepoint", 2, 5), ("byte", 6, 16), ("utf16", 2, 6)]
)
def test_offsets_in_each_unit(client: AppClient, unit: str, start: int, end: int) -> None:
    body = {"tokenizer": "o200k_base", "text": CUT, "unit": unit}
    first = client.ok("/truncate", {**body, "max_tokens": 3})
    assert (first["text"], first["start"], first["end"]) == (CUT[:2], 0, start)
    last = client.ok("/truncate", {**body, "max_tokens": 4, "keep": "end"})
    assert (last["text"], last["start"], last["end"]) == (CUT[2:], start, end)
    assert last["bytes"] == 10


def test_a_cluster_is_whole_or_left_out(client: AppClient) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    body = {"tokenizer": "cl100k_base", "text": f"a{family}"}
    size = client.ok("/count", body)["count"]
    for max_tokens in range(1, size):
        assert client.ok("/truncate", {**body, "max_tokens": max_tokens})["text"] == "a"
    assert client.ok("/truncate", {**body, "max_tokens": size})["text"] == f"a{family}"


def test_a_budget_that_holds_no_cluster_keeps_nothing(client: AppClient) -> None:
    for keep in ("start", "end"):
        body = {**BODY, "text": "\U0001f9ea\U0001f9ea", "max_tokens": 1, "keep": keep}
        answer = client.ok("/truncate", body)
        assert (answer["text"], answer["count"], answer["bytes"]) == ("", 0, 0)
        assert answer["start"] == answer["end"] == (0 if keep == "start" else 2)
        assert answer["truncated"] is True


# ---- gross and net ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenizer", "frame"),
    [("bert-base-uncased", 2), ("mistral-7b-v0.3", 1), ("t5-base", 1), ("cl100k_base", 0)],
)
def test_a_gross_budget_holds_the_template(client: AppClient, tokenizer: str, frame: int) -> None:
    text = "word " * 50
    net = client.ok("/truncate", {"tokenizer": tokenizer, "text": text, "max_tokens": 16})
    gross = client.ok(
        "/truncate",
        {
            "tokenizer": tokenizer,
            "text": text,
            "max_tokens": 16 + frame,
            "add_special_tokens": True,
        },
    )
    assert gross["add_special_tokens"] is True
    assert gross["text"] == net["text"]
    assert gross["count"] == net["count"] + frame <= 16 + frame
    counted = {"tokenizer": tokenizer, "text": gross["text"], "add_special_tokens": True}
    assert client.ok("/count", counted)["count"] == gross["count"]


def test_the_template_alone_may_fill_the_budget(client: AppClient) -> None:
    body = {"tokenizer": "bert-base-uncased", "text": "a b", "add_special_tokens": True}
    empty = client.ok("/truncate", {**body, "max_tokens": 2})
    assert (empty["text"], empty["count"]) == ("", 2)
    assert client.ok("/truncate", {**body, "max_tokens": 3})["text"].strip() == "a"
    problem(client.post("/truncate", {**body, "max_tokens": 1}), 422, "budget_too_small")


# ---- policies ----------------------------------------------------------------------------------


def test_special_counts_the_control_id(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "text": f"a{END}b", "max_tokens": 2}
    assert client.ok("/truncate", body)["text"] == "a<"
    special = client.ok("/truncate", {**body, "special_policy": "special"})
    assert (special["text"], special["count"]) == (f"a{END}", 2)
    assert special["special_policy"] == "special"


def test_allowed_special_narrows(client: AppClient) -> None:
    body = {
        "tokenizer": "cl100k_base",
        "text": f"{END}<|fim_prefix|>",
        "special_policy": "special",
        "allowed_special": ["<|fim_prefix|>"],
        "max_tokens": 8,
    }
    assert client.ok("/truncate", body)["text"] == body["text"]
    assert client.ok("/truncate", {**body, "max_tokens": 7})["text"] == END


def test_reject_looks_at_all_of_the_text(client: AppClient) -> None:
    """The spelling stands after the cut: what is kept does not show it, and yet it is refused."""
    body = {**BODY, "text": f"{TEXT} {END}", "special_policy": "reject"}
    error = problem(client.post("/truncate", body), 422, "special_token_in_text")
    assert (error["token"], error["offset"], error["pointer"]) == (END, len(TEXT) + 1, "/text")
    assert client.ok("/truncate", {**body, "text": TEXT})["count"] == 4


# ---- batches -----------------------------------------------------------------------------------


def test_the_shape_of_a_batch(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "texts": [TEXT, "", "Hello"], "max_tokens": 4}
    answer = client.ok("/truncate", body)
    assert set(answer) == {
        *("tokenizer", "fingerprint", "special_policy", "add_special_tokens", "results")
    }
    kept = ("text", "start", "end", "count", "bytes", "truncated")
    assert [tuple(result[key] for key in kept) for result in answer["results"]] == [
        ("Hello world, this", 0, 17, 4, 17, True),
        ("", 0, 0, 0, 0, False),
        ("Hello", 0, 5, 1, 5, False),
    ]


def test_an_items_own_fault_stands_in_its_place(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_text_bytes=40)
    texts = [TEXT, "a" * 41, f"b{END}", "c"]
    body = {
        "tokenizer": "cl100k_base",
        "texts": texts,
        "max_tokens": 2,
        "special_policy": "reject",
    }
    one, large, refused, other = client.ok("/truncate", body)["results"]
    assert (one["text"], other["text"]) == ("Hello world", "c")
    assert large["error"]["code"] == "text_too_large"
    assert refused["error"]["code"] == "special_token_in_text"
    assert (refused["error"]["offset"], refused["error"]["pointer"]) == (1, "/texts/2")
    problem(client.post("/truncate", {**BODY, "text": "a" * 41}), 422, "text_too_large")


def test_more_texts_than_allowed(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_batch_items=2)
    body = {"tokenizer": "cl100k_base", "texts": ["a"] * 3, "max_tokens": 1}
    assert problem(client.post("/truncate", body), 422, "too_many_items")["limit"] == 2


# ---- refusals ----------------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "no text": {"text": None},
    "two forms of text": {"texts": ["a"]},
    "a pair": {"text_pair": "b"},
    "segments": {"segments": [{"text": "a"}]},
    "offsets": {"offsets": "byte"},
    "a budget of zero": {"max_tokens": 0},
    "a budget below zero": {"max_tokens": -1},
    "a budget with a point": {"max_tokens": 4.0},
    "a budget in quotes": {"max_tokens": "4"},
    "a budget that is true": {"max_tokens": True},
    "another end": {"keep": "middle"},
    "another unit": {"unit": "grapheme"},
    "another policy": {"special_policy": "none"},
    "allowed without special": {"allowed_special": [END]},
    "allowed that is no token": {"special_policy": "special", "allowed_special": ["<x>"]},
    "a field of /chunk": {"overlap_tokens": 0},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_in_the_contract_is_refused(client: AppClient, wrong: str) -> None:
    body = {**BODY, **WRONG[wrong]}
    problem(client.post("/truncate", body), 422, "validation")


def test_what_is_required(client: AppClient) -> None:
    for field in ("text", "max_tokens"):
        body = {key: value for key, value in BODY.items() if key != field}
        problem(client.post("/truncate", body), 422, "validation")
    nameless = {key: value for key, value in BODY.items() if key != "tokenizer"}
    problem(client.post("/truncate", nameless), 422, "tokenizer_required")
    problem(client.post("/truncate", {**BODY, "tokenizer": "x"}), 404, "unknown_tokenizer")


def test_a_fingerprint_that_differs_refuses_all(client: AppClient) -> None:
    fingerprint = client.get("/fingerprint/cl100k_base").json()["fingerprint"]
    assert client.ok("/truncate", {**BODY, "expected_fingerprint": fingerprint})["count"] == 4
    other = "sha256:" + "0" * 64
    batch = {"tokenizer": "cl100k_base", "texts": ["a"], "max_tokens": 4}
    for body in (BODY, batch):
        error = problem(
            client.post("/truncate", {**body, "expected_fingerprint": other}),
            409,
            "fingerprint_mismatch",
        )
        assert (error["expected"], error["actual"]) == (other, fingerprint)


def test_messagepack_says_the_same(client: AppClient) -> None:
    plain = client.post("/truncate", BODY)
    packed = client.post("/truncate", BODY, headers={"accept": MSGPACK_TYPE})
    assert packed.headers["content-type"] == MSGPACK_TYPE
    assert len(packed.content) < len(plain.content)
