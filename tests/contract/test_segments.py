"""`segments` in /encode and /count: trust per span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asgi import AppClient

END = "<|endoftext|>"
END_ID = 100257


def body_of(*segments: tuple[str, str], tokenizer: str = "cl100k_base") -> dict[str, Any]:
    parts = [{"text": text, "special_policy": policy} for text, policy in segments]
    return {"tokenizer": tokenizer, "segments": parts}


def test_the_shape_of_an_answer(client: AppClient) -> None:
    whole = client.ok("/encode", {"tokenizer": "cl100k_base", "text": "Hello world"})
    parts = {"tokenizer": "cl100k_base", "segments": [{"text": "Hel"}, {"text": "lo world"}]}
    assert client.ok("/encode", parts) == whole
    counted = client.ok("/count", {"tokenizer": "cl100k_base", "text": "Hello world"})
    assert client.ok("/count", parts) == counted


def test_no_segments_are_an_empty_text(client: AppClient) -> None:
    for segments in ([], [{"text": ""}], [{"text": "", "special_policy": "special"}]):
        answer = client.ok("/encode", {"tokenizer": "cl100k_base", "segments": segments})
        assert (answer["ids"], answer["bytes"]) == ([], 0)


def test_trust_is_per_span(client: AppClient) -> None:
    answer = client.ok(
        "/encode",
        {
            **body_of((f"a{END}", "literal"), (END, "special"), (f"b{END}", "literal")),
            "special_tokens_mask": True,
        },
    )
    assert answer["ids"].count(END_ID) == 1
    assert sum(answer["special_tokens_mask"]) == 1
    assert answer["bytes"] == 3 * len(END) + 2
    decoded = client.ok("/decode", {"tokenizer": "cl100k_base", "ids": answer["ids"]})
    assert decoded["text"] == f"a{END}{END}b{END}"


def test_a_spelling_across_a_border_is_text(client: AppClient) -> None:
    answer = client.ok("/encode", body_of((END[:5], "special"), (END[5:], "special")))
    assert answer["ids"] == [27, 91, 8862, 728, 428, 91, 29]


def test_offsets_are_of_the_joined_text(client: AppClient) -> None:
    body = body_of(("\U0001f389", "literal"), (END, "special"), ("\u00e9", "literal"))
    answer = client.ok("/encode", {**body, "offsets": "codepoint"})
    assert answer["offsets"] == [[0, 1], [0, 1], [0, 1], [1, 14], [14, 15]]
    answer = client.ok("/encode", {**body, "offsets": "utf16"})
    assert answer["offsets"][-2:] == [[2, 15], [15, 16]]


def test_a_blank_is_put_before_the_text_alone(client: AppClient) -> None:
    """Not before each segment: mistral's and t5's libraries put one before all they are given."""
    for tokenizer in ("mistral-7b-v0.3", "t5-base"):
        whole = client.ok("/encode", {"tokenizer": tokenizer, "text": "Hello"})
        parts = body_of(("Hel", "literal"), ("lo", "special"), tokenizer=tokenizer)
        assert client.ok("/encode", parts)["ids"] == whole["ids"]


def test_the_frame_and_the_budget(client: AppClient) -> None:
    body = {
        **body_of(("hello ", "literal"), ("[SEP]", "special"), tokenizer="bert-base-uncased"),
        "add_special_tokens": True,
    }
    answer = client.ok("/encode", body)
    assert answer["ids"] == [101, 7592, 102, 102]
    assert answer["warnings"] == ["duplicate_special_token"]
    assert answer["special_tokens_added"] == 2
    counted = client.ok("/count", {**body, "budget": 3})
    assert (counted["count"], counted["fits"], counted["remaining"]) == (4, False, -1)
    assert counted["warnings"] == ["duplicate_special_token"]


def test_counts_of_several_tokenizers(client: AppClient) -> None:
    parts = [{"text": f"a{END}"}, {"text": END, "special_policy": "special"}]
    body = {"tokenizers": ["cl100k_base", "o200k_base"], "segments": parts}
    counts = client.ok("/count", body)["counts"]
    for name, answer in counts.items():
        alone = client.ok("/encode", {"tokenizer": name, "segments": parts})
        assert answer["count"] == alone["count"] == len(alone["ids"])


def test_allowed_special_is_for_the_trusted_segments(client: AppClient) -> None:
    body = {
        **body_of((END, "special"), ("<|fim_prefix|>", "special"), ("<|fim_prefix|>", "literal")),
        "allowed_special": ["<|fim_prefix|>"],
    }
    assert client.ok("/encode", body)["ids"].count(100258) == 1
    assert END_ID not in client.ok("/encode", body)["ids"]
    literal = {**body_of(("a", "literal")), "allowed_special": ["<|fim_prefix|>"]}
    error = problem(client.post("/encode", literal), 422, "validation")
    assert error["pointer"] == "/allowed_special"
    unknown = {**body_of(("a", "special")), "allowed_special": ["<x>"]}
    error = problem(client.post("/encode", unknown), 422, "validation")
    assert error["pointer"] == "/allowed_special/0"


def test_reject_names_the_segment(client: AppClient) -> None:
    body = body_of((END, "special"), (f"\U0001f389{END}", "reject"))
    for path in ("/encode", "/count"):
        error = problem(client.post(path, body), 422, "special_token_in_text")
        assert error["token"] == END
        assert (error["offset"], error["pointer"]) == (1, "/segments/1/text")
    across = body_of((END[:4], "reject"), (END[4:], "reject"))
    assert client.ok("/encode", across)["count"] == 7


def test_all_of_the_text_has_the_limit(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_text_bytes=8)
    assert client.ok("/count", body_of(("abcd", "literal"), ("efgh", "literal")))["bytes"] == 8
    longer = body_of(("abcd", "literal"), ("efgh", "literal"), ("i", "literal"))
    problem(client.post("/count", longer), 422, "text_too_large")


WRONG: dict[str, dict[str, Any]] = {
    "beside text": {"text": "a"},
    "beside texts": {"texts": ["a"]},
    "beside a pair": {"text_pair": "a"},
    "a policy for all": {"special_policy": "special"},
    "reject for all": {"special_policy": "reject"},
    "no list": {"segments": {"text": "a"}},
    "a string": {"segments": ["a"]},
    "no text": {"segments": [{"special_policy": "literal"}]},
    "a text that is null": {"segments": [{"text": None}]},
    "another policy": {"segments": [{"text": "a", "special_policy": "trusted"}]},
    "an unknown field": {"segments": [{"text": "a", "role": "user"}]},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("path", ["/encode", "/count"])
def test_what_is_not_in_the_contract_is_refused(client: AppClient, path: str, wrong: str) -> None:
    body = {**body_of(("a", "literal")), **WRONG[wrong]}
    problem(client.post(path, body), 422, "validation")


@pytest.mark.parametrize("path", ["/truncate", "/chunk"])
def test_slices_are_of_plain_texts(client: AppClient, path: str) -> None:
    body = {**body_of(("a", "literal")), "max_tokens": 4}
    problem(client.post(path, body), 422, "validation")
