"""The OpenAPI document, made from the same Structs that decode requests and shape answers.

Litestar's own document leaves out constraints on items and `additionalProperties: false`, which
are enforced; msgspec's schema of a Struct has both.
"""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from service import __version__
from service.api.codec import JSON, MSGPACK
from service.api.keys import OPEN_PATHS
from service.api.links import LINKS
from service.api.operations import operations
from service.api.pages import PAGES
from service.api.problems import MEDIA_TYPE, STATUS_OF_CODE
from service.api.structs import SCHEMA_REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.api.operations import Operation
    from service.api.pages import Page

_CODES_OF_EVERY_OPERATION = (
    "malformed_body",
    "invalid_unicode",
    "unauthorized",
    "unknown_tokenizer",
    "not_acceptable",
    "fingerprint_mismatch",
    "payload_too_large",
    "unsupported_media_type",
    "validation",
    "tokenizer_required",
    "too_many_items",
    "draining",
    "overloaded",
    "engine_failure",
    "internal",
)

_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457; further members say more where the code has more to say.",
    "required": ["type", "title", "status", "detail", "code", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"enum": sorted(STATUS_OF_CODE)},
        "request_id": {"type": "string"},
    },
}

_REQUEST_ID_HEADER = {
    "X-Request-Id": {
        "description": "The caller's, if 1 to 128 letters, digits, `.`, `_`, `-`; else a new one.",
        "schema": {"type": "string"},
    }
}


_API_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "Where keys are configured; /healthz and /readyz need none.",
}


@functools.cache
def openapi_document() -> bytes:
    """The document as JSON."""
    schemas = _schemas()
    paths: dict[str, Any] = {
        path: {"post": _post(operation, schemas[operation.request])}
        for path, operation in operations().items()
    }
    for path, page in PAGES.items():
        paths[path] = {"get": _get(path, page, schemas)}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Tokenizer service",
                "version": __version__,
                "description": "Text to token ids and back, exact to the reference libraries.",
            },
            "paths": paths,
            "components": {
                "schemas": {**schemas["components"], "Problem": _PROBLEM_SCHEMA},
                "securitySchemes": {"ApiKey": _API_KEY},
            },
            # Either will do: whether keys are asked for is the operator's choice.
            "security": [{}, {"ApiKey": []}],
        }
    )


def _schemas() -> dict[Any, Any]:
    """Schema reference by Struct, and the referred schemas under `components`."""
    structs: list[type[msgspec.Struct]] = []
    for operation in operations().values():
        structs += [operation.request, *operation.responses, *operation.parts]
    structs += [page.answer for page in PAGES.values() if not isinstance(page.answer, str)]
    structs = list(dict.fromkeys(structs))
    references, components = msgspec.json.schema_components(structs, ref_template=SCHEMA_REFERENCE)
    return {**dict(zip(structs, references, strict=True)), "components": components}


def _post(operation: Operation, request: dict[str, Any]) -> dict[str, Any]:
    answers = [
        {"$ref": SCHEMA_REFERENCE.format(name=shape.__name__)} for shape in operation.responses
    ]
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": request}, MSGPACK: {"schema": request}},
        },
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": _REQUEST_ID_HEADER,
                "content": {
                    media_type: {"schema": {"anyOf": answers}} for media_type in (JSON, MSGPACK)
                },
                **_links(operation.name),
            },
            **_problems((*_CODES_OF_EVERY_OPERATION, *operation.codes)),
        },
    }


def _get(path: str, page: Page, schemas: dict[Any, Any]) -> dict[str, Any]:
    if isinstance(page.answer, str):
        content: dict[str, Any] = {page.answer: {"schema": {}}}
    else:
        content = {JSON: {"schema": schemas[page.answer]}}
    responses: dict[str, Any] = {
        "200": {"description": "The answer.", "content": content, **_links(page.name)},
        **_problems((*page.codes, "internal", *(() if path in OPEN_PATHS else ("unauthorized",)))),
    }
    if page.etag:
        responses["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": "The caller has it (If-None-Match)."}
    if path == "/readyz":
        responses["503"] = {"description": "Not ready.", "content": content}
    described: dict[str, Any] = {
        "operationId": page.name,
        "summary": page.summary,
        "responses": responses,
    }
    if "{name}" in path:
        described["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    return described


def _links(operation_id: str) -> dict[str, Any]:
    """The member `links` of a response; no member where there are none."""
    return {"links": LINKS[operation_id]} if operation_id in LINKS else {}


def _problems(codes: Iterable[str]) -> dict[str, Any]:
    """The error responses by status, each with the codes that it can carry."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS_OF_CODE[code], []).append(code)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(sorted(set(found)))}.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMA_REFERENCE.format(name="Problem")}}},
        }
        for status, found in sorted(by_status.items())
    }
