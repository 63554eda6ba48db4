"""The examples of the pages: a command, and the answer that is printed under it."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[1]

PRINTED = "http://127.0.0.1:8000"
"""Where `make serve` answers; the tests ask a port that is free."""


class Example(NamedTuple):
    """A command as it stands in a page, and the JSON after it."""

    command: str
    answer: str


def page(path: str) -> str:
    """The text of a page."""
    return (ROOT / path).read_text(encoding="utf-8")


def examples_of(text: str) -> list[Example]:
    """Every command that is followed by its answer."""
    found = re.findall(
        r"^```sh\n(curl .*?)^```\n\n^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    return [Example(*pair) for pair in found]


def numbered(examples: list[Example]) -> list[object]:
    """The examples as parameters of a test, named by their number."""
    return [pytest.param(one, id=f"example-{number}") for number, one in enumerate(examples)]


def check_example(example: Example, url: str) -> None:
    """Run the command against the service at `url` and compare."""
    assert example.command.count(PRINTED) == 1
    found = subprocess.run(
        ["bash", "-c", example.command.replace(PRINTED, url)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert found.stderr == b""
    assert json.loads(found.stdout) == json.loads(example.answer)
