"""The artifact formats: one module each, found by scanning this package.

A module is a format when it has an attribute FORMAT. Names that begin with an underscore are
shared helpers. A new format is one new file here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.core.tokenizer import Tokenizer


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of each format's options: an option that the format does not know is an error."""

    unordered: ClassVar[frozenset[str]] = frozenset()
    """Lists of which the order means nothing."""

    def in_force(self) -> dict[str, Any]:
        """What the fingerprint covers: the options that differ from their defaults.

        Writing a default out, or a set in another order, changes nothing, and a format may gain
        an option without moving any fingerprint.
        """
        values: dict[str, Any] = msgspec.to_builtins(self)
        defaults = msgspec.structs.fields(self)
        return {
            field.name: sorted(values[field.name])
            if field.name in self.unordered
            else values[field.name]
            for field in defaults
            if getattr(self, field.name) != _default_of(field) and values[field.name] != _NOTHING
        }


_NOTHING: dict[str, list[str]] = {"before": [], "after": []}
"""A template that puts nothing around is none."""


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


class FormatError(Exception):
    """The bytes of an artifact can't be used; the message is one line without the artifact's name.

    `role` is that of the file at fault, when one is.
    """

    def __init__(self, reason: str, *, role: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.role = role


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """How to build one format's tokenizer from verified bytes."""

    name: str
    required_roles: frozenset[str]
    """Roles of files that an artifact of this format must have."""
    optional_roles: frozenset[str]
    options: type[Options]
    build: Callable[[Mapping[str, bytes], Options], Tokenizer]
    """(bytes by role, options) to a tokenizer. Raises FormatError."""


@functools.cache
def formats() -> Mapping[str, Format]:
    """Every format by its name. Raises RuntimeError when two modules claim one name."""
    found: dict[str, Format] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        artifact_format: Format = module.FORMAT
        if artifact_format.name in found:
            raise RuntimeError(f"two modules claim the format {artifact_format.name!r}")
        found[artifact_format.name] = artifact_format
    return found
