"""The GET routes, by Litestar: what is loaded, whether it is well, and what it counts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import HttpMethod, MediaType, Request, Response, route
from litestar.params import FromPath
from litestar.types import Method

from service.api.descriptions import (
    Description,
    Descriptions,
    Listing,
    Status,
    describe,
    list_catalog,
)
from service.api.problems import RETRY_AFTER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.handlers import HTTPRouteHandler

    from service.api.engine import Engine
    from service.api.lifecycle import Lifecycle
    from service.catalog.catalog import Catalog
    from service.metrics import Metrics

METHODS: list[HttpMethod | Method] = ["GET", "HEAD"]

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One GET route, as the OpenAPI document shows it."""

    name: str
    summary: str
    answer: type[msgspec.Struct] | str
    """The JSON answer, or the media type of an answer that is none of our Structs."""
    etag: bool = False
    codes: tuple[str, ...] = ()


PAGES: dict[str, Page] = {
    "/healthz": Page("healthz", "The process answers.", Status),
    "/readyz": Page(
        "readyz",
        "Every artifact is verified and self-tested, and the process is not draining.",
        Status,
    ),
    "/metrics": Page("metrics", "Prometheus text format.", "text/plain"),
    "/tokenizers": Page(
        "tokenizers", "The tokenizers that are loaded.", Listing, codes=("overloaded",)
    ),
    "/fingerprint": Page(
        "fingerprints",
        "Fingerprint and description of every tokenizer.",
        Descriptions,
        etag=True,
        codes=("overloaded",),
    ),
    "/fingerprint/{name}": Page(
        "fingerprint",
        "Fingerprint and description of one tokenizer.",
        Description,
        etag=True,
        codes=("unknown_tokenizer", "overloaded"),
    ),
    "/openapi.json": Page("openapi", "This interface, as OpenAPI 3.1.", MediaType.JSON),
}
"""Path template to description of every route that is no operation."""

UNMATCHED = "unmatched"
"""The route label of requests whose path is none of ours."""


def template_of(path: str) -> str:
    """The route template of a path, for labels and logs: never the path itself."""
    if path in PAGES and "{" not in path:
        return path
    name = path.removeprefix("/fingerprint/")
    return "/fingerprint/{name}" if name and name != path and "/" not in name else UNMATCHED


def json_response(
    body: bytes, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """A response of bytes that are JSON already."""
    return Response(body, media_type=MediaType.JSON, status_code=status, headers=headers)


def with_etag(request: Request[Any, Any, Any], body: bytes) -> Response[bytes]:
    """`body` with an ETag, or 304 when the caller has it (RFC 9110, section 13.1.2)."""
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    headers = {"etag": etag, "cache-control": "no-cache"}
    known = {
        candidate.strip().removeprefix("W/")
        for candidate in request.headers.get("if-none-match", "").split(",")
    }
    if known & {etag, "*"}:
        return Response(b"", status_code=304, headers=headers)
    return json_response(body, headers=headers)


def status_pages(
    metrics: Metrics, lifecycle: Lifecycle, openapi: Callable[[], bytes]
) -> list[HTTPRouteHandler]:
    """The handlers of the pages about the process. They answer at once under any load."""

    @route("/healthz", http_method=METHODS)
    async def healthz() -> Response[bytes]:
        return json_response(b'{"status":"ok"}')

    @route("/readyz", http_method=METHODS)
    async def readyz() -> Response[bytes]:
        if lifecycle.ready:
            return json_response(b'{"status":"ready"}')
        return json_response(
            b'{"status":"not ready"}',
            status=503,
            headers={"retry-after": str(RETRY_AFTER_SECONDS)},
        )

    @route("/metrics", http_method=METHODS)
    async def show_metrics() -> Response[bytes]:
        return Response(metrics.render(), media_type=METRICS_MEDIA_TYPE)

    @route("/openapi.json", http_method=METHODS)
    async def openapi_json() -> Response[bytes]:
        return json_response(openapi())

    return [healthz, readyz, show_metrics, openapi_json]


def catalog_pages(catalog: Catalog, engine: Engine) -> list[HTTPRouteHandler]:
    """The handlers of the pages about the tokenizers."""
    describe_once = functools.cache(describe)

    async def off_the_loop(answer: Callable[[], object]) -> bytes:
        # A description is computed when it is first asked for, up to 0.2 s a tokenizer.
        return await engine.run(lambda: msgspec.json.encode(answer()))

    @route("/tokenizers", http_method=METHODS)
    async def tokenizers() -> Response[bytes]:
        return json_response(await off_the_loop(lambda: list_catalog(catalog)))

    @route("/fingerprint", http_method=METHODS)
    async def fingerprints(request: Request[Any, Any, Any]) -> Response[bytes]:
        return with_etag(
            request,
            await off_the_loop(
                lambda: Descriptions(fingerprints=[describe_once(entry) for entry in catalog])
            ),
        )

    @route("/fingerprint/{name:str}", http_method=METHODS)
    async def fingerprint(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
        entry = catalog.resolve(name)
        return with_etag(request, await off_the_loop(lambda: describe_once(entry)))

    return [tokenizers, fingerprints, fingerprint]
