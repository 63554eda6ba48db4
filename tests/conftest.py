"""Fixtures that tests of several parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.api.app import create_app
from service.catalog.loading import load_catalog
from service.settings import Settings
from tests.asgi import AppClient
from tests.locks import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.catalog.catalog import Catalog
    from service.core.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The embedded artifacts, loaded."""
    return load_catalog(EMBEDDED)


@pytest.fixture(scope="session")
def tokenizer_of(catalog: Catalog) -> Callable[[str], Tokenizer]:
    """The tokenizer of an embedded artifact, by its name."""
    return lambda name: catalog.resolve(name).tokenizer


@pytest.fixture(scope="session")
def client(catalog: Catalog) -> Iterator[AppClient]:
    """A client of the application over the embedded artifacts, with the default settings."""
    with AppClient(create_app(Settings(), catalog)) as started:
        yield started
