"""POST /encode: offsets, token_bytes, special_tokens_mask and text_pair."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from service.catalog.loading import load_catalog
from tests.asgi import problem
from tests.locks import DATA, LockedFolder
from tests.recognised import add_made

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from tests.asgi import AppClient

PARTY = {"tokenizer": "cl100k_base", "text": "a \U0001f389\u00e9"}
END = "<|endoftext|>"
DETAILS: dict[str, Any] = {"offsets": "codepoint", "token_bytes": True, "special_tokens_mask": True}


@pytest.fixture
def pairs(new_client: Callable[..., AppClient], tmp_path: pathlib.Path) -> AppClient:
    """A client of artifacts that frame pairs."""
    folder = LockedFolder(tmp_path)
    template = DATA / "synthetic" / "template.tokenizer.json"
    folder.add("template", "tokenizer_json", {"tokenizer": template})
    add_made(folder, "llama_metaspace")
    folder.add_embedded("all-minilm-l6-v2")
    return new_client(load_catalog(folder.root))


# ---- shapes ------------------------------------------------------------------------------------


def test_the_shape_of_an_answer(client: AppClient) -> None:
    plain = client.ok("/encode", PARTY)
    answer = client.ok("/encode", {**PARTY, **DETAILS})
    assert answer == {
        **plain,
        "ids": [64, 11410, 236, 231, 978],
        "offsets": [[0, 1], [1, 3], [2, 3], [2, 3], [3, 4]],
        "token_bytes": ["YQ==", "IPCf", "jg==", "iQ==", "w6k="],
        "special_tokens_mask": [0, 0, 0, 0, 0],
    }


@pytest.mark.parametrize("field", DETAILS)
def test_each_detail_comes_alone(client: AppClient, field: str) -> None:
    plain = client.ok("/encode", PARTY)
    answer = client.ok("/encode", {**PARTY, field: DETAILS[field]})
    assert set(answer) - set(plain) == {field}
    assert {key: answer[key] for key in plain} == plain


def test_what_was_not_asked_is_absent(client: AppClient) -> None:
    asked = {"offsets": None, "token_bytes": False, "special_tokens_mask": False}
    assert client.ok("/encode", {**PARTY, **asked}) == client.ok("/encode", PARTY)


@pytest.mark.parametrize(
    ("unit", "offsets"),
    [
        ("codepoint", [[0, 1], [1, 3], [2, 3], [2, 3], [3, 4]]),
        ("byte", [[0, 1], [1, 4], [4, 5], [5, 6], [6, 8]]),
        ("utf16", [[0, 1], [1, 4], [2, 4], [2, 4], [4, 5]]),
    ],
)
def test_the_units(client: AppClient, unit: str, offsets: list[list[int]]) -> None:
    assert client.ok("/encode", {**PARTY, "offsets": unit})["offsets"] == offsets


@pytest.mark.parametrize(
    "tokenizer",
    ["cl100k_base", "gpt2", "minbpe-service", "bert-base-uncased", "t5-base", "mistral-7b-v0.3"],
)
@pytest.mark.parametrize("unit", ["codepoint", "byte", "utf16"])
def test_an_empty_text_has_empty_details(client: AppClient, tokenizer: str, unit: str) -> None:
    answer = client.ok("/encode", {"tokenizer": tokenizer, "text": "", **DETAILS, "offsets": unit})
    assert answer["ids"] == answer["offsets"] == answer["token_bytes"] == []
    assert answer["special_tokens_mask"] == []
    batch = {"tokenizer": tokenizer, "texts": ["a", ""], "offsets": unit}
    assert client.ok("/encode", batch)["results"][1]["offsets"] == []


# ---- normalizers --------------------------------------------------------------------------------

ORIGINALS = [
    ("bert-base-uncased", "\u5317\u4eac CAF\u00c9", [[0, 1], [1, 2], [3, 7]]),
    ("bert-base-uncased", "a\u200bb", [[0, 3]]),
    ("bert-base-uncased", "  a", [[2, 3]]),
    ("mistral-7b-v0.3", "Hello  world", [[0, 5], [5, 6], [6, 12]]),
    ("mistral-7b-v0.3", "\u2167x", [[0, 0], [0, 1], [0, 1], [0, 1], [1, 2]]),
    ("t5-base", "\ufb01ne e\u0301", [[0, 3], [3, 4], [4, 6]]),
    ("t5-base", "a\u00bdb", [[0, 0], [0, 1], [1, 2], [1, 2], [1, 2], [2, 3]]),
    ("clip-vit-large-patch14", "Hello\tW\u00d6RLD", [[0, 5], [6, 7], [7, 9], [9, 11]]),
    ("gpt2", "a  b", [[0, 1], [1, 2], [2, 4]]),
]
"""Texts that a normalizer changes, or whose blanks belong to tokens: ranges of the original."""


@pytest.mark.parametrize(("tokenizer", "text", "offsets"), ORIGINALS, ids=ascii)
def test_offsets_are_of_the_original_text(
    client: AppClient, tokenizer: str, text: str, offsets: list[list[int]]
) -> None:
    body = {"tokenizer": tokenizer, "text": text, "offsets": "codepoint"}
    assert client.ok("/encode", body)["offsets"] == offsets


def test_blanks_that_a_flag_takes_along_are_inside(pairs: AppClient) -> None:
    body = {
        "tokenizer": "llama_metaspace",
        "text": "a <|im_start|> b",
        "special_policy": "special",
        "offsets": "codepoint",
    }
    answer = pairs.ok("/encode", body)
    assert answer["offsets"][1] == [1, 15]


# ---- template ids and control ids ---------------------------------------------------------------


def test_template_ids_have_no_range(client: AppClient) -> None:
    body = {"tokenizer": "bert-base-uncased", "text": "hello", "add_special_tokens": True}
    answer = client.ok("/encode", {**body, **DETAILS})
    assert answer["ids"] == [101, 7592, 102]
    assert answer["offsets"] == [None, [0, 5], None]
    assert answer["special_tokens_mask"] == [1, 0, 1]
    tokens = [base64.b64decode(token) for token in answer["token_bytes"]]
    assert tokens == [b"[CLS]", b"hello", b"[SEP]"]


def test_the_mask_tells_typed_markers_from_real_ones(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "text": f"{END}a", "special_tokens_mask": True}
    typed = client.ok("/encode", body)
    real = client.ok("/encode", {**body, "special_policy": "special"})
    assert typed["special_tokens_mask"] == [0] * 8
    assert real["special_tokens_mask"] == [1, 0]
    texts = [
        client.ok("/decode", {"tokenizer": "cl100k_base", "ids": answer["ids"]})["text"]
        for answer in (typed, real)
    ]
    assert texts[0] == texts[1] == f"{END}a"


def test_text_outside_the_vocabulary_is_no_marker(client: AppClient) -> None:
    body = {
        "tokenizer": "bert-base-uncased",
        "text": "\U0001f389 [UNK] [UNK]\U0001f389",
        "special_policy": "special",
        "special_tokens_mask": True,
    }
    answer = client.ok("/encode", body)
    assert answer["ids"] == [100] * 4
    assert answer["special_tokens_mask"] == [0, 1, 1, 0]
    assert answer["unknown_tokens"] == 2
    literal = client.ok("/encode", {**body, "special_policy": "literal"})
    assert set(literal["special_tokens_mask"]) == {0}


def test_allowed_special_narrows_the_mask(client: AppClient) -> None:
    body = {
        "tokenizer": "cl100k_base",
        "text": f"{END}<|fim_prefix|>",
        "special_policy": "special",
        "allowed_special": ["<|fim_prefix|>"],
        **DETAILS,
    }
    answer = client.ok("/encode", body)
    assert answer["special_tokens_mask"] == [0] * 7 + [1]
    assert answer["offsets"][-1] == [13, 27]


# ---- batches and limits ------------------------------------------------------------------------


def test_details_of_a_batch(client: AppClient) -> None:
    body = {
        "tokenizer": "cl100k_base",
        "texts": [PARTY["text"], f"{END}", "b"],
        "special_policy": "reject",
        **DETAILS,
    }
    one, refused, other = client.ok("/encode", body)["results"]
    alone = client.ok("/encode", {**PARTY, **DETAILS})
    assert one == {key: alone[key] for key in one}
    assert refused["error"]["code"] == "special_token_in_text"
    assert other["offsets"] == [[0, 1]]


@pytest.mark.parametrize("field", DETAILS)
def test_texts_with_details_are_shorter(new_client: Callable[..., AppClient], field: str) -> None:
    client = new_client(max_text_bytes=64, max_detail_text_bytes=8)
    detail = {field: DETAILS[field]}
    fits, long = "\u00e9" * 4, "\u00e9" * 4 + "a"
    body = {"tokenizer": "cl100k_base", "text": long}
    assert client.ok("/encode", body)["bytes"] == 9
    problem(client.post("/encode", {**body, **detail}), 422, "text_too_large")
    assert client.ok("/encode", {**body, **detail, "text": fits})["bytes"] == 8
    batch = {"tokenizer": "cl100k_base", "texts": [long, fits], **detail}
    refused, other = client.ok("/encode", batch)["results"]
    assert refused["error"]["code"] == "text_too_large"
    assert other["bytes"] == 8
    parts = {"tokenizer": "cl100k_base", "segments": [{"text": fits}, {"text": "a"}], **detail}
    problem(client.post("/encode", parts), 422, "text_too_large")


WRONG: dict[str, Any] = {
    "another unit": {"offsets": "char"},
    "offsets that are true": {"offsets": True},
    "bytes in quotes": {"token_bytes": "yes"},
    "a mask that is 1": {"special_tokens_mask": 1},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_in_the_contract_is_refused(client: AppClient, wrong: str) -> None:
    problem(client.post("/encode", {**PARTY, **WRONG[wrong]}), 422, "validation")


@pytest.mark.parametrize("field", DETAILS)
def test_counting_has_no_details(client: AppClient, field: str) -> None:
    problem(client.post("/count", {**PARTY, field: DETAILS[field]}), 422, "validation")


# ---- pairs -------------------------------------------------------------------------------------


def test_a_pair_is_framed_as_pairs_are(pairs: AppClient) -> None:
    body = {"tokenizer": "template", "text": "a", "text_pair": "b c", "add_special_tokens": True}
    answer = pairs.ok("/encode", {**body, "offsets": "codepoint", "special_tokens_mask": True})
    assert answer["ids"] == [1, 4, 2, 5, 6, 2]
    assert answer["offsets"] == [None, [0, 1], None, [0, 1], [2, 3], None]
    assert answer["special_tokens_mask"] == [1, 0, 1, 0, 0, 1]
    assert (answer["count"], answer["special_tokens_added"], answer["bytes"]) == (6, 3, 4)
    counted = pairs.ok("/count", {**body, "budget": 6})
    assert (counted["count"], counted["special_tokens_added"]) == (6, 3)
    assert (counted["fits"], counted["remaining"]) == (True, 0)


def test_a_pair_without_its_frame(pairs: AppClient) -> None:
    body = {"tokenizer": "template", "text": "a", "text_pair": "b c"}
    answer = pairs.ok("/encode", body)
    assert answer["ids"] == [4, 5, 6]
    assert answer["special_tokens_added"] == 0


def test_a_pair_costs_a_template_of_its_own(pairs: AppClient) -> None:
    body = {"tokenizer": "all-minilm-l6-v2", "text": "hello", "add_special_tokens": True}
    single = pairs.ok("/encode", body)
    pair = pairs.ok("/encode", {**body, "text_pair": "world"})
    assert single["ids"] == [101, 7592, 102]
    assert pair["ids"] == [101, 7592, 102, 2088, 102]
    assert (single["special_tokens_added"], pair["special_tokens_added"]) == (2, 3)
    llama = pairs.ok("/encode", {**body, "tokenizer": "llama_metaspace", "text_pair": "world"})
    assert llama["special_tokens_added"] == 2


def test_a_spelling_in_either_text_is_named(pairs: AppClient) -> None:
    body = {
        "tokenizer": "template",
        "text": "a",
        "text_pair": "b [SEP]",
        "special_policy": "reject",
    }
    error = problem(pairs.post("/encode", body), 422, "special_token_in_text")
    assert (error["token"], error["offset"], error["pointer"]) == ("[SEP]", 2, "/text_pair")
    turned = {**body, "text": "[SEP]", "text_pair": "b"}
    error = problem(pairs.post("/count", turned), 422, "special_token_in_text")
    assert (error["offset"], error["pointer"]) == (0, "/text")


def test_content_that_repeats_the_frame_is_warned_of(pairs: AppClient) -> None:
    body = {
        "tokenizer": "template",
        "text": "a",
        "text_pair": "b[SEP]",
        "special_policy": "special",
        "add_special_tokens": True,
    }
    answer = pairs.ok("/encode", body)
    assert answer["ids"] == [1, 4, 2, 5, 2, 2]
    assert answer["warnings"] == ["duplicate_special_token"]
    assert "warnings" not in pairs.ok("/encode", {**body, "text_pair": "b"})


@pytest.mark.parametrize(
    "tokenizer", ["cl100k_base", "bert-base-uncased", "t5-base", "gpt2", "minbpe-service"]
)
def test_no_pairs_where_none_are_framed(client: AppClient, tokenizer: str) -> None:
    body = {"tokenizer": tokenizer, "text": "a", "text_pair": "b"}
    for path in ("/encode", "/count"):
        for framed in (False, True):
            response = client.post(path, {**body, "add_special_tokens": framed})
            assert problem(response, 422, "validation")["pointer"] == "/text_pair"


def test_a_pair_stands_beside_text(pairs: AppClient) -> None:
    for source in ({}, {"texts": ["a"]}, {"segments": [{"text": "a"}]}):
        body = {"tokenizer": "template", "text_pair": "b", **source}
        problem(pairs.post("/encode", body), 422, "validation")


def test_each_text_of_a_pair_has_the_limit(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_text_bytes=4)
    body = {"tokenizer": "all-minilm-l6-v2", "text": "abcd", "text_pair": "abcd"}
    assert client.ok("/count", body)["bytes"] == 8
    problem(client.post("/count", {**body, "text_pair": "abcde"}), 422, "text_too_large")
