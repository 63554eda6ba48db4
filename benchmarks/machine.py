"""The machine and the versions that figures were measured with, and its two cores."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_LIBRARIES = (
    "litestar",
    "msgspec",
    "uvicorn",
    "uvloop",
    "httptools",
    "tiktoken",
    "tokenizers",
    "sentencepiece",
    "fastokens",
)
_OF_PEERS = ("fastapi", "starlette", "pydantic", "uvicorn", "tiktoken", "tokenizers")


@dataclasses.dataclass(frozen=True)
class Cores:
    """One core for the server that is measured, another for everything else."""

    server: int
    load: int


def two_cores() -> Cores | None:
    """The cores to use, or None where this process may use only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[1]) if len(allowed) > 1 else None


def described(peers_python: Path) -> list[str]:
    """Lines that say when, where and with what was measured."""
    now = dt.datetime.now(tz=dt.UTC)
    where = (
        f"{now:%Y-%m-%d %H:%M} UTC; {_processor()}, {os.cpu_count()} cores; "
        f"{platform.system()} {platform.release()}; load average {os.getloadavg()[0]:.1f}."
    )
    return [
        where,
        f"CPython {platform.python_version()}; {_installed()}.",
        f"Peers: {_installed_beside(peers_python)}.",
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _installed() -> str:
    versions = []
    for library in _LIBRARIES:
        try:
            versions.append(f"{library} {importlib.metadata.version(library)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)


def _installed_beside(python: Path) -> str:
    script = (
        "import importlib.metadata as m, sys\n"
        "print(', '.join(f'{name} {m.version(name)}' for name in sys.argv[1:]))"
    )
    try:
        asked = subprocess.run(
            [str(python), "-c", script, *_OF_PEERS],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "not installed"
    return asked.stdout.strip()
