"""The servers that are compared: the service, and what a person would use instead."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import CannotRunError
from benchmarks.servers import HOST, ROOT, Spec

if TYPE_CHECKING:
    from collections.abc import Sequence

_APPS = str(Path(__file__).resolve().parent / "peers")
_UVICORN = (
    *("-m", "uvicorn", "--app-dir", _APPS, "--host", HOST, "--port", "{port}"),
    *("--loop", "uvloop", "--http", "httptools", "--ws", "none", "--log-level", "warning"),
    *("--no-access-log", "--no-proxy-headers", "--no-server-header"),
)
"""As the service runs it, so that what is left of a difference is not the server's."""


def cache() -> Path:
    """Where the benchmark keeps what takes long to get."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tokenizer-service-bench"


def peers_python() -> Path:
    """The Python of the environment that peers.sh makes."""
    return cache() / "peers" / "bin" / "python"


def service(artifacts: Path | None = None, workers: int = 1) -> Spec:
    """This service, as `serve` starts it."""
    chosen = () if artifacts is None else ("--artifacts", str(artifacts))
    return Spec(
        f"service of {workers}",
        (
            *(sys.executable, "-m", "service", "serve", "--host", HOST, "--port", "{port}"),
            *("--workers", str(workers), *chosen),
        ),
        (("TOKENIZER_DRAIN_SECONDS", "0"), ("TOKENIZER_SHUTDOWN_SECONDS", "5")),
    )


def bare(names: Sequence[str] = (), *, workers: int = 1) -> Spec:
    """The ASGI app without a framework, with the service's own engines. No names: all artifacts."""
    return Spec(
        f"bare ASGI of {workers}",
        (sys.executable, *_UVICORN, "--workers", str(workers), "bare:app"),
        (("BENCH_ENGINE", "service"), ("BENCH_NAMES", ",".join(names))),
    )


def bare_reference(names: Sequence[str]) -> Spec:
    """The same with the reference libraries."""
    return Spec(
        "reference in bare ASGI",
        (sys.executable, *_UVICORN, "bare:app"),
        (("BENCH_ENGINE", "reference"), ("BENCH_NAMES", ",".join(names))),
    )


def floor(name: str) -> Spec:
    """The least that can answer large texts for one artifact."""
    return Spec("floor", (sys.executable, f"{_APPS}/floor.py", "{port}", name))


def litestar() -> Spec:
    """An idiomatic Litestar handler with tiktoken."""
    return Spec("Litestar", (sys.executable, *_UVICORN, "litestar_tiktoken:app"))


def fastapi_tiktoken(path: str) -> Spec:
    """FastAPI with tiktoken; one process for each of its two handlers."""
    handler = "async" if path == "/count" else "def"
    return Spec(f"FastAPI {handler}", (_needed_python(), *_UVICORN, "fastapi_tiktoken:app"))


def fastapi_tokenizers(file: Path) -> Spec:
    """FastAPI on `Tokenizer.encode` of a tokenizer.json."""
    return Spec(
        "FastAPI + tokenizers",
        (_needed_python(), *_UVICORN, "fastapi_tokenizers:app"),
        (("BENCH_TOKENIZER", str(file)),),
    )


def artifact_file(name: str, file: str) -> Path:
    """A file of an embedded artifact."""
    return ROOT / "artifacts" / name / file


def _needed_python() -> str:
    python = peers_python()
    if not python.exists():
        raise CannotRunError("the peers are not installed: run benchmarks/peers.sh")
    return str(python)
