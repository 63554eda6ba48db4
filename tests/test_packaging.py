"""The pins: one list of them, hashes for all of them, and no address to fetch them from."""

from __future__ import annotations

import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z0-9,-]+\])?==[^\s;]+")


def requirement_lines(path: pathlib.Path) -> list[str]:
    """The lines that say something, each with its continuations."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line]


def pins(path: pathlib.Path) -> dict[str, str]:
    """Requirement, without its marker and hashes, by its name."""
    found = {}
    for line in requirement_lines(path):
        pin = PIN.match(line)
        if pin is not None:
            name = re.split(r"[=\[]", pin[0])[0]
            found[re.sub(r"[._-]+", "-", name).lower()] = pin[0]
    return found


def test_runtime_pins_are_the_dependencies_of_the_project() -> None:
    assert sorted(requirement_lines(REQUIREMENTS / "runtime.in")) == sorted(PROJECT["dependencies"])
    assert all(PIN.fullmatch(dependency) for dependency in PROJECT["dependencies"])


@pytest.mark.parametrize("lock", ["runtime.txt", "dev.txt"])
def test_every_pin_of_a_lock_has_hashes(lock: str) -> None:
    lines = requirement_lines(REQUIREMENTS / lock)
    assert lines
    for line in lines:
        assert PIN.match(line), line
        assert HASH.search(line), line
        rest = HASH.sub("", line)
        assert "--" not in rest, f"an option in a lock: {rest}"


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_lock_has_what_its_input_asks_for(lock: str) -> None:
    asked = requirement_lines(REQUIREMENTS / f"{lock}.in")
    locked = pins(REQUIREMENTS / f"{lock}.txt")
    for line in asked:
        if line.startswith("-r "):
            included = pins(REQUIREMENTS / line.removeprefix("-r ").strip())
            assert included.items() <= locked.items()
            continue
        name = re.sub(r"[._-]+", "-", re.split(r"[=\[<>!~ ]", line)[0]).lower()
        assert name in locked
        if "==" in line:
            assert locked[name] == line


def test_the_two_locks_agree() -> None:
    runtime, dev = pins(REQUIREMENTS / "runtime.txt"), pins(REQUIREMENTS / "dev.txt")
    assert runtime.items() <= dev.items()


@pytest.mark.parametrize("path", [*sorted(REQUIREMENTS.iterdir()), ROOT / "pyproject.toml"])
def test_no_address_of_a_package_index(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8").lower()
    for sign in ("http:", "https:", "index-url", "find-links", "trusted-host"):
        assert sign not in text, sign


def test_the_command_and_the_artifacts_come_with_the_package() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert whole["project"]["scripts"] == {"tokenizer-service": "service.cli:main"}
    wheel = whole["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"artifacts": "service/artifacts"}
