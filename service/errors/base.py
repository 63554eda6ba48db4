"""The roots of all errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


_MAX_CHARACTERS = 1000
"""Of an error's line, before escapes."""


class ServiceError(Exception):
    """Base of every error that this project raises on purpose."""


class SettingsError(ServiceError):
    """An environment variable or a command-line option holds something that can't be used."""


class ArtifactError(ServiceError):
    """An artifact is refused; one line names it, the file, what was expected and found."""

    def __init__(self, artifact: str, reason: str, *, file: str | None = None) -> None:
        self.artifact = artifact
        self.reason = reason
        self.file = file
        where = f"artifact {artifact!r}" + (f", file {file!r}" if file else "")
        super().__init__(_line(f"{where}: {reason}"))


def _line(message: str) -> str:
    """One printable line: it may quote a file that is not what it should be, however long."""
    if len(message) > _MAX_CHARACTERS:
        message = f"{message[:_MAX_CHARACTERS]}..."
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in message.replace("\n", " ")
    )


class RequestError(ServiceError):
    """One request can't be answered as asked; `code` is stable, `members` join the problem body."""

    code: ClassVar[str]

    def __init__(self, detail: str, members: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.members: dict[str, object] = dict(members or {})
