"""docs/artifacts.md lists the keys, roles and options that the code has, with their defaults."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from service.catalog.lock import LockedArtifact, LockedFile
from service.formats import Format, formats
from tests.locks import EMBEDDED, EMBEDDED_LOCK

DOC = (EMBEDDED.parent / "docs" / "artifacts.md").read_text(encoding="utf-8")

Rows = list[tuple[str, str]]


def section(title: str) -> str:
    """What stands under a heading of the third level."""
    (found,) = re.findall(
        rf"^### `{re.escape(title)}`\n(.*?)(?=^##|\Z)", DOC, re.DOTALL | re.MULTILINE
    )
    return str(found)


def rows(text: str) -> Rows:
    """First and second cell of each row of a table."""
    return re.findall(r"^\| `([^`|]+)` \| (.*?) ?\| ", text, re.MULTILINE)


def documented(struct: type[msgspec.Struct]) -> Rows:
    """The rows that a lock's Struct asks for."""
    return sorted(
        (field.encode_name, "yes" if field.required else "no")
        for field in msgspec.structs.fields(struct)
    )


@pytest.mark.parametrize(
    ("title", "struct"), [("[[artifact]]", LockedArtifact), ("[[artifact.file]]", LockedFile)]
)
def test_every_key_of_the_lock_is_listed(title: str, struct: type[msgspec.Struct]) -> None:
    assert sorted(rows(section(title))) == documented(struct)


def test_every_format_has_a_section() -> None:
    (under_formats,) = re.findall(r"^## Formats\n(.*?)^## ", DOC, re.DOTALL | re.MULTILINE)
    assert sorted(re.findall(r"^### `(\w+)`$", under_formats, re.MULTILINE)) == sorted(formats())


@pytest.mark.parametrize("name", sorted(formats()))
def test_the_roles_of_a_format(name: str) -> None:
    (sentence,) = re.findall(r"Roles:\s(.*?)\.\s", section(name), re.DOTALL)
    optional = set(re.findall(r"\[`(\w+)`\]", sentence))
    artifact_format: Format = formats()[name]
    assert optional == artifact_format.optional_roles
    assert set(re.findall(r"`(\w+)`", sentence)) - optional == artifact_format.required_roles


@pytest.mark.parametrize("name", sorted(formats()))
def test_the_options_of_a_format(name: str) -> None:
    expected: Rows = []
    for field in msgspec.structs.fields(formats()[name].options):
        if field.required:
            expected.append((field.name, ""))
            continue
        value = field.default
        if value is msgspec.NODEFAULT:
            value = field.default_factory()
        expected.append((field.name, f"`{json.dumps(value)}`"))
    assert rows(section(name)) == expected


def test_the_notice_names_every_file_with_its_licence() -> None:
    notice = (EMBEDDED / "NOTICE").read_text(encoding="utf-8")
    entries = re.split(r"^\d+\. ", notice.split("-" * 40)[0], flags=re.MULTILINE)[1:]
    for name, locked in EMBEDDED_LOCK.items():
        for file in locked["file"]:
            (entry,) = [entry for entry in entries if file["path"] in entry.split()]
            (used_by,) = re.findall(r"Used by: +(.*?)\n +Upstream:", entry, re.DOTALL)
            assert name in re.split(r",\s+", used_by)
            assert f"Licence:    {locked['license']}" in entry


def test_nothing_lies_in_the_folder_that_the_notice_does_not_name() -> None:
    named = set((EMBEDDED / "NOTICE").read_text(encoding="utf-8").split())
    files = [path for path in EMBEDDED.glob("*/*") if path.is_file()]
    assert files
    for path in files:
        assert path.relative_to(EMBEDDED).as_posix() in named, path
