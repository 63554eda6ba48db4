"""numpy, imported once its environment is set: it reads that when it is imported."""

from __future__ import annotations

from service.settings import prepare_libraries

prepare_libraries()

import numpy as np  # noqa: E402 - the reason is said above

__all__ = ["np"]
