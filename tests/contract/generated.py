"""Requests made of the OpenAPI document by schemathesis, and what makes them sensible."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import schemathesis
from schemathesis.config import SchemathesisConfig

from service.api.app import create_app
from service.api.openapi import openapi_document
from tests.asgi import MSGPACK_TYPE, AppClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog
    from service.settings import Settings

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


def new_schema() -> Any:
    """The document as schemathesis has it, for good and bad requests, always the same ones.

    schemathesis' own fixture of a schema needs a name that pytest 9.2 took away: the document is
    made of the service's types alone, so it can be had before any artifact is loaded.
    """
    schema = schemathesis.openapi.from_dict(
        msgspec.json.decode(openapi_document()),
        config=SchemathesisConfig.from_dict({"generation": {"deterministic": True, "mode": "all"}}),
    )

    @schema.hook
    def map_body(_: Any, body: Any) -> Any:
        body = whole_numbers(body)
        return with_names_that_exist(body) if isinstance(body, dict) else body

    return schema


@contextlib.contextmanager
def started(catalog: Catalog, settings: Settings) -> Iterator[Any]:
    """An application that stays started: schemathesis starts and stops one at every request."""
    with AppClient(create_app(settings, catalog)) as client:

        async def without_lifespan(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "lifespan":
                await client.app(scope, receive, send)
                return
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})

        yield without_lifespan
