"""Reading an artifact's files: every byte is checked, and nothing but a file is read."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from service.catalog.lock import LockedArtifact, read_lock
from service.catalog.verify import read_verified
from service.errors import ArtifactError
from tests.locks import LockedFolder

if TYPE_CHECKING:
    import pathlib

DATA = b"the bytes of the file\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> LockedFolder:
    """A folder with one artifact of one file."""
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add("one", "tiktoken", {"ranks": DATA})
    return folder


def locked(folder: LockedFolder) -> LockedArtifact:
    return read_lock(folder.root)[0]


def path_of(folder: LockedFolder) -> pathlib.Path:
    path: str = folder.artifacts[0]["file"][0]["path"]
    return folder.root / path


def refusal(folder: LockedFolder) -> str:
    """The one line with which the file is refused."""
    artifact = locked(folder)
    with pytest.raises(ArtifactError) as caught:
        read_verified(folder.root, artifact)
    line = str(caught.value)
    assert len(line.splitlines()) == 1, line
    assert "'one'" in line
    assert repr(artifact.file[0].path) in line
    return line


def test_the_bytes_by_role(folder: LockedFolder) -> None:
    assert read_verified(folder.root, locked(folder)) == {"ranks": DATA}


def test_several_files(tmp_path: pathlib.Path) -> None:
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add("one", "tokenizer_json", {"tokenizer": b"{}", "config": b"", "chat_template": b"x"})
    assert read_verified(folder.root, locked(folder)) == {
        "tokenizer": b"{}",
        "config": b"",
        "chat_template": b"x",
    }


def test_another_byte(folder: LockedFolder) -> None:
    other = b"X" + DATA[1:]
    path_of(folder).write_bytes(other)
    line = refusal(folder)
    assert hashlib.sha256(DATA).hexdigest() in line, "what was expected"
    assert hashlib.sha256(other).hexdigest() in line, "what was found"


@pytest.mark.parametrize("data", [DATA[:-1], b"", DATA + b"x", DATA * 1000])
def test_another_size(folder: LockedFolder, data: bytes) -> None:
    path_of(folder).write_bytes(data)
    line = refusal(folder)
    assert f"{len(DATA)} bytes" in line
    assert f"{len(data)} bytes" in line


def test_a_lock_with_another_size(folder: LockedFolder) -> None:
    folder.artifacts[0]["file"][0]["bytes"] += 1
    folder.write()
    assert "bytes" in refusal(folder)


def test_no_file(folder: LockedFolder) -> None:
    path_of(folder).unlink()
    assert "No such file" in refusal(folder)


def test_no_folder(folder: LockedFolder) -> None:
    path_of(folder).unlink()
    path_of(folder).parent.rmdir()
    refusal(folder)


def test_a_folder_in_its_place(folder: LockedFolder) -> None:
    path_of(folder).unlink()
    path_of(folder).mkdir()
    refusal(folder)


@pytest.mark.timeout(20)
def test_a_fifo_in_its_place(folder: LockedFolder) -> None:
    """Opening one waits for a writer: a start would hang for ever."""
    path_of(folder).unlink()
    os.mkfifo(path_of(folder))
    assert "regular file" in refusal(folder)


def test_a_file_that_may_not_be_read(folder: LockedFolder) -> None:
    path_of(folder).chmod(0)
    if os.access(path_of(folder), os.R_OK):
        pytest.skip("this user reads every file")
    refusal(folder)


def test_a_link_out_of_the_folder(folder: LockedFolder, tmp_path: pathlib.Path) -> None:
    """The right bytes, in the wrong place."""
    outside = tmp_path / "outside"
    outside.write_bytes(DATA)
    path_of(folder).unlink()
    path_of(folder).symlink_to(outside)
    assert "link" in refusal(folder)


def test_a_relative_link_out_of_the_folder(folder: LockedFolder, tmp_path: pathlib.Path) -> None:
    (tmp_path / "outside").write_bytes(DATA)
    path_of(folder).unlink()
    path_of(folder).symlink_to("../../outside")
    assert "link" in refusal(folder)


def test_a_folder_that_is_a_link_out(folder: LockedFolder, tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "elsewhere"
    path_of(folder).parent.rename(outside)
    path_of(folder).parent.symlink_to(outside)
    assert "link" in refusal(folder)


def test_a_folder_whose_name_begins_alike_is_outside(
    folder: LockedFolder, tmp_path: pathlib.Path
) -> None:
    neighbour = tmp_path / "artifacts-of-others"
    neighbour.mkdir()
    (neighbour / "file").write_bytes(DATA)
    path_of(folder).unlink()
    path_of(folder).symlink_to(neighbour / "file")
    assert "link" in refusal(folder)


def test_a_link_to_nothing(folder: LockedFolder) -> None:
    path_of(folder).unlink()
    path_of(folder).symlink_to("nothing")
    refusal(folder)


def test_a_link_to_itself(folder: LockedFolder) -> None:
    path_of(folder).unlink()
    path_of(folder).symlink_to(path_of(folder).name)
    refusal(folder)


def test_a_link_inside_the_folder(folder: LockedFolder) -> None:
    """Two artifacts may share a file that way."""
    kept = folder.root / "kept"
    path_of(folder).rename(kept)
    path_of(folder).symlink_to(kept)
    assert read_verified(folder.root, locked(folder)) == {"ranks": DATA}


def test_the_folder_itself_may_be_a_link(folder: LockedFolder, tmp_path: pathlib.Path) -> None:
    """A mounted volume often is."""
    link = tmp_path / "mounted"
    link.symlink_to(folder.root)
    assert read_verified(link, locked(folder)) == {"ranks": DATA}


def test_a_file_is_opened_once(folder: LockedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is what is built from: between two openings a file could change."""
    opened: list[str] = []
    really = os.open

    def counting(path: str | pathlib.Path, *arguments: int, **named: int) -> int:
        opened.append(str(path))
        return really(path, *arguments, **named)

    artifact = locked(folder)
    monkeypatch.setattr(os, "open", counting)
    read_verified(folder.root, artifact)
    monkeypatch.undo()
    assert opened == [str(path_of(folder))]
