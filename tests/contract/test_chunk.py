"""POST /chunk: what CONTRACT section 3 promises of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asgi import AppClient

TEXT = "One two three. Four five six.\n\nSeven eight nine ten eleven twelve."
BODY = {"tokenizer": "cl100k_base", "text": TEXT, "max_tokens": 10}
END = "<|endoftext|>"


def texts_of(answer: dict[str, Any]) -> list[str]:
    return [chunk["text"] for chunk in answer["chunks"]]


def recounted(client: AppClient, body: dict[str, Any], text: str) -> int:
    """The count of a text alone, asked as `body` asks."""
    same = ("tokenizer", "special_policy", "allowed_special", "add_special_tokens")
    kept = {key: body[key] for key in same if key in body}
    count: int = client.ok("/count", {**kept, "text": text})["count"]
    return count


def test_the_shape_of_an_answer(client: AppClient) -> None:
    answer = client.ok("/chunk", {**BODY, "tokenizer": "gpt-4"})
    fingerprint = client.get("/fingerprint/cl100k_base").json()["fingerprint"]
    assert answer == {
        "tokenizer": "cl100k_base",
        "fingerprint": fingerprint,
        "special_policy": "literal",
        "add_special_tokens": False,
        "unit": "codepoint",
        "boundary_version": "1",
        "chunks": [
            {"start": 0, "end": 31, "count": 8, "text": "One two three. Four five six.\n\n"},
            {"start": 31, "end": 66, "count": 7, "text": TEXT[31:]},
        ],
        "chunk_count": 2,
        "count": 15,
        "bytes": 66,
    }


def test_chunks_without_their_texts(client: AppClient) -> None:
    with_texts = client.ok("/chunk", BODY)
    answer = client.ok("/chunk", {**BODY, "include_text": False})
    assert [set(chunk) for chunk in answer["chunks"]] == [{"start", "end", "count"}] * 2
    for chunk in with_texts["chunks"]:
        del chunk["text"]
    assert answer == with_texts


def test_no_text_is_no_chunk(client: AppClient) -> None:
    answer = client.ok("/chunk", {**BODY, "text": ""})
    assert answer["chunks"] == []
    assert (answer["chunk_count"], answer["count"], answer["bytes"]) == (0, 0, 0)


def test_token_fills_to_the_brim(client: AppClient) -> None:
    answer = client.ok("/chunk", {**BODY, "boundary": "token"})
    assert [chunk["count"] for chunk in answer["chunks"]] == [10, 5]
    assert "".join(texts_of(answer)) == TEXT
    assert client.ok("/chunk", {**BODY, "boundary": "auto"}) == client.ok("/chunk", BODY)


@pytest.mark.parametrize("boundary", ["auto", "token"])
def test_an_overlap(client: AppClient, boundary: str) -> None:
    body = {**BODY, "text": TEXT * 5, "overlap_tokens": 4, "boundary": boundary}
    chunks = client.ok("/chunk", body)["chunks"]
    shared = 0
    end = 0
    for chunk in chunks:
        assert chunk["start"] <= end < chunk["end"]
        if chunk["start"] < end:
            shared += 1
            assert recounted(client, body, body["text"][chunk["start"] : end]) <= 4
        end = chunk["end"]
    assert end == len(body["text"])
    assert shared >= len(chunks) // 2
    assert sum(chunk["count"] for chunk in chunks) > recounted(client, body, body["text"])


MIXED = "a\u00e9\u4f60\U0001f389 " * 6


@pytest.mark.parametrize(
    ("unit", "sizes"),
    [("codepoint", (1,) * 5), ("byte", (1, 2, 3, 4, 1)), ("utf16", (1, 1, 1, 2, 1))],
)
def test_offsets_in_each_unit(client: AppClient, unit: str, sizes: tuple[int, ...]) -> None:
    body = {**BODY, "text": MIXED, "max_tokens": 12, "unit": unit}
    answer = client.ok("/chunk", body)
    assert answer["unit"] == unit
    size_of = dict(zip("a\u00e9\u4f60\U0001f389 ", sizes, strict=True))
    end = 0
    for chunk in answer["chunks"]:
        assert chunk["start"] == end
        end += sum(size_of[character] for character in chunk["text"])
        assert chunk["end"] == end


# ---- small budgets ------------------------------------------------------------------------------


def test_a_cluster_over_the_budget_is_cut_between_code_points(client: AppClient) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    answer = client.ok("/chunk", {**BODY, "text": family, "max_tokens": 4})
    assert "".join(texts_of(answer)) == family
    assert all(
        text and chunk["count"] <= 4
        for text, chunk in zip(texts_of(answer), answer["chunks"], strict=True)
    )


def test_a_code_point_over_the_budget(client: AppClient) -> None:
    for text in ("\U0001f9ea", "abc\U0001f9ea"):
        response = client.post("/chunk", {**BODY, "text": text, "max_tokens": 1})
        problem(response, 422, "budget_too_small")
    assert client.ok("/chunk", {**BODY, "text": "abc", "max_tokens": 1})["chunk_count"] == 1


@pytest.mark.parametrize(
    ("tokenizer", "frame"),
    [("bert-base-uncased", 2), ("mistral-7b-v0.3", 1), ("t5-base", 1), ("cl100k_base", 0)],
)
def test_a_gross_budget_holds_the_template(client: AppClient, tokenizer: str, frame: int) -> None:
    body = {"tokenizer": tokenizer, "text": "word and word " * 30}
    net = client.ok("/chunk", {**body, "max_tokens": 20})
    gross = client.ok("/chunk", {**body, "max_tokens": 20 + frame, "add_special_tokens": True})
    assert texts_of(gross) == texts_of(net)
    assert gross["count"] == net["count"] + frame * net["chunk_count"]
    for chunk in gross["chunks"]:
        framed = {**body, "add_special_tokens": True}
        assert recounted(client, framed, chunk["text"]) == chunk["count"] <= 20 + frame


def test_an_overlap_of_gross_chunks_is_net(client: AppClient) -> None:
    """An overlap is text; the template stands around each chunk, in no overlap."""
    body = {
        "tokenizer": "bert-base-uncased",
        "text": "word and word " * 30,
        "max_tokens": 12,
        "overlap_tokens": 6,
        "add_special_tokens": True,
    }
    chunks = client.ok("/chunk", body)["chunks"]
    net = {"tokenizer": "bert-base-uncased"}
    end = 0
    for chunk in chunks:
        assert recounted(client, net, body["text"][chunk["start"] : end]) <= 6
        end = chunk["end"]


def test_the_template_leaves_room_for_a_token(client: AppClient) -> None:
    body = {"tokenizer": "bert-base-uncased", "text": "a b", "add_special_tokens": True}
    for max_tokens in (1, 2):
        response = client.post("/chunk", {**body, "max_tokens": max_tokens})
        problem(response, 422, "budget_too_small")
    assert client.ok("/chunk", {**body, "max_tokens": 3})["chunk_count"] == 2


# ---- policies ----------------------------------------------------------------------------------


def test_a_control_token_is_one_token_of_its_chunk(client: AppClient) -> None:
    body = {**BODY, "text": f"{END} " * 6, "max_tokens": 4, "special_policy": "special"}
    answer = client.ok("/chunk", body)
    assert "".join(texts_of(answer)) == body["text"]
    assert all(
        chunk["count"] == recounted(client, body, chunk["text"]) <= 4 for chunk in answer["chunks"]
    )
    assert answer["chunk_count"] == 3


def test_a_spelling_that_is_text_may_be_cut(client: AppClient) -> None:
    body = {**BODY, "text": END * 4, "max_tokens": 5}
    answer = client.ok("/chunk", body)
    assert answer["chunk_count"] > 4
    assert "".join(texts_of(answer)) == body["text"]
    narrowed = {**body, "special_policy": "special", "allowed_special": ["<|fim_prefix|>"]}
    assert texts_of(client.ok("/chunk", narrowed)) == texts_of(answer)


def test_reject(client: AppClient) -> None:
    body = {**BODY, "text": f"{TEXT}{END}", "special_policy": "reject"}
    error = problem(client.post("/chunk", body), 422, "special_token_in_text")
    assert (error["token"], error["offset"], error["pointer"]) == (END, len(TEXT), "/text")
    assert client.ok("/chunk", {**body, "text": TEXT})["chunk_count"] == 2


# ---- batches and limits ------------------------------------------------------------------------


def test_the_shape_of_a_batch(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "texts": [TEXT, ""], "max_tokens": 10}
    answer = client.ok("/chunk", body)
    head = {"tokenizer", "fingerprint", "special_policy", "add_special_tokens"}
    assert set(answer) == head | {"results"}
    alone = client.ok("/chunk", BODY)
    assert answer["results"][0] == {key: alone[key] for key in alone if key not in head}
    assert answer["results"][1]["chunks"] == []


def test_an_items_own_fault_stands_in_its_place(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_text_bytes=100, max_chunks=8)
    body = {
        "tokenizer": "cl100k_base",
        "texts": ["Hello", "a" * 101, f"b{END}", "\U0001f9ea", "one " * 10, "c"],
        "max_tokens": 1,
        "special_policy": "reject",
    }
    first, *faults, last = client.ok("/chunk", body)["results"]
    assert (first["chunk_count"], last["chunk_count"]) == (1, 1)
    assert [fault["error"]["code"] for fault in faults] == [
        *("text_too_large", "special_token_in_text", "budget_too_small", "too_many_items")
    ]
    assert faults[1]["error"]["pointer"] == "/texts/2"
    assert faults[3]["error"]["limit"] == 8


def test_more_chunks_than_allowed(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_chunks=3)
    body = {**BODY, "text": "one " * 12, "max_tokens": 4}
    error = problem(client.post("/chunk", body), 422, "too_many_items")
    assert error["limit"] == 3
    assert client.ok("/chunk", {**body, "max_tokens": 5})["chunk_count"] == 3


def test_more_texts_than_allowed(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_batch_items=2)
    body = {"tokenizer": "cl100k_base", "texts": ["a"] * 3, "max_tokens": 1}
    assert problem(client.post("/chunk", body), 422, "too_many_items")["limit"] == 2


# ---- refusals ----------------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "two forms of text": {"texts": ["a"]},
    "a pair": {"text_pair": "b"},
    "segments": {"segments": [{"text": "a"}]},
    "keep": {"keep": "end"},
    "a budget of zero": {"max_tokens": 0},
    "a budget in quotes": {"max_tokens": "4"},
    "an overlap below zero": {"overlap_tokens": -1},
    "an overlap over half": {"overlap_tokens": 6},
    "an overlap with a point": {"overlap_tokens": 1.0},
    "another boundary": {"boundary": "sentence"},
    "another unit": {"unit": "char"},
    "include_text that is 1": {"include_text": 1},
    "allowed without special": {"allowed_special": [END]},
    "allowed that is no token": {"special_policy": "special", "allowed_special": ["<x>"]},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_in_the_contract_is_refused(client: AppClient, wrong: str) -> None:
    problem(client.post("/chunk", {**BODY, **WRONG[wrong]}), 422, "validation")


def test_half_of_the_budget_may_overlap(client: AppClient) -> None:
    assert client.ok("/chunk", {**BODY, "overlap_tokens": 5})["chunk_count"] >= 2
    odd = {**BODY, "max_tokens": 9}
    assert client.ok("/chunk", {**odd, "overlap_tokens": 4})["chunk_count"] >= 2
    error = problem(client.post("/chunk", {**odd, "overlap_tokens": 5}), 422, "validation")
    assert error["pointer"] == "/overlap_tokens"


def test_what_is_required(client: AppClient) -> None:
    for field in ("text", "max_tokens"):
        body = {key: value for key, value in BODY.items() if key != field}
        problem(client.post("/chunk", body), 422, "validation")
    nameless = {key: value for key, value in BODY.items() if key != "tokenizer"}
    problem(client.post("/chunk", nameless), 422, "tokenizer_required")
    problem(client.post("/chunk", {**BODY, "tokenizer": "x"}), 404, "unknown_tokenizer")


def test_a_fingerprint_that_differs_refuses_all(client: AppClient) -> None:
    fingerprint = client.get("/fingerprint/cl100k_base").json()["fingerprint"]
    assert client.ok("/chunk", {**BODY, "expected_fingerprint": fingerprint})["chunk_count"] == 2
    other = "sha256:" + "0" * 64
    batch = {"tokenizer": "cl100k_base", "texts": ["a"], "max_tokens": 4}
    for body in (BODY, batch):
        response = client.post("/chunk", {**body, "expected_fingerprint": other})
        assert problem(response, 409, "fingerprint_mismatch")["actual"] == fingerprint


def test_a_budget_larger_than_any_text(client: AppClient) -> None:
    answer = client.ok("/chunk", {**BODY, "max_tokens": 2**53})
    assert texts_of(answer) == [TEXT]
