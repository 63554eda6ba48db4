"""The inputs that fuzzing keeps (fuzz/corpus), each through its harness, without the fuzzer."""

from __future__ import annotations

import itertools
import pathlib
import re
import resource
from typing import TYPE_CHECKING

import pytest

from fuzz.decoding import Fault, faults_of
from fuzz.harness import CORPUS, check_line, corpus_of, harnesses
from service.formats import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

INPUTS = [(name, path) for name in sorted(harnesses()) for path in corpus_of(name)]
ROOM = 2 * 1024**3


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Room for two more gigabytes: what wants more raises MemoryError."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    kibibytes = re.search(r"VmSize:\s+([0-9]+) kB", status)
    assert kibibytes is not None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(kibibytes[1]) * 1024 + ROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("name", "path"), INPUTS, ids=lambda value: getattr(value, "name", value))
def test_an_input(name: str, path: pathlib.Path) -> None:
    taken = harnesses()[name].run(path.read_bytes())
    if path.name.startswith("real"):
        assert taken, "what was cut out of an artifact is one"
    if path.name.startswith("refused"):
        assert not taken


def test_what_is_fuzzed() -> None:
    assert set(harnesses()) == {"lock", "bodies", "utf8", *formats()}
    assert {path.name for path in CORPUS.iterdir()} == set(harnesses())


@pytest.mark.parametrize("name", harnesses())
def test_a_corpus_is_small(name: str) -> None:
    assert 0 < sum(path.stat().st_size for path in corpus_of(name)) < 16_000


@pytest.mark.parametrize("data", [b"\n", b"\xff", b"{", b"\0" * 99])
@pytest.mark.parametrize("name", sorted({*harnesses()} - {"utf8"}))
def test_what_is_nothing_is_refused(name: str, data: bytes) -> None:
    assert not harnesses()[name].run(data)


def test_the_oracle_of_utf8_says_what_python_says() -> None:
    """On every sequence of up to four of the bytes at which the standard's table changes."""
    edges = b"\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xdf\xe0\xec\xed\xf0\xf1\xf4\xf5"
    for length in (1, 2, 3, 4):
        for data in map(bytes, itertools.product(edges, repeat=length)):
            assert len(faults_of(data)) == data.decode(errors="replace").count("\ufffd"), data
    assert faults_of(b"a\xf0\x9f\x99") == [Fault(1, 4, truncated=True)]
    assert faults_of(b"\xed\xa0a") == [Fault(0, 1, truncated=False), Fault(1, 2, truncated=False)]


@pytest.mark.parametrize("message", ["a\nb", "\x1b[31m", "a\u2028b", "a\u202eb", "a" * 10_001])
def test_what_is_no_line(message: str) -> None:
    with pytest.raises(AssertionError):
        check_line(message)
