"""Every error code of CONTRACT section 4: its status, its shape, its members."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from service.api.problems import STATUS_OF_CODE
from service.catalog.catalog import Catalog, Entry
from service.catalog.loading import load_catalog
from service.errors import EngineLimit
from tests.asgi import JSON_TYPE, problem
from tests.locks import DATA, LockedFolder

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from tests.asgi import AppClient
    from tests.contract.conftest import Log

CONTRACT_STATUS = {
    "malformed_request": 400,  # an addition of ours: what is no HTTP/1.1 request at all
    "malformed_body": 400,
    "invalid_unicode": 400,
    "unauthorized": 401,
    "unknown_tokenizer": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "fingerprint_mismatch": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "validation": 422,
    "tokenizer_required": 422,
    "special_token_in_text": 422,
    "invalid_token_id": 422,
    "invalid_utf8": 422,
    "engine_limit": 422,
    "too_many_items": 422,
    "text_too_large": 422,
    "chat_template_missing": 422,
    "chat_template_failed": 422,
    "budget_too_small": 422,
    "headers_too_large": 431,
    "engine_failure": 500,
    "internal": 500,
    "overloaded": 503,
    "draining": 503,
}

OTHER_FINGERPRINT = "sha256:" + "0" * 64


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A request that gives a code."""

    code: str
    path: str = "/encode"
    body: Any = None
    raw: bytes | None = None
    media_type: str = JSON_TYPE
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    members: tuple[tuple[str, Any], ...] = ()
    documented: bool = True
    """Whether the OpenAPI document says that this route gives this status."""

    def __str__(self) -> str:
        return f"{self.code}-{self.method}{self.path}"


HELLO = {"tokenizer": "cl100k_base", "text": "Hello world"}
END = "<|endoftext|>"

REFUSALS = [
    Refusal("malformed_body", raw=b"{"),
    Refusal("malformed_body", raw=b"\x81", media_type="application/msgpack"),
    Refusal("invalid_unicode", raw=b'{"tokenizer":"\xff"}'),
    Refusal("unknown_tokenizer", body={**HELLO, "tokenizer": "no-such"}),
    Refusal("unknown_tokenizer", "/count", body={**HELLO, "tokenizer": "no-such"}),
    Refusal("unknown_tokenizer", "/decode", body={"tokenizer": "no-such", "ids": []}),
    Refusal("unknown_tokenizer", "/fingerprint/no-such", method="GET"),
    Refusal("not_found", "/no-such", method="GET", documented=False),
    Refusal("not_found", "/encode/", body=HELLO, documented=False),
    Refusal("method_not_allowed", method="PUT", documented=False),
    Refusal("not_acceptable", body=HELLO, headers=(("accept", "text/html"),)),
    Refusal(
        "fingerprint_mismatch",
        body={**HELLO, "expected_fingerprint": OTHER_FINGERPRINT},
        members=(("expected", OTHER_FINGERPRINT),),
    ),
    Refusal("unsupported_media_type", raw=b"text", media_type="text/plain"),
    Refusal("validation", body={**HELLO, "unheard_of": 1}),
    Refusal(
        "chat_template_missing",
        body={"tokenizer": "cl100k_base", "messages": [{"role": "user", "content": "a"}]},
    ),
    Refusal("tokenizer_required", body={"text": "Hello world"}),
    Refusal("tokenizer_required", "/count", body={"text": "Hello world"}),
    Refusal("tokenizer_required", "/decode", body={"ids": [1]}),
    Refusal(
        "special_token_in_text",
        body={**HELLO, "text": f"ab{END}", "special_policy": "reject"},
        members=(("token", END), ("offset", 2), ("pointer", "/text")),
    ),
    Refusal(
        "special_token_in_text",
        "/count",
        body={**HELLO, "text": END, "special_policy": "reject"},
        members=(("token", END), ("offset", 0), ("pointer", "/text")),
    ),
    Refusal(
        "budget_too_small",
        "/truncate",
        body={
            "tokenizer": "bert-base-uncased",
            "text": "a",
            "max_tokens": 1,
            "add_special_tokens": True,
        },
    ),
    Refusal(
        "budget_too_small",
        "/chunk",
        body={"tokenizer": "cl100k_base", "text": "\U0001f9ea", "max_tokens": 1},
    ),
    Refusal(
        "invalid_token_id",
        "/decode",
        body={"tokenizer": "cl100k_base", "ids": [1, 100256]},
        members=(("index", 1), ("id", 100256)),
    ),
    Refusal(
        "invalid_utf8",
        "/decode",
        body={"tokenizer": "cl100k_base", "ids": [64, 9468]},
        members=(("byte_offset", 1), ("index", 1), ("id", 9468), ("reason", "truncated")),
    ),
    Refusal(
        "invalid_utf8",
        "/decode",
        body={"tokenizer": "cl100k_base", "ids": [9468, 64]},
        members=(("byte_offset", 0), ("index", 0), ("id", 9468), ("reason", "malformed")),
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_code(client: AppClient, refusal: Refusal) -> None:
    headers = [("content-type", refusal.media_type), *refusal.headers]
    sent = {"content": refusal.raw} if refusal.raw is not None else {"json": refusal.body}
    if refusal.method == "GET":
        sent = {}
    response = client.request(refusal.method, refusal.path, headers=headers, **sent)
    body = problem(response, CONTRACT_STATUS[refusal.code], refusal.code)
    assert dict(refusal.members).items() <= body.items()
    if refusal.documented:
        document = client.get("/openapi.json").json()
        template = (
            "/fingerprint/{name}" if refusal.path.startswith("/fingerprint/") else refusal.path
        )
        operation = document["paths"][template][refusal.method.lower()]
        assert str(response.status_code) in operation["responses"]
        assert refusal.code in operation["responses"][str(response.status_code)]["description"]


BATCH = {"tokenizer": "cl100k_base", "texts": ["a", "b"]}
IDS = {"tokenizer": "cl100k_base", "ids": [1, 2]}


@pytest.mark.parametrize(
    ("setting", "limit", "path", "body", "code"),
    [
        ("max_body_bytes", 20, "/encode", HELLO, "payload_too_large"),
        ("max_text_bytes", 10, "/encode", HELLO, "text_too_large"),
        ("max_text_bytes", 10, "/count", HELLO, "text_too_large"),
        ("max_batch_items", 1, "/encode", BATCH, "too_many_items"),
        ("max_ids", 1, "/decode", IDS, "too_many_items"),
    ],
)
def test_code_of_a_limit(
    new_client: Callable[..., AppClient],
    *,
    setting: str,
    limit: int,
    path: str,
    body: Any,
    code: str,
) -> None:
    client = new_client(**{setting: limit})
    response = client.post(path, body)
    assert problem(response, CONTRACT_STATUS[code], code)["limit"] == limit
    documented = client.get("/openapi.json").json()["paths"][path]["post"]["responses"]
    assert code in documented[str(CONTRACT_STATUS[code])]["description"]


def test_draining(new_client: Callable[..., AppClient]) -> None:
    client = new_client()
    client.app.lifecycle.refuses_work = True
    response = client.post("/encode", HELLO)
    problem(response, 503, "draining")
    assert int(response.headers["retry-after"]) >= 1
    documented = client.get("/openapi.json").json()["paths"]["/encode"]["post"]["responses"]
    assert "draining" in documented["503"]["description"]


def test_overloaded(new_client: Callable[..., AppClient]) -> None:
    """Large work is refused at once; small work does not wait for it, nor is it refused."""
    client = new_client(max_pending_bytes=100_000)
    large = {**HELLO, "text": "hello " * 10_000}
    assert client.ok("/count", large)["count"] > 1
    client.app.engine.pending = 50_000
    response = client.post("/count", large)
    problem(response, 503, "overloaded")
    assert int(response.headers["retry-after"]) >= 1
    assert client.ok("/count", HELLO)["count"] == 2
    # A request weighs its bytes times its tokenizers.
    client.app.engine.pending = 1
    text = "hello " * 7_000
    assert client.ok("/count", {"tokenizers": ["gpt2"], "text": text})["counts"]["gpt2"]
    several = {"tokenizers": ["gpt2", "cl100k_base", "o200k_base"], "text": text}
    problem(client.post("/count", several), 503, "overloaded")


def test_unauthorized(new_client: Callable[..., AppClient], tmp_path: pathlib.Path) -> None:
    """Each route, over a socket: tests/server/test_keys.py."""
    keys = tmp_path / "keys"
    keys.write_text(f"alice {hashlib.sha256(b'k1').hexdigest()}\n")
    client = new_client(api_keys_file=str(keys))
    response = client.post("/encode", HELLO)
    problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    answer = client.post("/encode", HELLO, headers={"authorization": "Bearer k1"})
    assert answer.status_code == 200


class Failing:
    """A tokenizer whose library fails; everything else is that of a real one."""

    cuts = False

    def __init__(self, tokenizer: Any, error: BaseException) -> None:
        self._tokenizer = tokenizer
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode(self, text: str) -> list[int]:
        if "fail" in text:
            raise self._error
        ids: list[int] = self._tokenizer.encode(text)
        return ids

    def encode_buffer(self, text: str) -> None:
        self.encode(text)


def failing(entry: Entry, error: BaseException) -> Catalog:
    """A catalog of one artifact whose library raises `error` for a text that says so."""
    broken = copy.copy(entry)
    broken.tokenizer = Failing(entry.tokenizer, error)  # type: ignore[assignment]
    return Catalog([broken])


class PanicException(BaseException):
    """Stands for the panic of a Rust library, which derives from BaseException, too."""


@pytest.mark.parametrize("error", [ValueError("secret words"), PanicException("secret words")])
@pytest.mark.parametrize("length", [10, 40_000], ids=["inline", "engine-thread"])
def test_engine_failure(
    catalog: Catalog,
    new_client: Callable[..., AppClient],
    log: Log,
    error: BaseException,
    length: int,
) -> None:
    client = new_client(failing(catalog.resolve("cl100k_base"), error))
    response = client.post("/encode", {**HELLO, "text": "fail " * (length // 5)})
    body = problem(response, 500, "engine_failure")
    assert client.ok("/encode", HELLO)["ids"] == [9906, 1917], "the next request is answered"
    messages = [line["message"] for line in log.lines]
    assert messages == ["engine failure", "request"]
    assert all(line["request_id"] == body["request_id"] for line in log.lines)
    assert log.lines[0]["exception"] == type(error).__name__
    assert log.lines[1]["code"] == "engine_failure"
    assert "secret" not in log.text, "the library's message may quote the text"


def test_engine_limit(catalog: Catalog, new_client: Callable[..., AppClient]) -> None:
    client = new_client(failing(catalog.resolve("cl100k_base"), EngineLimit()))
    problem(client.post("/encode", {**HELLO, "text": "fail"}), 422, "engine_limit")
    answer = client.ok("/count", {"tokenizer": "cl100k_base", "texts": ["fail", "Hello world"]})
    assert answer["results"][0]["error"]["code"] == "engine_limit"
    assert answer["results"][1]["count"] == answer["count"] == 2


@pytest.mark.parametrize("tokenizer", ["cl100k_base", "o200k_base", "gpt2"])
def test_a_run_of_a_million_blanks_is_no_failure(client: AppClient, tokenizer: str) -> None:
    """In tiktoken 0.14 that is a panic: right ids or engine_limit, never a 500."""
    response = client.post("/count", {"tokenizer": tokenizer, "text": " " * 1_000_000 + "x"})
    if response.status_code != 200:
        problem(response, 422, "engine_limit")


def test_chat_template_failed(
    new_client: Callable[..., AppClient], log: Log, tmp_path: pathlib.Path
) -> None:
    """A template may put what a user wrote into its complaint: that stays inside."""
    folder = LockedFolder(tmp_path / "artifacts")
    tokenizer = (DATA / "synthetic" / "template.tokenizer.json").read_bytes()
    template = b"{{ raise_exception('not ' + messages[0].content) }}"
    folder.add("chatty", "tokenizer_json", {"tokenizer": tokenizer, "chat_template": template})
    client = new_client(load_catalog(folder.root))
    messages = [{"role": "user", "content": "canarybird"}]
    for path in ("/encode", "/count"):
        response = client.post(path, {"tokenizer": "chatty", "messages": messages})
        problem(response, 422, "chat_template_failed")
        assert "canarybird" not in response.text + log.text
        documented = client.get("/openapi.json").json()["paths"][path]["post"]["responses"]
        assert "chat_template_failed" in documented["422"]["description"]


def test_internal(
    new_client: Callable[..., AppClient], monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    """A defect of the service itself: the caller learns the request id, the log the place."""
    client = new_client()
    message = "secret words"

    def defect(*_: object) -> None:
        raise KeyError(message)

    monkeypatch.setattr(Catalog, "resolve", defect)
    # Asked for in full, so that it is the operation that meets the defect.
    body = problem(client.post("/encode", HELLO | {"offsets": "byte"}), 500, "internal")
    assert message not in str(body)
    line = log.lines[0]
    assert (line["message"], line["exception"]) == ("internal error", "KeyError")
    assert line["request_id"] == body["request_id"]
    assert line["at"]
    assert message not in log.text
    page = problem(client.get("/fingerprint/cl100k_base"), 500, "internal")
    assert message not in str(page)
    assert message not in log.text


def test_codes_have_the_status_of_the_contract() -> None:
    assert STATUS_OF_CODE == CONTRACT_STATUS


def test_every_code_has_a_case() -> None:
    here = {refusal.code for refusal in REFUSALS}
    here |= {"payload_too_large", "text_too_large", "too_many_items"}
    here |= {"chat_template_failed", "draining", "engine_failure", "engine_limit", "internal"}
    here |= {"headers_too_large", "malformed_request"}  # tests/server/test_protocol.py
    here |= {"overloaded", "unauthorized"}
    assert here == set(CONTRACT_STATUS)


def test_unknown_tokenizer_lists_the_names_that_exist(client: AppClient, catalog: Catalog) -> None:
    response = client.post("/encode", {**HELLO, "tokenizer": "no-such"})
    body = problem(response, 404, "unknown_tokenizer")
    assert body["tokenizers"] == [entry.name for entry in catalog]


def test_errors_are_json_whatever_was_asked(client: AppClient) -> None:
    response = client.post(
        "/encode", {"tokenizer": "no-such"}, headers={"accept": "application/msgpack"}
    )
    problem(response, 422, "validation")
