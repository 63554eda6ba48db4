"""An engine in process, with nothing around it: calls it for some seconds and prints how often.

    python raw_engine.py tiktoken|fastokens count|encode ENCODING BODIES SECONDS

BODIES is a file of load.lua; its texts take turns. Prints calls, seconds and seconds of CPU.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from rank_files import encoding

if TYPE_CHECKING:
    from collections.abc import Callable

_ARTIFACTS = Path(__file__).resolve().parent.parent / "artifacts"


def tiktoken_call(kind: str, name: str) -> Callable[[str], Any]:
    whole = encoding(name)
    if kind == "encode":
        return whole.encode_ordinary
    # What Encoding.encode_to_numpy wraps.
    to_buffer = whole._core_bpe.encode_to_tiktoken_buffer  # noqa: SLF001
    return lambda text: memoryview(to_buffer(text, set())).nbytes // 4


def fastokens_call(kind: str, name: str) -> Callable[[str], Any]:
    import fastokens  # noqa: PLC0415 - not installed everywhere

    path = _ARTIFACTS / name / f"{name}.tiktoken"
    whole = fastokens.Tokenizer.from_tiktoken(str(path), encoding=name)
    if kind == "encode":
        return lambda text: whole.encode_ordinary(text).ids
    return lambda text: len(whole.encode_batch_flat([text])[0]) // 4


def main() -> None:
    library, kind, name, bodies, seconds = sys.argv[1:]
    call = {"tiktoken": tiktoken_call, "fastokens": fastokens_call}[library](kind, name)
    lines = Path(bodies).read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    for text in texts:
        call(text)
    calls, cpu, started = 0, time.process_time(), time.perf_counter()
    for text in itertools.cycle(texts):
        call(text)
        calls += 1
        wall = time.perf_counter() - started
        if wall >= float(seconds):
            break
    print(calls, wall, time.process_time() - cpu)


if __name__ == "__main__":
    main()
