"""POST /decode: `pieces` and `final`, for whoever shows text while it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from tests.asgi import AppClient

HELLO_PARTY = [9906, 11410, 236, 231]
"""cl100k_base: `Hello`, a blank with the first bytes of a party popper, its other bytes."""
BODY: dict[str, Any] = {"tokenizer": "cl100k_base", "ids": HELLO_PARTY}


def test_the_shape_of_an_answer(client: AppClient) -> None:
    plain = client.ok("/decode", BODY)
    assert set(plain) == {"tokenizer", "fingerprint", "mode", "text", "replacements"}
    answer = client.ok("/decode", {**BODY, "pieces": True})
    assert answer == {**plain, "pieces": ["Hello", " ", "", "\U0001f389"]}
    answer = client.ok("/decode", {**BODY, "final": False})
    assert answer == {**plain, "pending_ids": 0}
    assert client.ok("/decode", {**BODY, "final": True, "pieces": False}) == plain


@pytest.mark.parametrize("mode", ["strict", "replace"])
def test_a_cut_character_is_held_back(client: AppClient, mode: str) -> None:
    """In both modes: it may be whole with the next ids, and is no fault yet."""
    for size, (text, pending) in enumerate(
        [("", 0), ("Hello", 0), ("Hello", 1), ("Hello", 2), ("Hello \U0001f389", 0)]
    ):
        body = {**BODY, "ids": HELLO_PARTY[:size], "final": False, "mode": mode, "pieces": True}
        answer = client.ok("/decode", body)
        assert (answer["text"], answer["pending_ids"]) == (text, pending)
        assert "".join(answer["pieces"]) == text
        assert len(answer["pieces"]) == size
        assert answer["replacements"] == 0


def test_the_end_of_a_stream_is_held_against_the_mode(client: AppClient) -> None:
    cut = {**BODY, "ids": HELLO_PARTY[:2]}
    error = problem(client.post("/decode", cut), 422, "invalid_utf8")
    assert (error["byte_offset"], error["index"], error["reason"]) == (6, 1, "truncated")
    answer = client.ok("/decode", {**cut, "mode": "replace", "pieces": True})
    assert (answer["text"], answer["pieces"]) == ("Hello \ufffd", ["Hello", " \ufffd"])


def test_what_can_never_be_whole_is_a_fault_at_once(client: AppClient) -> None:
    body = {**BODY, "ids": [236, 9906], "final": False}
    error = problem(client.post("/decode", body), 422, "invalid_utf8")
    assert (error["index"], error["reason"]) == (0, "malformed")
    answer = client.ok("/decode", {**body, "mode": "replace"})
    assert (answer["text"], answer["replacements"], answer["pending_ids"]) == ("\ufffdHello", 1, 0)


@pytest.mark.parametrize(
    ("tokenizer", "text"),
    [
        ("mistral-7b-v0.3", "Hello world \U0001f9ea again"),
        ("t5-base", "Hello world again"),
        ("bert-base-uncased", "hello tokenization world"),
        ("clip-vit-large-patch14", "hello wonderful world"),
        ("cl100k_base", "Hello \U0001f389 world"),
    ],
)
def test_a_client_without_a_state(client: AppClient, tokenizer: str, text: str) -> None:
    """What docs/budgets.md tells clients to do, an id at a time."""
    ids = client.ok("/encode", {"tokenizer": tokenizer, "text": text})["ids"]
    body = {"tokenizer": tokenizer}
    shown = ""
    waiting: list[int] = []
    for token_id in ids:
        waiting = [*waiting, token_id]
        answer = client.ok("/decode", {**body, "ids": waiting, "final": False})
        shown += answer["text"]
        waiting = waiting[len(waiting) - answer["pending_ids"] :]
    shown += client.ok("/decode", {**body, "ids": waiting})["text"]
    assert shown == client.ok("/decode", {**body, "ids": ids})["text"]


def test_a_leading_blank_appears_once(client: AppClient) -> None:
    body = {"tokenizer": "mistral-7b-v0.3", "ids": [23325, 2294], "pieces": True}
    answer = client.ok("/decode", body)
    assert not answer["text"].startswith(" ")
    assert answer["pieces"][1].startswith(" ")


def test_control_ids_that_are_left_out_have_empty_pieces(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "ids": [9906, 100257, 1917], "pieces": True}
    assert client.ok("/decode", body)["pieces"] == ["Hello", "<|endoftext|>", " world"]
    skipped = client.ok("/decode", {**body, "skip_special_tokens": True})
    assert (skipped["text"], skipped["pieces"]) == ("Hello world", ["Hello", "", " world"])


def test_what_is_sent_again_counts_the_callers_own_ids(client: AppClient) -> None:
    """A control id between the bytes of a character is sent again with them."""
    body = {"tokenizer": "cl100k_base", "skip_special_tokens": True, "final": False}
    answer = client.ok("/decode", {**body, "ids": [9906, 9468, 100257, 236]})
    assert (answer["text"], answer["pending_ids"]) == ("Hello", 3)
    answer = client.ok("/decode", {**body, "ids": [9468, 100257, 236, 231]})
    assert (answer["text"], answer["pending_ids"]) == ("\U0001f389", 0)


def test_a_batch(client: AppClient) -> None:
    body = {
        "tokenizer": "cl100k_base",
        "batch": [HELLO_PARTY, HELLO_PARTY[:3], [], [100256], [236, 64]],
        "pieces": True,
        "final": False,
    }
    whole, cut, empty, unknown, malformed = client.ok("/decode", body)["results"]
    assert (whole["text"], whole["pending_ids"]) == ("Hello \U0001f389", 0)
    assert (cut["pieces"], cut["pending_ids"]) == (["Hello", "", ""], 2)
    assert empty == {"text": "", "replacements": 0, "pieces": [], "pending_ids": 0}
    assert unknown["error"]["code"] == "invalid_token_id"
    assert malformed["error"]["code"] == "invalid_utf8"


def test_an_unknown_id_is_refused_in_a_stream_too(client: AppClient) -> None:
    for more in ({"final": False}, {"pieces": True}, {"pieces": True, "mode": "replace"}):
        error = problem(
            client.post("/decode", {"tokenizer": "cl100k_base", "ids": [64, -1], **more}),
            422,
            "invalid_token_id",
        )
        assert (error["index"], error["id"]) == (1, -1)


WRONG: dict[str, dict[str, Any]] = {
    "bytes in pieces": {"output": "bytes", "pieces": True},
    "bytes of a stream": {"output": "bytes", "final": False},
    "pieces that are 1": {"pieces": 1},
    "final in quotes": {"final": "false"},
    "pending_ids": {"pending_ids": 1},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_in_the_contract_is_refused(client: AppClient, wrong: str) -> None:
    problem(client.post("/decode", {**BODY, **WRONG[wrong]}), 422, "validation")
