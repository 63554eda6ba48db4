"""The OpenAPI document tells the truth: routes, fields, constraints, statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.api.operations import operations
from service.api.problems import STATUS_OF_CODE
from tests.asgi import JSON_TYPE, MSGPACK_TYPE, PROBLEM_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.asgi import AppClient

POSTS = tuple(operations())
GETS = ("/healthz", "/readyz", "/metrics", "/tokenizers", "/fingerprint", "/fingerprint/{name}")


@pytest.fixture(scope="module")
def document(client: AppClient) -> dict[str, Any]:
    response = client.get("/openapi.json")
    assert response.headers["content-type"] == JSON_TYPE
    answer: dict[str, Any] = response.json()
    return answer


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema, its reference followed."""
    while "$ref" in schema:
        assert schema["$ref"].startswith("#/components/schemas/")
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def request_of(document: dict[str, Any], path: str) -> dict[str, Any]:
    content = document["paths"][path]["post"]["requestBody"]["content"]
    assert set(content) == {JSON_TYPE, MSGPACK_TYPE}
    assert content[JSON_TYPE] == content[MSGPACK_TYPE]
    return resolved(document, content[JSON_TYPE]["schema"])


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_route_is_in_it(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert {*POSTS, *GETS} <= set(document["paths"])


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = set(references(document))
    assert found
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert found <= known


@pytest.mark.parametrize("path", POSTS)
def test_a_request_has_no_further_fields(document: dict[str, Any], path: str) -> None:
    schema = request_of(document, path)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert document["paths"][path]["post"]["requestBody"]["required"] is True


def test_what_is_required(document: dict[str, Any]) -> None:
    assert request_of(document, "/encode")["required"] == ["tokenizer"]
    assert request_of(document, "/decode")["required"] == ["tokenizer"]
    assert not request_of(document, "/count").get("required"), "tokenizers may stand for tokenizer"


def test_constraints_are_in_it(document: dict[str, Any]) -> None:
    encode = request_of(document, "/encode")["properties"]
    assert encode["text"]["type"] == "string"
    assert encode["texts"]["items"]["type"] == "string"
    assert encode["allowed_special"]["items"]["type"] == "string"
    policy = resolved(document, encode["special_policy"])
    enum = policy.get("enum") or resolved(document, policy["anyOf"][0])["enum"]
    assert set(enum) == {"literal", "special", "reject"}
    assert encode["expected_fingerprint"]["pattern"] == "^sha256:[0-9a-f]{64}$"
    decode = request_of(document, "/decode")["properties"]
    assert decode["ids"]["items"]["type"] == "integer"
    assert decode["batch"]["items"]["items"]["type"] == "integer"
    assert set(decode["output"]["enum"]) == {"text", "bytes"}
    count = request_of(document, "/count")["properties"]
    assert (count["budget"]["type"], count["budget"]["minimum"]) == ("integer", 0)
    assert count["tokenizers"]["minItems"] == 1
    assert count["tokenizers"]["items"]["type"] == "string"


def test_defaults_are_in_it(document: dict[str, Any]) -> None:
    encode = request_of(document, "/encode")["properties"]
    assert encode["special_policy"]["default"] == "literal"
    assert encode["add_special_tokens"]["default"] is False
    decode = request_of(document, "/decode")["properties"]
    assert decode["mode"]["default"] == "strict"
    assert decode["skip_special_tokens"]["default"] is False
    assert decode["output"]["default"] == "text"


@pytest.mark.parametrize("path", POSTS)
def test_every_status_of_an_operation(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][path]["post"]["responses"]
    assert {"200", "400", "404", "406", "409", "413", "415", "422", "500", "503"} <= set(responses)
    assert set(responses["200"]["content"]) == {JSON_TYPE, MSGPACK_TYPE}
    assert "X-Request-Id" in responses["200"]["headers"]
    for status, response in responses.items():
        if status != "200":
            assert set(response["content"]) == {PROBLEM_TYPE}
            problem = resolved(document, response["content"][PROBLEM_TYPE]["schema"])
            assert {"type", "title", "status", "detail", "code", "request_id"} <= set(
                problem["required"]
            )


def test_codes_are_a_closed_list(document: dict[str, Any]) -> None:
    problem = document["components"]["schemas"]["Problem"]
    assert set(problem["properties"]["code"]["enum"]) == set(STATUS_OF_CODE)


@pytest.mark.parametrize("path", GETS)
def test_pages(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][path]["get"]["responses"]
    assert "200" in responses
    if path.startswith("/fingerprint"):
        assert "304" in responses
        assert "ETag" in responses["200"]["headers"]
    if path == "/readyz":
        assert "503" in responses
    if "{name}" in path:
        assert "404" in responses
        (parameter,) = document["paths"][path]["get"]["parameters"]
        assert (parameter["name"], parameter["in"], parameter["required"]) == ("name", "path", True)


def test_every_field_is_described(document: dict[str, Any]) -> None:
    for path in POSTS:
        for name, schema in request_of(document, path)["properties"].items():
            options = [schema, *schema.get("anyOf", [])]
            assert any("description" in resolved(document, option) for option in options), name


def described_by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    described = [item for path in document["paths"].values() for item in path.values()]
    by_id = {item["operationId"]: item for item in described}
    assert len(by_id) == len(described), "an operationId stands twice"
    return by_id


def has_value(document: dict[str, Any], schema: dict[str, Any], steps: list[str]) -> bool:
    """Whether a value of a schema can have another one under these steps of a pointer."""
    if not steps:
        return True
    schema = resolved(document, schema)
    if any(has_value(document, option, steps) for option in schema.get("anyOf", ())):
        return True
    step, *further = steps
    below = schema.get("items") if step.isdigit() else schema.get("properties", {}).get(step)
    return below is not None and has_value(document, below, further)


def test_links_lead_from_what_is_answered_to_what_can_be_asked(document: dict[str, Any]) -> None:
    by_id = described_by_id(document)
    found = 0
    for source in by_id.values():
        answer = source["responses"]["200"]
        bodies = {"$response.body": answer, "$request.body": source.get("requestBody")}
        for link in answer.get("links", {}).values():
            target = by_id[link["operationId"]]
            assert link["description"]
            fields, parameters = link.get("requestBody", {}), link.get("parameters", {})
            if fields:
                asked = resolved(document, target["requestBody"]["content"][JSON_TYPE]["schema"])
                assert fields.keys() <= asked["properties"].keys()
            assert parameters.keys() == {given["name"] for given in target.get("parameters", ())}
            for expression in (*fields.values(), *parameters.values()):
                origin, _, pointer = expression.partition("#/")
                schema = bodies[origin]["content"][JSON_TYPE]["schema"]
                assert has_value(document, schema, pointer.split("/")), expression
                found += 1
    assert found
