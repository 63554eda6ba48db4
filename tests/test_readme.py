"""README.md tells the truth: its commands answer what it prints, and its tables are made anew."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.examples import ROOT, Example, check_example, examples_of, numbered, page
from tests.serving import serving

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from tests.serving import Served

README = page("README.md")

EXAMPLES = examples_of(README)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the examples of README.md are not run")
    with serving() as service:
        yield service


def test_there_are_examples_of_every_kind() -> None:
    assert README.count("curl -s ") == len(EXAMPLES)
    commands = "".join(example.command for example in EXAMPLES)
    for sign in ("/encode", "/count", '"budget"', '"mode": "replace"', '"special_policy"'):
        assert sign in commands, sign
    assert "expected_fingerprint" in commands
    assert len(re.findall(r"^### \d\. ", README, re.MULTILINE)) == 5


@pytest.mark.parametrize("example", numbered(EXAMPLES))
def test_an_example_answers_what_is_printed(example: Example, served: Served) -> None:
    check_example(example, served.url)


def test_the_tables_are_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/readme.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_two_commands_come_before_everything_else() -> None:
    commands = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert [command.strip() for command in commands[:2]] == ["make serve", "make test"]


def test_what_the_layout_names_exists() -> None:
    (layout,) = re.findall(r"^## The house\n\n```\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    parents: list[str] = []
    for line in layout.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        parents = [*parents[:depth], line.split()[0]]
        assert (ROOT / "".join(parents)).exists(), parents


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
def test_links_lead_somewhere(path: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert "://" not in target, target
        assert (path.parent / target).exists(), target
