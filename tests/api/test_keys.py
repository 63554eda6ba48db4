"""The file of API keys: what it may hold, who is let in, and what reading it anew does."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from service.api.keys import ApiKeys
from service.errors import SettingsError, Unauthorized

if TYPE_CHECKING:
    import pathlib


def line(name: str, key: str) -> str:
    return f"{name} {hashlib.sha256(key.encode()).hexdigest()}\n"


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "keys"
    file.write_text("# the team's\n\n" + line("alice", "k1") + line("bob", "k2").upper())
    return file


@pytest.mark.parametrize(
    "header", [b"Bearer k1", b"bearer k2", b"BEARER k1", b"Bearer  k1", b"Bearer k1 "]
)
def test_a_known_key_is_let_in(path: pathlib.Path, header: bytes) -> None:
    ApiKeys(path).check(header)


@pytest.mark.parametrize(
    "header",
    [b"", b"k1", b"Basic k1", b"Bearer", b"Bearer ", b"Bearer k3", b"Bearer k1,k2", b"Bearerk1"],
)
def test_anything_else_is_not(path: pathlib.Path, header: bytes) -> None:
    with pytest.raises(Unauthorized):
        ApiKeys(path).check(header)


def test_the_digest_is_no_key(path: pathlib.Path) -> None:
    digest = hashlib.sha256(b"k1").hexdigest().encode()
    with pytest.raises(Unauthorized):
        ApiKeys(path).check(b"Bearer " + digest)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "nobody could call"),
        ("# nothing\n", "nobody could call"),
        ("alice hunter2\n", "line 1: expected"),
        (line("alice", "a") + "bob\n", "line 2: expected"),
        (line("alice", "a") + line("alice", "b"), "line 2: the name stands twice"),
        (line("al ice", "a"), "line 1: expected"),
        (line("\u00e4lice", "a"), "not ASCII"),
    ],
)
def test_a_file_that_can_not_be_used(tmp_path: pathlib.Path, content: str, reason: str) -> None:
    file = tmp_path / "keys"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=reason) as refused:
        ApiKeys(file)
    assert "hunter2" not in str(refused.value), "it may be a key"


def test_no_file(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        ApiKeys(tmp_path / "none")


def test_reading_it_anew(path: pathlib.Path) -> None:
    keys = ApiKeys(path)
    path.write_text(line("carol", "k3"))
    keys.check(b"Bearer k1")
    keys.reload()
    keys.check(b"Bearer k3")
    with pytest.raises(Unauthorized):
        keys.check(b"Bearer k1")
    path.write_text("broken")
    with pytest.raises(SettingsError):
        keys.reload()
    keys.check(b"Bearer k3")
