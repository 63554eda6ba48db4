"""POST /count: what CONTRACT section 3 promises of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.asgi import problem

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog
    from tests.asgi import AppClient

HELLO = {"tokenizer": "cl100k_base", "text": "Hello world"}
END = "<|endoftext|>"
TEXTS = ["Hello world", "", "🎉", "東京 ภาษา", f"a {END} b [SEP] </s>", "  blanks  \r\n", "a\0b"]


def test_the_shape_of_an_answer(client: AppClient) -> None:
    assert client.ok("/count", HELLO) == {
        "tokenizer": "cl100k_base",
        "fingerprint": client.get("/fingerprint/cl100k_base").json()["fingerprint"],
        "special_policy": "literal",
        "add_special_tokens": False,
        "count": 2,
        "bytes": 11,
        "tokens_per_byte": 2 / 11,
        "special_tokens_added": 0,
        "unknown_tokens": 0,
    }


@pytest.mark.parametrize("policy", ["literal", "special"])
@pytest.mark.parametrize("framed", [False, True])
def test_a_count_is_the_number_of_ids(
    client: AppClient, catalog: Catalog, policy: str, *, framed: bool
) -> None:
    for entry in catalog:
        body = {
            "tokenizer": entry.name,
            "texts": TEXTS,
            "special_policy": policy,
            "add_special_tokens": framed,
        }
        counted, encoded = client.ok("/count", body), client.ok("/encode", body)
        same = ("count", "bytes", "special_tokens_added", "unknown_tokens", "warnings")
        for one, other in zip(counted["results"], encoded["results"], strict=True):
            assert one["count"] == len(other["ids"])
            for field in same:
                assert one.get(field) == other.get(field), field
        assert counted["count"] == encoded["count"]
        assert counted["bytes"] == encoded["bytes"]
        for text, item in zip(TEXTS, counted["results"], strict=True):
            alone = client.ok(
                "/count", {**{k: v for k, v in body.items() if k != "texts"}, "text": text}
            )
            assert item.items() <= alone.items()


def test_tokens_per_byte(client: AppClient) -> None:
    answer = client.ok("/count", {"tokenizer": "cl100k_base", "texts": ["Hello world", "", "🎉"]})
    ratios = [item["tokens_per_byte"] for item in answer["results"]]
    assert ratios == [2 / 11, None, 3 / 4]
    assert answer["tokens_per_byte"] == 5 / 15
    assert client.ok("/count", {**HELLO, "text": ""})["tokens_per_byte"] is None
    empty = client.ok("/count", {"tokenizer": "cl100k_base", "texts": ["", ""]})
    assert empty["tokens_per_byte"] is None
    framed = {"tokenizer": "bert-base-uncased", "text": "", "add_special_tokens": True}
    assert client.ok("/count", framed)["tokens_per_byte"] is None
    assert client.ok("/count", {"tokenizer": "cl100k_base", "texts": []})["tokens_per_byte"] is None


@pytest.mark.parametrize(("budget", "fits"), [(0, False), (1, False), (2, True), (3, True)])
def test_budget(client: AppClient, budget: int, *, fits: bool) -> None:
    answer = client.ok("/count", {**HELLO, "budget": budget})
    assert (answer["budget"], answer["fits"], answer["remaining"]) == (budget, fits, budget - 2)


def test_a_budget_is_gross(client: AppClient) -> None:
    """What the frame adds counts: it goes to the model, too."""
    body = {"tokenizer": "bert-base-uncased", "text": "hello", "budget": 2}
    assert client.ok("/count", body)["fits"] is True
    framed = client.ok("/count", {**body, "add_special_tokens": True})
    assert (framed["count"], framed["fits"], framed["remaining"]) == (3, False, -1)
    assert framed["special_tokens_added"] == 2


def test_a_budget_is_asked_of_each_text(client: AppClient) -> None:
    body = {"tokenizer": "cl100k_base", "texts": ["Hello", "Hello world", ""], "budget": 1}
    answer = client.ok("/count", body)
    assert [item["fits"] for item in answer["results"]] == [True, False, True]
    assert [item["remaining"] for item in answer["results"]] == [0, -1, 1]
    assert [item["budget"] for item in answer["results"]] == [1, 1, 1]


def test_without_a_budget_nothing_is_said_of_it(client: AppClient) -> None:
    for body in (HELLO, {"tokenizers": ["gpt2"], "text": "a"}):
        answer = str(client.ok("/count", body))
        assert not any(word in answer for word in ("fits", "remaining", "budget"))


def test_a_negative_budget_is_refused(client: AppClient) -> None:
    problem(client.post("/count", {**HELLO, "budget": -1}), 422, "validation")


# ---- several tokenizers -------------------------------------------------------------------

NAMES = ["cl100k_base", "gpt2", "bert-base-uncased"]


def test_several_tokenizers(client: AppClient) -> None:
    answer = client.ok("/count", {"tokenizers": ["gpt-4", *NAMES[1:]], "text": "Hello world"})
    assert set(answer) == {"special_policy", "add_special_tokens", "counts"}
    assert list(answer["counts"]) == NAMES, "by the artifacts' names, in the order asked"
    for name, counted in answer["counts"].items():
        alone = client.ok("/count", {**HELLO, "tokenizer": name})
        assert counted["fingerprint"] == alone["fingerprint"]
        for field in ("count", "bytes", "tokens_per_byte", "special_tokens_added"):
            assert counted[field] == alone[field]


def test_several_tokenizers_and_texts(client: AppClient) -> None:
    body = {"tokenizers": NAMES, "texts": TEXTS, "budget": 3, "add_special_tokens": True}
    answer = client.ok("/count", body)
    for name, counted in answer["counts"].items():
        alone: dict[str, Any] = {key: body[key] for key in body if key != "tokenizers"}
        one = client.ok("/count", {**alone, "tokenizer": name})
        assert counted["results"] == one["results"]
        assert (counted["count"], counted["bytes"]) == (one["count"], one["bytes"])
        assert counted["fingerprint"] == one["fingerprint"]


def test_an_item_refused_under_one_tokenizer_is_answered_under_another(client: AppClient) -> None:
    body = {"tokenizers": NAMES, "texts": ["a", "b [SEP]"], "special_policy": "reject"}
    counts = client.ok("/count", body)["counts"]
    error = counts["bert-base-uncased"]["results"][1]["error"]
    assert (error["code"], error["token"]) == ("special_token_in_text", "[SEP]")
    assert (error["pointer"], error["offset"]) == ("/texts/1", 2)
    assert counts["cl100k_base"]["results"][1]["count"] > 0


@pytest.mark.parametrize(
    "names",
    [
        ["gpt2", "gpt2"],
        ["cl100k_base", "gpt-4"],
        ["gpt-4", "gpt-3.5-turbo"],
        ["gpt2", "cl100k_base", "gpt-2"],
    ],
)
def test_one_artifact_under_two_names_is_refused(client: AppClient, names: list[str]) -> None:
    refusal = problem(client.post("/count", {"tokenizers": names, "text": "a"}), 422, "validation")
    assert refusal["pointer"] == "/tokenizers"


def test_an_unknown_name_among_several(client: AppClient) -> None:
    response = client.post("/count", {"tokenizers": ["gpt2", "no-such"], "text": "a"})
    problem(response, 404, "unknown_tokenizer")


def test_expected_fingerprints_by_name(client: AppClient) -> None:
    body = {"tokenizers": NAMES, "text": "a"}
    fingerprints = {
        name: counted["fingerprint"]
        for name, counted in client.ok("/count", body)["counts"].items()
    }
    client.ok("/count", {**body, "expected_fingerprint": fingerprints})
    client.ok("/count", {**body, "expected_fingerprint": {}})
    client.ok("/count", {**body, "expected_fingerprint": {"gpt2": fingerprints["gpt2"]}})
    wrong = {**fingerprints, "gpt2": fingerprints["cl100k_base"]}
    refusal = problem(
        client.post("/count", {**body, "expected_fingerprint": wrong}), 409, "fingerprint_mismatch"
    )
    assert refusal["actual"] == fingerprints["gpt2"]
    assert refusal["expected"] == fingerprints["cl100k_base"]
    assert refusal["tokenizer"] == "gpt2"


def test_expected_fingerprints_of_what_is_not_asked(client: AppClient) -> None:
    """A caller that expects something of a tokenizer it does not ask made a mistake."""
    other = client.get("/fingerprint/t5-base").json()["fingerprint"]
    body = {"tokenizers": NAMES, "text": "a"}
    response = client.post("/count", {**body, "expected_fingerprint": {"t5-base": other}})
    problem(response, 422, "validation")
    response = client.post("/count", {**body, "expected_fingerprint": {"no-such": other}})
    assert response.status_code in {404, 422}


def test_neither_tokenizer_nor_tokenizers(client: AppClient) -> None:
    problem(client.post("/count", {"text": "a"}), 422, "tokenizer_required")


def test_the_contract_says_distinct_not_few(client: AppClient, catalog: Catalog) -> None:
    names = [entry.name for entry in catalog]
    counts = client.ok("/count", {"tokenizers": names, "text": "Hello world"})["counts"]
    assert list(counts) == names
