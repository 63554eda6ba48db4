"""Fixtures of the tests with processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.locks import LockedFolder
from tests.server.watching import TOKENIZER

if TYPE_CHECKING:
    import pathlib


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """One small embedded artifact alone, so that a start costs little."""
    folder = LockedFolder(tmp_path_factory.mktemp("small") / "artifacts")
    folder.add_embedded(TOKENIZER)
    return folder.root
