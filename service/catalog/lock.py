"""artifacts.lock: which artifacts there are, and the hash of every byte of them."""

from __future__ import annotations

import tomllib
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from service.errors import ArtifactError

LOCK_NAME = "artifacts.lock"

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Digest = Annotated[str, msgspec.Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Role = Literal["ranks", "tokenizer", "model", "vocab", "merges", "config", "chat_template"]


class _Locked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A misspelt key of the lock must not silently mean the default."""


class LockedFile(_Locked, frozen=True, kw_only=True):
    """One file of an artifact: where it is, relative to the lock, and what it must be."""

    role: Role
    path: Annotated[str, msgspec.Meta(min_length=1)]
    sha256: Sha256
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class LockedArtifact(_Locked, frozen=True, kw_only=True):
    """One artifact as the lock pins it."""

    name: Name
    format: str
    license: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]
    aliases: list[Name] = []
    fingerprint: Digest | None = None
    probes: Digest | None = None
    options: dict[str, Any] = {}
    file: Annotated[list[LockedFile], msgspec.Meta(min_length=1)]


class _Lock(_Locked, frozen=True, kw_only=True):
    version: Literal[1]
    artifact: Annotated[list[LockedArtifact], msgspec.Meta(min_length=1)]


def read_lock(root: Path) -> list[LockedArtifact]:
    """The artifacts that the lock in `root` pins, in its order.

    Raises ArtifactError for a lock that is missing or malformed, a name or alias that stands
    twice, a role that stands twice in an artifact, and a path that leaves `root` by its spelling.
    """
    try:
        data = (root / LOCK_NAME).read_bytes()
    except OSError as error:
        raise ArtifactError(
            "(all)", f"can't read the lock: {error.strerror}", file=LOCK_NAME
        ) from None
    return parse_lock(data)


def parse_lock(data: bytes) -> list[LockedArtifact]:
    """As read_lock, from the lock's bytes."""
    try:
        lock = msgspec.convert(tomllib.loads(data.decode()), _Lock)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        # ValueError: bytes that are not UTF-8, what is no TOML, a number of too many digits.
        raise ArtifactError("(all)", f"malformed lock: {error}", file=LOCK_NAME) from None
    taken: set[str] = set()
    for artifact in lock.artifact:
        for name in (artifact.name, *artifact.aliases):
            if name in taken:
                raise ArtifactError(artifact.name, f"the name or alias {name!r} stands twice")
            taken.add(name)
        roles = [file.role for file in artifact.file]
        if len(set(roles)) != len(roles):
            raise ArtifactError(artifact.name, "two files have one role")
        for file in artifact.file:
            _check_path(artifact.name, file.path)
    return lock.artifact


def _check_path(artifact: str, path: str) -> None:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or "\0" in path:
        raise ArtifactError(artifact, "the path must be relative and stay in the folder", file=path)
