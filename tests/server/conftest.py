"""Fixtures of the tests with processes, and with connections that have no network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.locks import LockedFolder
from tests.server.unplugged import connect
from tests.server.watching import TOKENIZER

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from service.catalog.catalog import Catalog
    from tests.server.unplugged import Connection


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """One small embedded artifact alone, so that a start costs little."""
    folder = LockedFolder(tmp_path_factory.mktemp("small") / "artifacts")
    folder.add_embedded(TOKENIZER)
    return folder.root


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """What runs the event loop of a connection without a network."""
    with asyncio.Runner() as started:
        yield started


@pytest.fixture
def connection(runner: asyncio.Runner, catalog: Catalog) -> Iterator[Connection]:
    """Such a connection, to the catalog of the module's own tests; lost when the test ends."""
    made = runner.run(connect(catalog))
    yield made
    made.lose()
    runner.run(made.turn())
