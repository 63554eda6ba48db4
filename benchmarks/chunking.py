"""Measure cutting a text into chunks beside the splitters that people use, in process.

python benchmarks/chunking.py            print the table
python benchmarks/chunking.py --write    and put it into docs/performance.md

benchmarks/peers.sh makes the environment of the others; BENCH_PEERS_PYTHON names another Python.
Each round takes every splitter once, one pass of encoding among them; figures are medians of CPU
time, so that a machine that has other work does not matter much.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from pydoc_data import topics
from typing import TYPE_CHECKING, Any, Self

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from golden_texts import TEXTS  # noqa: E402 - found by the line above

from benchmarks import machine, subjects  # noqa: E402
from service.api.operations import Call  # noqa: E402
from service.api.operations.chunk import ChunkRequest, chunk  # noqa: E402
from service.catalog.loading import load_catalog  # noqa: E402
from service.core.budget import BudgetedText, Plan  # noqa: E402
from service.settings import Settings  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from service.catalog.catalog import Catalog
    from service.core.tokenizer import Tokenizer

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- table of benchmarks/chunking.py: begin -->"
FINISH = "<!-- table of benchmarks/chunking.py: end -->"

TOKENIZER = "cl100k_base"
BUDGETS = (512, 64)
SIZE = 1024 * 1024
MEGABYTE = 1_000_000
_PEERS = ("chonkie", "langchain-text-splitters", "llama-index-core", "semchunk")
_PEERS += ("semantic-text-splitter", "tiktoken")

ENCODING = "one pass of encoding, reference engine"


def english() -> str:
    """Python's documentation with its lines and paragraphs, ASCII, begun again where it ends."""
    whole = "\n\n".join(topics.topics[name] for name in sorted(topics.topics))
    whole = whole.encode("ascii", "ignore").decode()
    return (whole * (SIZE // len(whole) + 1))[:SIZE]


def mixed() -> str:
    """The prose of scripts/golden_texts.py, some thirty languages, its sentences shuffled."""
    prose = [text for name, text in TEXTS.items() if name.startswith("prose-")]
    sentences = [
        sentence
        for text in prose
        for sentence in re.findall(r"[^.!?\u3002\u0964]+[.!?\u3002\u0964]*\s*", text)
    ]
    chance = random.Random(0)
    paragraphs: list[str] = []
    size = 0
    while size < SIZE:
        picked = [
            sentence.strip() for sentence in chance.choices(sentences, k=chance.randint(2, 7))
        ]
        paragraphs.append(" ".join(picked) + chance.choice(("\n", "\n\n")))
        size += len(paragraphs[-1].encode())
    return "".join(paragraphs).encode()[:SIZE].decode(errors="ignore")


@dataclasses.dataclass
class Row:
    """One splitter on one text with one budget."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    chunks: list[str] | None = None
    reason: str = ""


class Peers:
    """The other splitters, in a process of their own."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "peers.log").open("wb")
        script = Path(__file__).parent / "peers" / "splitters.py"
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
        )
        self.splitters: list[str] = self._read()["splitters"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peers' process ended: run benchmarks/peers.sh first")
        found: dict[str, Any] = json.loads(line)
        return found

    def take(self, row: Row, splitter: str, file: Path, max_tokens: int) -> None:
        """Time it once; keep the chunks of the first time."""
        chunks = self._folder / "chunks.json" if row.chunks is None else None
        question = {
            "splitter": splitter,
            "file": str(file),
            "max_tokens": max_tokens,
            "chunks": chunks and str(chunks),
        }
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if "reason" in answer:
            row.reason = answer["reason"]
            return
        row.seconds.append(answer["seconds"])
        if chunks is not None:
            row.chunks = json.loads(chunks.read_text(encoding="utf-8"))


def reference(catalog: Catalog) -> Tokenizer:
    """The reference library's tokenizer, from behind the fast engine where there is one."""
    tokenizer: Tokenizer = catalog.resolve(TOKENIZER).tokenizer
    behind: Tokenizer = getattr(tokenizer, "reference", tokenizer)
    return behind


def ours(catalog: Catalog, max_tokens: int) -> dict[str, Callable[[str], list[str]]]:
    """What the service does without HTTP: with the reference engine, then as it is served."""
    tokenizer = reference(catalog)

    def count(text: str) -> int:
        return len(tokenizer.encode(text))

    def encoding(text: str) -> list[str]:
        count(text)
        return []

    def through_core(text: str, *, auto: bool) -> list[str]:
        search = BudgetedText(text, tokenizer.align(text, ()), count, max_tokens)
        plan = Plan(budget=max_tokens, overlap=0, by_meaning=auto, max_chunks=10**9)
        return [text[start:end] for start, end, _ in search.chunks(plan)]

    def through_operation(text: str) -> list[str]:
        request = ChunkRequest(tokenizer=TOKENIZER, text=text, max_tokens=max_tokens)
        answer: Any = chunk(request, Call(catalog, Settings()))
        return [part.text for part in answer.chunks]

    return {
        ENCODING: encoding,
        "service, `token`, reference engine": lambda text: through_core(text, auto=False),
        "service, `auto`, reference engine": lambda text: through_core(text, auto=True),
        "service, `auto`, all of /chunk but HTTP, as served": through_operation,
    }


def timed(row: Row, split: Callable[[str], list[str]], text: str) -> None:
    started = time.process_time()
    chunks = split(text)
    row.seconds.append(time.process_time() - started)
    row.chunks = row.chunks or chunks


def measured(
    catalog: Catalog, peers: Peers, texts: dict[str, Path], rounds: int
) -> dict[tuple[int, str, str], Row]:
    """Rows by budget, splitter and text; one round more than is counted, to warm up."""
    rows: dict[tuple[int, str, str], Row] = {}
    for max_tokens in BUDGETS:
        own = ours(catalog, max_tokens)
        for number in range(rounds + 1):
            for name, file in texts.items():
                text = file.read_bytes().decode()
                for splitter, split in own.items():
                    timed(rows.setdefault((max_tokens, splitter, name), Row()), split, text)
                for splitter in peers.splitters:
                    row = rows.setdefault((max_tokens, splitter, name), Row())
                    if not row.reason:
                        peers.take(row, splitter, file, max_tokens)
            print(f"{max_tokens} tokens, round {number} of {rounds}", file=sys.stderr, flush=True)
    for row in rows.values():
        del row.seconds[:1]
    return rows


def cells(row: Row, text: str, encode: Row, count: Callable[[str], int], limit: int) -> list[str]:
    """MB/s, ratio to encoding, over budget, joined, chunks with U+FFFD."""
    if row.reason:
        return [f"not run: {row.reason}", "", "", "", ""]
    seconds = statistics.median(row.seconds)
    speed = f"{len(text.encode()) / MEGABYTE / seconds:.1f}"
    ratio = statistics.median(
        one / other for one, other in zip(row.seconds, encode.seconds, strict=True)
    )
    if not row.chunks:
        return [speed, f"{ratio:.2f}", "", "", ""]
    over = sum(count(part) > limit for part in row.chunks)
    broken = sum("\ufffd" in part for part in row.chunks)
    joined = "yes" if "".join(row.chunks) == text else "no"
    number = len(row.chunks)
    return [speed, f"{ratio:.2f}", f"{over} of {number}", joined, str(broken)]


def rendered(
    catalog: Catalog, rows: dict[tuple[int, str, str], Row], texts: dict[str, Path], rounds: int
) -> Iterator[str]:
    """The table as Markdown, a line each; each cell is English / mixed scripts."""
    tokenizer = reference(catalog)
    sources = {name: file.read_bytes().decode() for name, file in texts.items()}
    yield f"Cells are {' / '.join(texts)}, 1 MiB each; medians of {rounds} rounds, by CPU time."
    for max_tokens in BUDGETS:
        yield from ("", f"At {max_tokens} tokens:", "")
        yield (
            "| splitter | MB/s | times one pass of encoding | over budget when counted again "
            "| joined = source | chunks with U+FFFD |"
        )
        yield "| --- | --- | --- | --- | --- | --- |"
        for splitter in dict.fromkeys(splitter for _, splitter, _ in rows):
            of_texts = [
                cells(
                    rows[max_tokens, splitter, name],
                    text,
                    rows[max_tokens, ENCODING, name],
                    lambda part: len(tokenizer.encode(part)),
                    max_tokens,
                )
                for name, text in sources.items()
            ]
            both = [
                " / ".join(dict.fromkeys(pair)) if pair[0] == pair[1] else " / ".join(pair)
                for pair in zip(*of_texts, strict=True)
            ]
            yield f"| {splitter} | {' | '.join(both)} |"


def facts(python: Path) -> list[str]:
    """When, where, with which versions."""
    script = "import importlib.metadata as m, sys\nfor n in sys.argv[1:]: print(n, m.version(n))"
    asked = subprocess.run(
        [str(python), "-c", script, *_PEERS], capture_output=True, text=True, check=True
    )
    described = machine.described(python)
    return [*described[:2], f"Splitters: {', '.join(asked.stdout.splitlines())}.", ""]


def write(lines: Sequence[str]) -> None:
    """Put the table between its markers in the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, finish, after = rest.partition(FINISH)
    if not begin or not finish:
        raise SystemExit(f"{PAGE.name} lacks {BEGIN} and {FINISH}")
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{FINISH}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print and, if asked, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    python = Path(os.environ.get("BENCH_PEERS_PYTHON") or subjects.peers_python())
    catalog = load_catalog(ROOT / "artifacts")
    with tempfile.TemporaryDirectory() as folder:
        texts = {}
        for name, text in (("English", english()), ("mixed scripts", mixed())):
            texts[name] = Path(folder) / f"{name}.txt"
            texts[name].write_bytes(text.encode())
        with Peers(python, Path(folder)) as peers:
            rows = measured(catalog, peers, texts, arguments.rounds)
        lines = [*facts(python), *rendered(catalog, rows, texts, arguments.rounds)]
    print("\n".join(lines))
    if arguments.write:
        write(lines)


if __name__ == "__main__":
    main()
