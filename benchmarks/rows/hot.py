"""Rows 1, 2, 3, 4, 9 and 13: requests a second against what a person would use instead."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks import qwen3, subjects, texts
from benchmarks.client import is_fast
from benchmarks.goals import FORMATS_OF_MIXED, goal, goals_of
from benchmarks.measure import compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.measure import Outcome
    from benchmarks.servers import Running

_SMALL, _SMALL_NUMBER = 160, 64
_SIZES = {"200 B": (200, 64), "2 KB": (2_000, 64), "50 KB": (50_000, 16)}
"""Bytes of a text, and how many different ones take turns."""
_LONG = "50 KB"
_MIXED_CONNECTIONS = 16
"""Enough to keep a server busy that has no threads to lose time between."""


def row_1(bench: Bench) -> Iterator[Outcome]:
    load = bench.load("/count", texts.single("cl100k_base", texts.english(_SMALL, _SMALL_NUMBER)))
    for part, workers in (("one worker", 1), ("two workers on the core", 2)):
        raced = bench.race(
            {
                "service": (subjects.service(workers=workers), load),
                "bare ASGI": (subjects.bare(["cl100k_base"], workers=workers), load),
            }
        )
        yield compared(goal(1, part), raced["service"], raced["bare ASGI"])


def row_2(bench: Bench) -> Iterator[Outcome]:
    bodies = texts.single("cl100k_base", texts.english(_SMALL, _SMALL_NUMBER))
    load, in_thread = bench.load("/count", bodies), bench.load("/sync/count", bodies)
    contenders = {
        "service": (subjects.service(), load),
        "Litestar handler": (subjects.litestar(), load),
        "FastAPI async": (subjects.fastapi_tiktoken("/count"), load),
        "FastAPI def": (subjects.fastapi_tiktoken("/sync/count"), in_thread),
    }
    raced = bench.race(contenders)
    for wanted in goals_of(2):
        yield compared(wanted, raced["service"], raced[wanted.part])


def row_3(bench: Bench) -> Iterator[Outcome]:
    for wanted in goals_of(3):
        size, tokenizer = wanted.part.split(", ")
        text_bytes, number = _SIZES[size]
        bodies = texts.single(tokenizer, texts.english(text_bytes, number))
        load, in_thread = (
            bench.load(path, bodies, long=size == _LONG) for path in ("/count", "/sync/count")
        )
        contenders = {
            "service": (subjects.service(), load),
            "FastAPI def": (subjects.fastapi_tiktoken("/sync/count"), in_thread),
        }
        raced = bench.race(contenders)
        yield compared(
            wanted,
            raced["service"],
            raced["FastAPI def"],
            scale=text_bytes / 1e6,
            unit=" MB/s",
        )


def row_4(bench: Bench) -> Iterator[Outcome]:
    load = bench.load("/count", texts.single("gpt2", texts.english(*_SIZES[_LONG])), long=True)
    file = subjects.artifact_file("gpt2", "tokenizer.json")
    contenders = {
        "service": (subjects.service(), load),
        "FastAPI def": (subjects.fastapi_tokenizers(file), load),
    }
    raced = bench.race(contenders)
    found = compared(goal(4, _LONG), raced["service"], raced["FastAPI def"])
    yield _with_engine(found, bench.fleet.get(subjects.service()), "gpt2")


def row_9(bench: Bench) -> Iterator[Outcome]:
    reference = subjects.bare_reference(FORMATS_OF_MIXED)
    for name in FORMATS_OF_MIXED:
        bodies = texts.single(name, texts.mixed(*_SIZES[_LONG]))
        load = bench.load("/count", bodies, _MIXED_CONNECTIONS, long=True)
        contenders = {"service": (subjects.service(), load), "reference": (reference, load)}
        raced = bench.race(contenders)
        yield compared(goal(9, name), raced["service"], raced["reference"])


def row_13(bench: Bench) -> Iterator[Outcome]:
    artifacts = qwen3.artifacts(certify=bench.plan.certifies)
    service = subjects.service(artifacts)
    for wanted in goals_of(13):
        bodies = texts.single(qwen3.NAME, texts.english(*_SIZES[wanted.part]))
        load = bench.load("/encode", bodies, long=wanted.part == _LONG)
        contenders = {
            "service": (service, load),
            "FastAPI def": (subjects.fastapi_tokenizers(artifacts / qwen3.FILE), load),
        }
        raced = bench.race(contenders)
        found = compared(wanted, raced["service"], raced["FastAPI def"], by="cpu_us")
        yield _with_engine(found, bench.fleet.get(service), qwen3.NAME)


def _with_engine(found: Outcome, service: Running, tokenizer: str) -> Outcome:
    """The outcome, saying which engine gave the service's ids."""
    engine = "fast engine" if is_fast(service, tokenizer) else "reference engine"
    return dataclasses.replace(found, service=f"{found.service}, {engine}")
