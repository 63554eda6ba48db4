"""`make soak` and the rolling restart would notice what they are there to notice."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.locks import LockedFolder
from tests.serving import serving

LOADTESTS = pathlib.Path(__file__).parents[1] / "loadtests"
sys.path.insert(0, str(LOADTESTS))  # where its scripts find each other

import bad_requests  # noqa: E402 - found by the line above
import balancers  # noqa: E402
import rolling_restart  # noqa: E402
import soak_verdict  # noqa: E402
from observers import Counters  # noqa: E402
from paced import Ledger, PacedClient  # noqa: E402
from questions import Question  # noqa: E402
from soak_notes import Notes, quantile_ms, read_notes  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRAPE = """# TYPE answered_total counter
answered_total{route="/count"} 5.0
answered_total{route="/encode"} 2.0
# TYPE in_flight gauge
in_flight 3.0
"""


def test_a_short_soak_finds_nothing_wrong(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "build" / "soak.json"
    command = ("soak.py", "--seconds", "6", "--kill-every", "2", "--report", str(report))
    done = subprocess.run(
        [sys.executable, *command],
        cwd=LOADTESTS,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing went wrong\n")
    written = json.loads(report.read_text())
    assert written["kills"] >= 1
    assert written["healthz"]["requests"] > 0
    assert {"count", "encode", "decode"} <= written["kinds"].keys()


def test_bad_requests_are_answered_as_they_have_to_be(tmp_path: pathlib.Path) -> None:
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add_embedded(bad_requests.TOKENIZER)
    with serving(folder.root) as service:
        address = ("127.0.0.1", service.port)
        wrong = {kind: send(address) for kind, send in bad_requests.BAD_REQUESTS.items()}
    assert {kind: what for kind, what in wrong.items() if what} == {}


@pytest.mark.parametrize(
    ("then", "fell"),
    [
        (SCRAPE, 0),
        (SCRAPE.replace("5.0", "6.0").replace("3.0", "0.0"), 0),
        (SCRAPE.replace("5.0", "4.0"), 1),
        (SCRAPE.replace('answered_total{route="/encode"} 2.0\n', ""), 1),
    ],
)
def test_a_counter_that_fell_is_noticed(then: str, fell: int) -> None:
    counters = Counters(0)
    counters.take(SCRAPE)
    counters.take(then)
    assert len(counters.fell) == fell


@pytest.mark.parametrize(
    ("began", "ended", "what", "is_excused"),
    [
        (9.0, 11.0, "HTTPConnectionClosed", True),
        (11.0, 11.1, "ConnectionResetError", True),
        (20.0, 20.1, "ConnectionResetError", False),
        (8.0, 9.0, "ConnectionResetError", False),
        (9.0, 11.0, "status 500 internal", False),
        (9.0, 11.0, "status 503 overloaded", False),
        (9.0, 11.0, "wrong ids", False),
    ],
)
def test_a_kill_excuses_broken_connections_alone(
    *, began: float, ended: float, what: str, is_excused: bool
) -> None:
    assert soak_verdict.excused(began, ended, what, [10.0]) == is_excused


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(second, 100) for second in range(40)], (100, 100)),
        ([(second, 100 + second) for second in range(40)], (121, 137)),
        ([(second, 100) for second in range(20, 40)], None),
        ([(second, 100) for second in range(25)], None),
    ],
)
def test_memory_is_compared_over_the_last_half(
    samples: Sequence[tuple[float, int]], expected: tuple[int, int] | None
) -> None:
    assert soak_verdict.growth(samples, since=20) == expected


def test_what_locust_notes_is_read_again(tmp_path: pathlib.Path) -> None:
    notes = Notes()
    notes.note("count", 1.0, 1.5, 2.0, None)
    notes.note("count", 1.0, 1.5, 2.0, "wrong count")
    notes.write(tmp_path / "notes")
    read = read_notes(tmp_path / "notes")
    assert (dict(read.seconds), read.failed) == ({"count": [1.0]}, 1)
    assert read.failures == notes.failures


def test_quantiles_are_of_what_was_seen() -> None:
    assert quantile_ms([], 0.5) == 0
    assert [quantile_ms([0.003, 0.001, 0.002], share) for share in (0, 0.5, 1)] == [1, 2, 3]


ANSWERS = [
    b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"count":1}',
    b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"count":2}',
    b'HTTP/1.1 503 No\r\nContent-Length: 19\r\n\r\n{"code":"draining"}',
    b"HTTP/1.1 200 OK\r\nContent-Len",
    b"",
]


def test_the_paced_client_counts_each_loss_and_tries_nothing_again() -> None:
    answers = iter(ANSWERS)
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n{}")
            asked += 1
            given = next(answers)
            writer.write(given)
            if not given.endswith(b"}"):
                break
        writer.close()

    def wrong(body: object) -> str | None:
        return None if body == {"count": 1} else "count"

    async def run() -> Ledger:
        ledger = Ledger()
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = PacedClient(port, ledger)
            # One after the other: which question gets which answer depends on it.
            for _ in ANSWERS:
                await client.run([Question("count", "/count", b"{}", wrong)], 1, asyncio.Event())
        return ledger

    ledger = asyncio.run(run())
    assert asked == len(ANSWERS)
    assert (ledger["count"].sent, ledger.lost()) == (5, 4)
    assert ledger.errors() == {
        "wrong count": 1,
        "status 503 draining": 1,
        "IncompleteReadError": 2,
    }


@pytest.mark.parametrize("balancer", balancers.BALANCERS.values(), ids=lambda one: one.name)
def test_a_balancer_is_told_of_every_instance(
    balancer: balancers.Balancer, tmp_path: pathlib.Path
) -> None:
    text = balancer.configuration(8000, [8001, 8002], tmp_path)
    assert text.count("127.0.0.1:8001") == text.count("127.0.0.1:8002") >= 1
    assert "127.0.0.1:8000" in text
    assert "@" not in text.partition("\n")[2]


def test_without_a_balancer_the_exit_status_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(balancers.Balancer, "executable", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["rolling_restart.py"])
    assert rolling_restart.main() == rolling_restart.EXIT_NO_BALANCER
    assert "haproxy or nginx is not installed" in capsys.readouterr().out
