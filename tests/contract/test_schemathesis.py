"""Random requests made of the OpenAPI document: good ones, bad ones, and the edges between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from service.settings import Settings
from tests.contract.generated import new_schema, real_name, sensible, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    import schemathesis

    from service.catalog.catalog import Catalog

schema = new_schema()


@pytest.fixture(scope="module")
def app(catalog: Catalog) -> Iterator[Any]:
    """An application with limits that random data can reach."""
    with started(catalog, Settings(max_batch_items=8, max_ids=8, max_text_bytes=64)) as app:
        yield app


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
