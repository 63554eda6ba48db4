"""Methods on every route, and the request id that every answer carries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from service.api.operations import operations
from tests.asgi import problem
from tests.contract.bodies import MINIMAL

if TYPE_CHECKING:
    import httpx

    from tests.asgi import AppClient

POSTS = tuple(operations())
GETS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/tokenizers",
    "/fingerprint",
    "/fingerprint/gpt2",
    "/openapi.json",
)
OTHERS = ("PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND")

HELLO = MINIMAL["/encode"]
FRESH_ID = re.compile(r"[A-Za-z0-9._-]{16,128}")


def allowed(response: httpx.Response) -> set[str]:
    return {method.strip() for method in response.headers["allow"].split(",")}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", *OTHERS])
def test_an_operation_takes_post_alone(client: AppClient, path: str, method: str) -> None:
    response = client.raw({"path": path, "method": method})
    assert response is not None
    problem(response, 405, "method_not_allowed")
    assert allowed(response) == {"POST", "OPTIONS"}


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("method", ["POST", *OTHERS])
def test_a_page_takes_get(client: AppClient, path: str, method: str) -> None:
    response = client.request(method, path)
    problem(response, 405, "method_not_allowed")
    assert {"GET", "OPTIONS"} <= allowed(response)


@pytest.mark.parametrize("path", [*POSTS, *GETS])
def test_a_refusal_and_options_name_the_same_methods(client: AppClient, path: str) -> None:
    refused = client.request("DELETE", path)
    assert allowed(refused) == allowed(client.request("OPTIONS", path))


@pytest.mark.parametrize("path", [*POSTS, *GETS])
def test_options_says_what_is_allowed(client: AppClient, path: str) -> None:
    response = client.request("OPTIONS", path)
    assert response.status_code == 204
    assert response.content == b""
    assert response.headers["x-request-id"]
    for method in allowed(response) - {"OPTIONS"}:
        body = MINIMAL[path] if method == "POST" else None
        answer = client.request(method, path, json=body)
        assert answer.status_code != 405, f"{method} is said to be allowed"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_head_of_a_probe(client: AppClient, path: str) -> None:
    """Load balancers ask so."""
    response = client.request("HEAD", path)
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", GETS)
def test_get(client: AppClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(response.content)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/encode/",
        "/encode/x",
        "/Encode",
        "//encode",
        "/v1/encode",
        "/encode;a=b",
        "/healthz/",
        "/fingerprint/",
        "/fingerprint/a/b",
        "/fingerprint/a%2Fb",
        "/docs",
        "/schema",
        "/schema/openapi.json",
        "/%00",
        "/%FF",
        "/%E6%9D%B1",
        "/" + "a" * 10_000,
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
def test_a_path_that_is_none_of_ours(client: AppClient, path: str, method: str) -> None:
    problem(client.request(method, path), 404, "not_found")


@pytest.mark.parametrize(
    "name", ["%E6%9D%B1%E4%BA%AC", "%FF", "no-such", "a" * 5000, "%00", "..%20"]
)
def test_a_fingerprint_that_nothing_has(client: AppClient, name: str) -> None:
    problem(client.get(f"/fingerprint/{name}"), 404, "unknown_tokenizer")


def answers(client: AppClient, request_id: str | None) -> list[httpx.Response]:
    """One answer of each kind: an operation, its refusals, pages, a path that is none."""
    headers = {} if request_id is None else {"x-request-id": request_id}
    return [
        client.post("/encode", HELLO, headers=headers),
        client.post("/encode", {}, headers=headers),
        client.request("OPTIONS", "/encode", headers=headers),
        client.request("PUT", "/encode", headers=headers),
        client.get("/healthz", headers=headers),
        client.get("/fingerprint/gpt2", headers=headers),
        client.get("/fingerprint/gpt2", headers={**headers, "if-none-match": "*"}),
        client.get("/fingerprint/no-such", headers=headers),
        client.request("PUT", "/healthz", headers=headers),
        client.get("/metrics", headers=headers),
        client.get("/no-such", headers=headers),
    ]


@pytest.mark.parametrize(
    "request_id", ["a", "0", "-", "A.b_c-9", "x" * 128, "7b1c0e1e-3b1f-4f3e-9f5e-0a1b2c3d4e5f"]
)
def test_a_valid_request_id_comes_back(client: AppClient, request_id: str) -> None:
    for response in answers(client, request_id):
        assert response.headers.get_list("x-request-id") == [request_id]
        if response.status_code >= 400:
            assert response.json()["request_id"] == request_id


@pytest.mark.parametrize(
    "request_id",
    [None, "", " ", "a b", "a,b", "x" * 129, "a/b", "<script>", "a\tb", "a;b", "a:b", 'a"b'],
)
def test_another_request_id_is_made_anew(client: AppClient, request_id: str | None) -> None:
    seen = set()
    for response in answers(client, request_id):
        (given,) = response.headers.get_list("x-request-id")
        assert FRESH_ID.fullmatch(given)
        assert given != request_id
        seen.add(given)
        if response.status_code >= 400:
            assert response.json()["request_id"] == given
    assert len(seen) == len(answers(client, request_id))


@pytest.mark.parametrize("request_id", [b"caf\xe9", b"\xff\xfe", b"a\x00b", b"a\n", "東".encode()])
def test_bytes_that_are_no_request_id(client: AppClient, request_id: bytes) -> None:
    response = client.raw({"path": "/no-such"}, [(b"x-request-id", request_id)])
    assert response is not None
    assert FRESH_ID.fullmatch(response.headers["x-request-id"])
