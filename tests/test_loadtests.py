"""`make load` works: a short one gets right answers, and a wrong one would be noticed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from loadtests.known_answers import first_difference

LOADTESTS = pathlib.Path(__file__).parents[1] / "loadtests"


def run(*command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=LOADTESTS,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_a_short_load_gets_right_answers() -> None:
    done = run("run.py", "--seconds", "2", "--users", "2", seconds=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every answer was right" in done.stdout
    assert "Aggregated" in done.stderr


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({"ids": [1, 2], "count": 2}, None),
        ({"ids": [1, 3], "count": 2}, "ids"),
        ({"ids": [1, 2]}, "count"),
        ({"error": {"code": "internal"}}, "ids"),
    ],
)
def test_a_wrong_answer_is_noticed(answer: dict[str, object], wrong: str | None) -> None:
    assert first_difference(answer, {"ids": [1, 2], "count": 2}) == wrong


def test_a_wrong_item_of_a_batch_is_noticed() -> None:
    answer = {"results": [{"text": "a"}, {"error": {"code": "invalid_utf8"}}]}
    assert first_difference(answer, {"results.text": ["a", None]}) is None
    assert first_difference(answer, {"results.text": ["a", "b"]}) == "results.text"
    assert first_difference(answer, {"results.text": ["a"]}) == "results.text"


def test_load_goes_to_this_machine_alone() -> None:
    done = run(
        *("-m", "locust", "--headless", "--locustfile", "locustfile.py"),
        *("--host", "http://192.0.2.1:8000", "--users", "1", "--run-time", "1s"),
        seconds=60,
    )
    assert done.returncode != 0
    assert "loopback" in done.stderr
