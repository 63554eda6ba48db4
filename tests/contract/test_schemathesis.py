"""Random requests made of the OpenAPI document: good ones, bad ones, and the edges between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from service.api.app import create_app
from service.api.openapi import openapi_document
from service.settings import Settings
from tests.asgi import MSGPACK_TYPE, AppClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog

NAMES = ("cl100k_base", "gpt2", "bert-base-uncased", "mistral-7b-v0.3", "minbpe-service")


@schemathesis.serializer(MSGPACK_TYPE)
def as_msgpack(_: Any, value: Any) -> bytes:
    return msgspec.msgpack.encode(value) if fits(value) else b"\xc0"


def fits(value: Any) -> bool:
    """Whether MessagePack has a number for each integer in a value."""
    if isinstance(value, dict):
        return all(map(fits, value.values()))
    if isinstance(value, list):
        return all(map(fits, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def whole_numbers(value: Any) -> Any:
    """A value with 3.0 as 3: JSON Schema calls both an integer, so 3.0 is no bad data to it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    return [whole_numbers(item) for item in value] if isinstance(value, list) else value


def with_names_that_exist(body: dict[str, Any]) -> dict[str, Any]:
    """A copy with real names in the place of names: random ones would be 404 for ever."""
    body = dict(body)
    if isinstance(body.get("tokenizer"), str):
        body["tokenizer"] = real_name(body["tokenizer"])
    names = body.get("tokenizers")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        body["tokenizers"] = [real_name(name) for name in names]
    return body


def real_name(name: str) -> str:
    """One that exists for most names, always the same for one."""
    if name in NAMES:
        return name
    number = sum(map(ord, name)) % (len(NAMES) + 1)
    return NAMES[number] if number < len(NAMES) else name


def sensible(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A good body as a client would write it, which a schema alone can't say: one text or several.

    One in four stays as it is.
    """
    if len(repr(body)) % 4 == 0:
        return body
    body = with_names_that_exist(body)
    body.pop("expected_fingerprint", None)
    if "tokenizers" not in body:
        body.setdefault("tokenizer", NAMES[0])
    for one, several in (("ids", "batch"), ("text", "texts"), ("tokenizer", "tokenizers")):
        if one in body and several in body:
            del body[one if len(repr(body)) % 2 else several]
    if path == "/decode" and "batch" not in body:
        body.setdefault("ids", [])
    elif path != "/decode" and "texts" not in body:
        body.setdefault("text", "caf\u00e9 <|endoftext|>")
    for numbers in (body.get("ids", []), *body.get("batch", [])):
        numbers[:] = [number % 300 for number in numbers]
    if "allowed_special" in body:
        body |= {"special_policy": "special", "allowed_special": []}
    return body


# schemathesis' own fixture of a schema needs a name that pytest 9.2 took away: the document is made
# of the service's types alone, so it can be had before any artifact is loaded.
schema = schemathesis.openapi.from_dict(
    msgspec.json.decode(openapi_document()),
    config=SchemathesisConfig.from_dict({"generation": {"deterministic": True}}),
)


@schema.hook
def map_body(_: Any, body: Any) -> Any:
    body = whole_numbers(body)
    return with_names_that_exist(body) if isinstance(body, dict) else body


@pytest.fixture(scope="module")
def app(catalog: Catalog) -> Iterator[Any]:
    """An application with limits that random data can reach."""
    settings = Settings(max_batch_items=8, max_ids=8, max_text_bytes=64)
    with AppClient(create_app(settings, catalog)) as started:

        async def without_lifespan(scope: Any, receive: Any, send: Any) -> None:
            # schemathesis starts and stops an application around every request: not this one.
            if scope["type"] != "lifespan":
                await started.app(scope, receive, send)
                return
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})

        yield without_lifespan


@schema.parametrize()
@settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_any_request(case: schemathesis.Case, app: Any) -> None:
    if case.meta is not None and case.meta.generation.mode.is_positive:
        if isinstance(case.body, dict):
            case.body = sensible(case.path, case.body)
        if "name" in case.path_parameters:
            case.path_parameters["name"] = real_name(case.path_parameters["name"])
    case.call_and_validate(
        app=app,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
            negative_data_rejection,
        ],
    )
