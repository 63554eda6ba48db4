"""Reading an artifact's files: the only opener of them, and no byte leaves it unchecked."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from service.errors import ArtifactError

if TYPE_CHECKING:
    from pathlib import Path

    from service.catalog.lock import LockedArtifact, LockedFile


def read_verified(root: Path, artifact: LockedArtifact) -> dict[str, bytes]:
    """The bytes of an artifact's files by role.

    Each file is opened once; size and SHA-256 are checked on the bytes that were read.
    Raises ArtifactError naming file, expected and found.
    """
    return {file.role: _read(root, artifact.name, file) for file in artifact.file}


def _read(root: Path, artifact: str, file: LockedFile) -> bytes:
    path = root / file.path
    try:
        if not path.resolve(strict=True).is_relative_to(root.resolve()):
            raise ArtifactError(artifact, "a symbolic link leaves the folder", file=file.path)
        # O_NONBLOCK: opening a FIFO must not wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ArtifactError(artifact, "expected a regular file", file=file.path)
            if found.st_size != file.bytes:
                raise _differs(artifact, file, f"{file.bytes} bytes", f"{found.st_size} bytes")
            data = stream.read(file.bytes + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        reason = getattr(error, "strerror", None) or "a symbolic link leads to itself"
        raise ArtifactError(artifact, f"can't read it: {reason}", file=file.path) from None
    if len(data) != file.bytes:
        raise _differs(artifact, file, f"{file.bytes} bytes", f"{len(data)} bytes or more")
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != file.sha256:
        raise _differs(artifact, file, f"sha256 {file.sha256}", f"sha256 {sha256}")
    return data


def _differs(artifact: str, file: LockedFile, expected: str, found: str) -> ArtifactError:
    return ArtifactError(artifact, f"expected {expected}, found {found}", file=file.path)
