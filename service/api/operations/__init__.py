"""The operations: one module each, found by scanning this package.

An operation module has an attribute OPERATION. It says what a request and its answers look like
and holds the function that turns one into the other; it knows no HTTP. A new operation is one
new file here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import time
from typing import TYPE_CHECKING

from service.core.faults import is_fault
from service.errors import EngineFailure, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec
    from msgspec import UnsetType

    from service.api.structs import Request
    from service.catalog.catalog import Catalog, Entry
    from service.settings import Settings


@dataclasses.dataclass(slots=True)
class Use:
    """What one request did with one tokenizer, for the metrics. Holds numbers, never text."""

    tokenizer: str
    engine_seconds: float = 0.0
    tokens: int = 0
    text_bytes: int = 0
    special_spellings: dict[str, int] = dataclasses.field(default_factory=dict)
    """Control spellings seen in texts, by the policy under which they were read."""
    unknown_tokens: int = 0
    replacements: int = 0
    tokens_per_byte: list[float] = dataclasses.field(default_factory=list)
    """One number a text: content ids over bytes; none for an empty text."""


@dataclasses.dataclass(slots=True)
class Call:
    """What an operation may look at beside its request, and where it notes what it did."""

    catalog: Catalog
    limits: Settings
    uses: list[Use] = dataclasses.field(default_factory=list)

    def entry(self, name: str, expected: str | UnsetType) -> Entry:
        """The tokenizer that a request names, if it is the one that it expects.

        Raises UnknownTokenizer and FingerprintMismatch.
        """
        entry = self.catalog.resolve(name)
        entry.expect(expected or None)
        return entry

    def use(self, entry: Entry) -> Use:
        """Begin to note the work done with a tokenizer."""
        use = Use(entry.name)
        self.uses.append(use)
        return use


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One POST route."""

    name: str
    summary: str
    request: type[Request]
    responses: tuple[type[msgspec.Struct], ...]
    """The shapes that an answer can have."""
    parts: tuple[type[msgspec.Struct], ...]
    """The shapes of which answers are made and that no field's type names."""
    run: Callable[..., msgspec.Struct]
    """(request, call) to an answer. Raises RequestError."""
    codes: tuple[str, ...]
    """The error codes of this route beside those that every POST route has."""
    costs: int
    """How many times fewer bytes of a body may be worked on in the event loop than of a plain
    request: as many as the worst texts take longer, with all that can be asked. At 1,024, none."""

    @property
    def path(self) -> str:
        """The route."""
        return f"/{self.name}"


@functools.cache
def operations() -> Mapping[str, Operation]:
    """Every operation by its path. Raises RuntimeError when two modules claim one path."""
    found: dict[str, Operation] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        operation: Operation = module.OPERATION
        if operation.path in found:
            raise RuntimeError(f"two modules claim the route {operation.path}")
        found[operation.path] = operation
    return found


def as_request_error(error: BaseException) -> RequestError:
    """What a caller is told of an exception that a tokenizer raised.

    A RequestError as it is, any other failure of the library as EngineFailure. What is no
    failure (a cancellation, an exit) is raised again.
    """
    if isinstance(error, RequestError):
        return error
    if is_fault(error):
        return EngineFailure()
    raise error


clock = time.perf_counter
"""The clock of engine times, in seconds."""
