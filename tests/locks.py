"""Writes folders with artifacts and a lock, for tests of what the service takes and refuses."""

from __future__ import annotations

import hashlib
import json
import pathlib
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TESTS = pathlib.Path(__file__).parent
DATA = TESTS / "data"
EMBEDDED = TESTS.parent / "artifacts"

LOCK_NAME = "artifacts.lock"

EMBEDDED_LOCK: dict[str, dict[str, Any]] = {
    artifact["name"]: artifact
    for artifact in tomllib.loads((EMBEDDED / LOCK_NAME).read_text(encoding="utf-8"))["artifact"]
}
"""The artifacts that come with the service, by name, as their lock has them."""


def toml_value(value: Any) -> str:
    """A value as TOML; a table stands inline."""
    if isinstance(value, dict):
        pairs = (f"{toml_value(str(key))} = {toml_value(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's, once DEL is escaped, too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_lines(table: Mapping[str, Any]) -> str:
    """A table's pairs, one a line."""
    return "".join(f"{toml_value(key)} = {toml_value(value)}\n" for key, value in table.items())


class LockedFolder:
    """A folder with a lock. Every mistake that a test wants stands in what it gives to `add`."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.artifacts: list[dict[str, Any]] = []
        root.mkdir(parents=True, exist_ok=True)

    @property
    def lock(self) -> pathlib.Path:
        return self.root / LOCK_NAME

    def add(
        self,
        name: str,
        artifact_format: str,
        files: Mapping[str, bytes | pathlib.Path],
        options: Mapping[str, Any] | None = None,
        *,
        written: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> None:
        """Add an artifact of `files` (bytes by role) and write the lock anew.

        `written`: by role, other bytes to put on the disk than those that the lock pins.
        `more`: further keys of the artifact, or other values of those set here.
        """
        entries = []
        for role, content in files.items():
            data = content if isinstance(content, bytes) else content.read_bytes()
            path = f"{name}/{role}.data"
            target = self.root / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((written or {}).get(role, data))
            sha256 = hashlib.sha256(data).hexdigest()
            entries.append({"role": role, "path": path, "sha256": sha256, "bytes": len(data)})
        self.artifacts.append(
            {
                "name": name,
                "format": artifact_format,
                "license": "CC0-1.0",
                "source": "made for a test",
                "options": dict(options or {}),
                "file": entries,
                **more,
            }
        )
        self.write()

    def add_embedded(
        self,
        embedded: str,
        name: str | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        written: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> None:
        """Add an artifact with the format, the options and the files of an embedded one."""
        locked = EMBEDDED_LOCK[embedded]
        own = {file["role"]: EMBEDDED / file["path"] for file in locked["file"]}
        self.add(
            name or embedded,
            locked["format"],
            {**own, **(files or {})},
            locked.get("options", {}),
            written=written,
            **more,
        )

    def write(self) -> None:
        """Write the lock."""
        parts = ["version = 1\n"]
        for artifact in self.artifacts:
            files = artifact["file"]
            table = {key: value for key, value in artifact.items() if key != "file"}
            parts.append("\n[[artifact]]\n" + toml_lines(table))
            parts += ["\n[[artifact.file]]\n" + toml_lines(file) for file in files]
        self.lock.write_text("".join(parts), encoding="utf-8")


def embedded_bytes(name: str, role: str) -> bytes:
    """The bytes of a file of an embedded artifact."""
    (path,) = (file["path"] for file in EMBEDDED_LOCK[name]["file"] if file["role"] == role)
    return (EMBEDDED / path).read_bytes()
