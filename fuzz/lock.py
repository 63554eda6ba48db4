"""The lock: a list of artifacts that keeps the rules, or one line that says why not."""

from __future__ import annotations

import os.path
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING

from fuzz.harness import Harness, check_line
from service.catalog.loading import load_entry
from service.catalog.lock import parse_lock
from service.errors import ArtifactError

if TYPE_CHECKING:
    from service.catalog.lock import LockedArtifact

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEX = re.compile(r"[0-9a-f]{64}")


class LockHarness(Harness):
    """`parse_lock`, and loading what it gives from a folder without files."""

    name = "lock"
    dictionary = (
        *(b"version = 1\n", b"[[artifact]]\n", b"[[artifact.file]]\n", b"[artifact.options]\n"),
        *(b"name = ", b"aliases = ", b"format = ", b"license = ", b"source = ", b"options = "),
        *(b"role = ", b"path = ", b"sha256 = ", b"bytes = ", b"fingerprint = ", b"probes = "),
        *(b'"""', b"'''", b"\\u2028", b"\\u001b", b"\\r", b"../", b"/", b"\\\\", b"\\u0000"),
        *(b"nan", b"inf", b"0x", b"1e9", b"2026-01-01T00:00:00Z", b"{ ", b" }", b"[", b"]"),
        *(b"ranks", b"tokenizer", b"model", b"vocab", b"merges", b"config", b"chat_template"),
        *(b"tiktoken", b"tokenizer_json", b"wordpiece", b"sentencepiece", b"minbpe"),
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-lock-")
        self._root = pathlib.Path(self._folder.name)

    def run(self, data: bytes) -> bool:
        """See Harness."""
        try:
            artifacts = parse_lock(data)
        except ArtifactError as error:
            check_line(str(error))
            return False
        names = [name for artifact in artifacts for name in (artifact.name, *artifact.aliases)]
        assert artifacts
        assert len(set(names)) == len(names), "a name stands twice"
        assert all(map(_NAME.fullmatch, names)), names
        for artifact in artifacts:
            _check_files(artifact)
            _check_pins(artifact)
            self._check_that_nothing_is_there(artifact)
        return True

    def _check_that_nothing_is_there(self, artifact: LockedArtifact) -> None:
        try:
            load_entry(self._root, artifact)
        except ArtifactError as error:
            check_line(str(error))
        else:
            raise AssertionError("an artifact was loaded from an empty folder")


def _check_files(artifact: LockedArtifact) -> None:
    roles = [file.role for file in artifact.file]
    assert roles
    assert len(set(roles)) == len(roles), "a role stands twice"
    for file in artifact.file:
        # The oracle of a path is another one than the parser's.
        whole = os.path.normpath(os.path.join("/inside", file.path))  # noqa: PTH118 - said above
        assert whole == "/inside" or whole.startswith("/inside/"), file.path
        assert "\0" not in file.path
        assert "\\" not in file.path
        assert _HEX.fullmatch(file.sha256), file.sha256
        assert type(file.bytes) is int
        assert file.bytes >= 0


def _check_pins(artifact: LockedArtifact) -> None:
    for pin in (artifact.fingerprint, artifact.probes):
        kind, _, digest = ("sha256::" + "0" * 64 if pin is None else pin).rpartition(":")
        assert kind.startswith("sha256"), pin
        assert _HEX.fullmatch(digest), pin
