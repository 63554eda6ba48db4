"""The catalog: name or alias -> verified tokenizer. Frozen once it is loaded."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING

from service import __version__
from service.core.fingerprint import fingerprint, vocabulary_digest
from service.core.spelling import SpellingFinder
from service.errors import FingerprintMismatch, UnknownTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.catalog.chat import ChatTemplates
    from service.catalog.lock import LockedArtifact
    from service.core.chat import ChatTemplate
    from service.core.tokenizer import Tokenizer
    from service.formats import Options

_OWN_ENGINE = "tokenizer-service"
"""The library name of formats whose encoder is this project's own."""


class Entry:
    """One artifact, loaded: its tokenizer and everything that /fingerprint says of it."""

    def __init__(
        self,
        artifact: LockedArtifact,
        tokenizer: Tokenizer,
        options: Options,
        chat: ChatTemplates | None,
    ) -> None:
        self.artifact = artifact
        self.name = artifact.name
        self.tokenizer = tokenizer
        self.engine_state = "off"
        """Whether literal text goes to a fast engine: `fast`, or why it does not."""
        self.spellings = SpellingFinder(tokenizer.controls)
        self.control_ids = frozenset(tokenizer.controls.values())
        self.chat = chat
        self.template_sha256 = None if chat is None else chat.sha256
        self.fingerprint = fingerprint(
            artifact_format=artifact.format,
            files=[(file.role, file.sha256) for file in artifact.file],
            options=options.in_force(),
            controls=tokenizer.controls,
            before=tokenizer.frame.before,
            after=tokenizer.frame.after,
            chat_template=self.template_sha256,
        )

    def chat_template(self, *, tools: bool) -> ChatTemplate | None:
        """The pinned template for messages, with or without tools; None where none is pinned."""
        return None if self.chat is None else self.chat.choose(tools=tools)

    def expect(self, fingerprint_expected: str | None) -> None:
        """Raise FingerprintMismatch unless this is the tokenizer that the caller expects."""
        if fingerprint_expected is not None and fingerprint_expected != self.fingerprint:
            raise FingerprintMismatch(self.name, fingerprint_expected, self.fingerprint)

    @functools.cached_property
    def _ids(self) -> list[int]:
        return sorted(self.tokenizer.vocabulary())

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are."""
        return len(self._ids)

    @property
    def max_id(self) -> int:
        """The greatest id."""
        return self._ids[-1]

    @property
    def holes(self) -> list[int]:
        """The ids up to the greatest that no token has."""
        return sorted(set(range(self.max_id)).difference(self._ids))

    @functools.cached_property
    def vocabulary_sha256(self) -> str:
        """The digest of the (id, bytes) pairs. Takes up to 0.2 s when it is first asked for."""
        return vocabulary_digest(self.tokenizer.vocabulary())


class Catalog:
    """The loaded artifacts. Never changes: another artifact means another process."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._by_any_name = {
            name: entry
            for entry in self._entries.values()
            for name in (entry.name, *entry.artifact.aliases)
        }

    def __iter__(self) -> Iterator[Entry]:
        """The entries in the order of the lock."""
        return iter(self._entries.values())

    def resolve(self, name: str) -> Entry:
        """The entry with this name or alias. Raises UnknownTokenizer."""
        try:
            return self._by_any_name[name]
        except KeyError:
            raise UnknownTokenizer(self._entries) from None


def reference_version(tokenizer: Tokenizer) -> str:
    """The reference library and its version, as a certificate names it."""
    library = tokenizer.facts.library
    return f"{library}=={library_version(library)}"


@functools.cache
def library_version(library: str) -> str:
    """The installed version of a tokenizer library."""
    return __version__ if library == _OWN_ENGINE else importlib.metadata.version(library)
