"""The application: Litestar for the pages, the door for the operations, one shape of error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Response
from litestar.exceptions import HTTPException

from service.api.door import Door, send_problem
from service.api.engine import Engine
from service.api.exchange import NOT_STORED, Exchange
from service.api.keys import OPEN_PATHS, ApiKeys
from service.api.lifecycle import Lifecycle
from service.api.openapi import openapi_document
from service.api.operations import operations
from service.api.pages import (
    METHODS,
    PAGES,
    UNMATCHED,
    catalog_pages,
    status_pages,
    template_of,
)
from service.api.plain import short_ways
from service.api.problems import MEDIA_TYPE, STATUS_OF_CODE, problem_body, problem_headers
from service.api.quick import Quick
from service.catalog.catalog import library_version
from service.core.policy import SpecialPolicy
from service.engines.fast import Difference, FastTokenizer
from service.errors import Internal, MethodNotAllowed, NotFound, RequestError, Unauthorized
from service.log import logger
from service.metrics import Labels, Metrics

if TYPE_CHECKING:
    from litestar import Request

    from service.catalog.catalog import Catalog
    from service.settings import Settings

_EXCHANGE = "exchange"
"""Key of the scope's state under which Litestar's error handler finds the request's exchange."""


def metrics_for(catalog: Catalog, *, slabs: int = 1) -> Metrics:
    """The series for a catalog, with room for `slabs` workers."""
    artifacts = [(entry.name, entry.artifact.format, entry.fingerprint) for entry in catalog]
    libraries = sorted({entry.tokenizer.facts.library for entry in catalog})
    return Metrics(
        Labels(
            routes=[*operations(), *PAGES, UNMATCHED],
            operations=[operation.name for operation in operations().values()],
            policies=[policy.value for policy in SpecialPolicy],
            reasons=sorted(STATUS_OF_CODE),
            artifacts=artifacts,
            engines=[(library, library_version(library)) for library in libraries],
            engine_states=[(entry.name, entry.engine_state) for entry in catalog],
        ),
        slabs=slabs,
    )


class Application:
    """The ASGI application of one process."""

    def __init__(
        self, settings: Settings, catalog: Catalog, metrics: Metrics, keys: ApiKeys | None
    ) -> None:
        self.lifecycle = Lifecycle()
        self.keys = keys
        self.engine = Engine(settings, metrics)
        self._settings = settings
        self._metrics = metrics
        for entry in catalog:
            if isinstance(entry.tokenizer, FastTokenizer):
                entry.tokenizer.on_difference = self._note_difference
        names = (operation.name for operation in operations().values())
        ways = short_ways(names, catalog, settings, metrics)
        self.quick = Quick(ways, settings, metrics, self.lifecycle, keys=keys, engine=self.engine)
        self._door = Door(catalog, settings, metrics, self.lifecycle, self.engine, ways=ways)
        self._litestar = Litestar(
            route_handlers=[
                *status_pages(metrics, self.lifecycle, openapi_document),
                *catalog_pages(catalog, self.engine),
            ],
            exception_handlers={
                RequestError: _request_error,
                HTTPException: _litestar_error,
                Exception: _internal_error,
            },
            openapi_config=None,
            logging_config=None,
            debug=False,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Serve one connection's scope (ASGI)."""
        if scope["type"] == "http":
            if self.keys is not None and scope["path"] not in OPEN_PATHS:
                try:
                    self.keys.check(dict(scope["headers"]).get(b"authorization", b""))
                except Unauthorized as error:
                    await send_problem(send, self._exchange(scope), error)
                    return
            if self._door.leads_to(scope["path"]):
                await self._door(scope, receive, send)
            else:
                await self._page(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def _note_difference(self, difference: Difference) -> None:
        """Nobody is given wrong ids, but somebody should know: worth an alert."""
        self._metrics.count_difference(difference.tokenizer)
        logger.error("the fast engine gave other ids", extra={"fields": difference._asdict()})

    async def _lifespan(self, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        await receive()
        self.lifecycle.ready = True
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.lifecycle.ready = False
        self.engine.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _exchange(self, scope: Any) -> Exchange:  # noqa: ANN401 - ASGI
        path = scope["path"]
        route = path if self._door.leads_to(path) else template_of(path)
        return Exchange(scope, route, self._metrics, self._settings)

    async def _page(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        exchange = self._exchange(scope)
        scope.setdefault("state", {})[_EXCHANGE] = exchange
        status = 499

        async def send_with_id(message: Any) -> None:  # noqa: ANN401 - ASGI
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], (b"x-request-id", exchange.request_id)]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(NOT_STORED)
                message = {**message, "headers": headers}
            await send(message)

        if exchange.route == UNMATCHED:
            await send_problem(send, exchange, NotFound())
            return
        try:
            await self._litestar(scope, receive, send_with_id)
        finally:
            exchange.finish(status)


def create_app(settings: Settings, catalog: Catalog, metrics: Metrics | None = None) -> Application:
    """The application over a loaded catalog; several workers share one `metrics`.

    Raises SettingsError for a file of API keys that can't be used.
    """
    keys = ApiKeys(Path(settings.api_keys_file)) if settings.api_keys_file else None
    return Application(settings, catalog, metrics or metrics_for(catalog), keys)


def _problem(request: Request[Any, Any, Any], error: RequestError) -> Response[bytes]:
    exchange: Exchange = request.scope["state"][_EXCHANGE]
    exchange.error = error
    return Response(
        problem_body(error, exchange.request_id.decode()),
        media_type=MEDIA_TYPE,
        status_code=STATUS_OF_CODE[error.code],
        headers={name.decode(): value.decode() for name, value in problem_headers(error)},
    )


def _request_error(request: Request[Any, Any, Any], error: RequestError) -> Response[bytes]:
    return _problem(request, error)


def _litestar_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Litestar's own verdicts on a page: there are only a wrong method and a wrong path."""
    method_not_allowed = 405
    if error.status_code == method_not_allowed:
        return _problem(request, MethodNotAllowed((*METHODS, "OPTIONS")))
    if error.status_code >= STATUS_OF_CODE["internal"]:
        return _internal_error(request, error)
    return _problem(request, NotFound())


def _internal_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    logger.error("internal error", exc_info=error)
    return _problem(request, Internal())
