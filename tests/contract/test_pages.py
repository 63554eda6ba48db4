"""The GET routes: what is loaded, how the process is, and how an answer is kept."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from service.api.app import create_app
from service.settings import Settings
from tests.asgi import JSON_TYPE, AppClient, problem
from tests.locks import EMBEDDED_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.catalog.catalog import Catalog

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
HEX = re.compile(r"[0-9a-f]{64}")
ROLES = {"bos", "eos", "unk", "pad", "cls", "sep", "mask"}
PIPELINE = {"normalizer", "pre_tokenizer", "model", "post_processor", "decoder"}


def test_healthz(client: AppClient) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.headers["content-type"]) == (200, JSON_TYPE)
    assert response.json() == {"status": "ok"}


def test_readyz_follows_the_process(new_client: Callable[..., AppClient]) -> None:
    client = new_client()
    assert client.get("/readyz").status_code == 200
    client.app.lifecycle.ready = False
    response = client.get("/readyz")
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert client.get("/healthz").status_code == 200, "a draining process is alive"
    body = {"tokenizer": "cl100k_base", "text": "a"}
    assert client.post("/encode", body).status_code == 200, "and still answers"


def test_readyz_before_the_start(catalog: Catalog) -> None:
    with contextlib.closing(AppClient(create_app(Settings(), catalog))) as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200


def test_tokenizers(client: AppClient, catalog: Catalog) -> None:
    answer = client.get("/tokenizers").json()
    assert set(answer) == {"tokenizers"}
    assert [listed["name"] for listed in answer["tokenizers"]] == list(EMBEDDED_LOCK)
    for listed in answer["tokenizers"]:
        locked = EMBEDDED_LOCK[listed["name"]]
        page = client.get(f"/fingerprint/{listed['name']}").json()
        assert listed == {
            "name": locked["name"],
            "aliases": locked.get("aliases", []),
            "format": locked["format"],
            "vocab_size": page["vocab"]["size"],
            "fingerprint": page["fingerprint"],
            "round_trip": page["round_trip"],
        }
    assert [entry.name for entry in catalog] == list(EMBEDDED_LOCK)


@pytest.mark.parametrize("name", EMBEDDED_LOCK)
def test_a_fingerprint_is_complete(client: AppClient, name: str) -> None:
    locked = EMBEDDED_LOCK[name]
    page: dict[str, Any] = client.get(f"/fingerprint/{name}").json()
    assert set(page) == {
        "tokenizer",
        "fingerprint",
        "format",
        "license",
        "source",
        "files",
        "engine",
        "vocab",
        "pipeline",
        "special_tokens",
        "roles",
        "add_special_tokens",
        "chat_template",
        "coverage",
        "round_trip",
        "probes",
    }
    assert (page["tokenizer"], page["format"]) == (name, locked["format"])
    assert (page["license"], page["source"]) == (locked["license"], locked["source"])
    assert page["fingerprint"] == locked["fingerprint"]
    assert page["files"] == locked["file"]
    assert set(page["engine"]) == {"library", "version"}
    assert all(page["engine"].values())
    assert set(page["pipeline"]) == PIPELINE
    assert set(page["roles"]) == ROLES
    assert set(page["add_special_tokens"]) == {"before", "after"}
    assert page["chat_template"] is None
    assert page["coverage"] in {"every_byte", "unknown_token"}
    assert page["round_trip"] in {"exact", "normalizing", "lossy"}
    assert (page["coverage"] == "unknown_token") <= (page["round_trip"] == "lossy")
    assert page["probes"]["sha256"] == locked["probes"]
    assert page["probes"]["count"] > 0
    vocab = page["vocab"]
    assert vocab["size"] == vocab["max_id"] + 1 - len(vocab["holes"])
    assert DIGEST.fullmatch(vocab["sha256"]) or HEX.fullmatch(vocab["sha256"])
    assert all(0 <= hole < vocab["max_id"] for hole in vocab["holes"])
    assert all(0 <= token_id <= vocab["max_id"] for token_id in page["special_tokens"].values())


SIZES = {
    "r50k_base": (50257, 50256),
    "cl100k_base": (100261, 100276),
    "o200k_base": (200000, 200018),
    "gpt2": (50257, 50256),
    "bert-base-uncased": (30522, 30521),
    "mistral-7b-v0.3": (32768, 32767),
    "t5-base": (32000, 31999),
    "clip-vit-large-patch14": (49408, 49407),
}


@pytest.mark.parametrize("name", SIZES)
def test_size_and_greatest_id(client: AppClient, name: str) -> None:
    vocab = client.get(f"/fingerprint/{name}").json()["vocab"]
    assert (vocab["size"], vocab["max_id"]) == SIZES[name]


@pytest.mark.parametrize(
    ("one", "other"), [("gpt2", "r50k_base"), ("bert-base-uncased", "all-minilm-l6-v2")]
)
def test_one_vocabulary_in_two_formats(client: AppClient, one: str, other: str) -> None:
    first, second = (client.get(f"/fingerprint/{name}").json() for name in (one, other))
    assert first["vocab"] == second["vocab"]
    assert first["fingerprint"] != second["fingerprint"]


def test_vocabularies_differ_otherwise(client: AppClient) -> None:
    pages = client.get("/fingerprint").json()["fingerprints"]
    assert len({page["fingerprint"] for page in pages}) == len(pages)
    assert len({page["vocab"]["sha256"] for page in pages}) == len(pages) - 2


def test_all_fingerprints_are_those_of_each(client: AppClient) -> None:
    answer = client.get("/fingerprint").json()
    assert set(answer) == {"fingerprints"}
    each = [client.get(f"/fingerprint/{name}").json() for name in EMBEDDED_LOCK]
    assert answer["fingerprints"] == each


def test_an_alias_leads_to_the_artifact(client: AppClient) -> None:
    by_name, by_alias = client.get("/fingerprint/cl100k_base"), client.get("/fingerprint/gpt-4")
    assert by_name.content == by_alias.content
    assert by_name.headers["etag"] == by_alias.headers["etag"]


@pytest.mark.parametrize("path", ["/fingerprint", "/fingerprint/gpt2"])
def test_etag(client: AppClient, path: str) -> None:
    response = client.get(path)
    etag = response.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{64}"', etag)
    assert client.get(path).headers["etag"] == etag
    for known in (etag, f"W/{etag}", "*", f'"other", {etag}', f'{etag} , "other"', f" {etag}"):
        again = client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == etag
        assert "content-type" not in again.headers
    for other in ('"other"', etag.strip('"'), "", '"*"', f'"{etag}"'):
        again = client.get(path, headers={"if-none-match": other})
        assert (again.status_code, again.content) == (200, response.content), other


def test_an_etag_is_of_its_own_body(client: AppClient) -> None:
    tags = {client.get(f"/fingerprint/{name}").headers["etag"] for name in EMBEDDED_LOCK}
    assert len(tags) == len(EMBEDDED_LOCK)
    etag = client.get("/fingerprint/gpt2").headers["etag"]
    other = client.get("/fingerprint/cl100k_base", headers={"if-none-match": etag})
    assert other.status_code == 200


def test_an_etag_outlives_the_process(
    client: AppClient, new_client: Callable[..., AppClient]
) -> None:
    etag = client.get("/fingerprint").headers["etag"]
    assert new_client().get("/fingerprint").headers["etag"] == etag


def test_an_unknown_fingerprint_stays_unknown_to_if_none_match(client: AppClient) -> None:
    response = client.get("/fingerprint/no-such", headers={"if-none-match": "*"})
    problem(response, 404, "unknown_tokenizer")
