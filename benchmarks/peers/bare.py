"""The least that can serve /count and /encode: one ASGI function, msgspec and an engine.

No limits, metrics, ids of requests, or answers to what is wrong; everything is worked on at once
in the event loop. BENCH_ENGINE is `service` (the engines that the service itself uses) or
`reference` (the libraries alone). BENCH_NAMES are the artifacts; none means all embedded ones.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from service.catalog.certificates import read_certificates
from service.catalog.loading import load_entry
from service.catalog.lock import read_lock
from service.settings import prepare_libraries

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "scripts"))

from reference import NOTHING, reference  # noqa: E402 - found by the line above

_Encode = Callable[[str], list[int]]
_Count = Callable[[str], int]


class Request(msgspec.Struct, forbid_unknown_fields=True):
    tokenizer: str
    text: str


class Counted(msgspec.Struct):
    count: int


class Encoded(msgspec.Struct):
    ids: list[int]
    count: int


def engines(kind: str, names: list[str]) -> dict[str, tuple[_Encode, _Count]]:
    """Tokenizer to what encodes and what counts."""
    prepare_libraries()
    if kind == "reference":
        return {name: _of_library(name) for name in names}
    root = _ROOT / "artifacts"
    certificates = read_certificates(root)
    entries = [
        load_entry(root, artifact, certificates)
        for artifact in read_lock(root)
        if not names or artifact.name in names
    ]
    return {entry.name: (entry.tokenizer.encode, entry.tokenizer.count) for entry in entries}


def _of_library(name: str) -> tuple[_Encode, _Count]:
    encode = functools.partial(reference(name).encode, allowed=NOTHING)
    return encode, lambda text: len(encode(text))


ENGINES = engines(
    os.environ.get("BENCH_ENGINE", "service"),
    [name for name in os.environ.get("BENCH_NAMES", "").split(",") if name],
)
_read = msgspec.json.Decoder(Request).decode
_write = msgspec.json.Encoder().encode

gc.collect()
gc.freeze()  # as the service does


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        await _lifespan(receive, send)
        return
    message = await receive()
    body = message.get("body", b"")
    if message.get("more_body", False):
        parts = [body]
        while message.get("more_body", False):
            message = await receive()
            parts.append(message.get("body", b""))
        body = b"".join(parts)
    if scope["path"] == "/count":
        request = _read(body)
        answer = _write(Counted(ENGINES[request.tokenizer][1](request.text)))
    elif scope["path"] == "/encode":
        request = _read(body)
        ids = ENGINES[request.tokenizer][0](request.text)
        answer = _write(Encoded(ids, len(ids)))
    else:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _lifespan(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
