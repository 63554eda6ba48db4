"""The catalog: name or alias -> verified tokenizer. Frozen once it is loaded."""

from __future__ import annotations

import functools
import importlib.metadata
from concurrent.futures import as_completed
from typing import TYPE_CHECKING

import msgspec

from service import __version__
from service.catalog.building import Builders, largest_first, undisturbed
from service.catalog.certificates import read_certificates
from service.catalog.chat import load_chat
from service.catalog.lock import read_lock
from service.catalog.probes import PROBES, spelling_probes
from service.catalog.self_test import self_test
from service.catalog.verify import read_verified
from service.core.faults import is_fault
from service.core.fingerprint import fingerprint, vocabulary_digest
from service.core.spelling import SpellingFinder
from service.engines.builders import build_engine, engine_version
from service.engines.certificate import Certificate
from service.engines.certify import compare, every_way
from service.engines.fast import guarded, standing
from service.errors import ArtifactError, FingerprintMismatch, UnknownTokenizer
from service.formats import FormatError, formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from fastokens import Tokenizer as Engine

    from service.catalog.chat import ChatTemplates
    from service.catalog.lock import LockedArtifact, LockedFile
    from service.core.chat import ChatTemplate
    from service.core.tokenizer import Tokenizer
    from service.formats import Format, Options

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


def load_catalog(root: Path, *, fast: bool = True) -> Catalog:
    """Verify, build and test every artifact that the lock in `root` pins.

    `fast`: use the fast engine where a certificate beside the lock proves it.
    Raises ArtifactError, with one line, for the first that is refused; the largest is the first.
    """
    certificates = read_certificates(root) if fast else None
    locked = read_lock(root)
    loaded: dict[str, Entry] = {}
    building: dict[Future[Engine | None], tuple[Entry, Certificate]] = {}
    with undisturbed(), Builders() as builders:
        for artifact in largest_first(locked):
            entry, build = _load(root, artifact)
            loaded[artifact.name] = entry
            certificate = _holding(entry, certificates)
            if certificate is not None:
                building[builders.begin(artifact, build)] = entry, certificate
        for done in as_completed(building):
            entry, certificate = building[done]
            _speed_up(entry, certificate, done.result())
    return Catalog(loaded[artifact.name] for artifact in locked)


def load_entry(
    root: Path, artifact: LockedArtifact, certificates: Mapping[str, Certificate] | None = None
) -> Entry:
    """Verify, build and test one artifact; without `certificates` it has no fast engine.

    Raises ArtifactError.
    """
    entry, build = _load(root, artifact)
    certificate = _holding(entry, certificates)
    if certificate is not None:
        _speed_up(entry, certificate, build())
    return entry


def _load(root: Path, artifact: LockedArtifact) -> tuple[Entry, Callable[[], Engine | None]]:
    """One artifact, verified and tested, and what builds its fast engine."""
    artifact_format = _format_of(artifact)
    options = _options_of(artifact, artifact_format)
    files = read_verified(root, artifact)
    tokenizer = _build(artifact, artifact_format, files, options)
    chat = load_chat(artifact, tokenizer, files)
    self_test(artifact, tokenizer, chat)
    entry = Entry(artifact, tokenizer, options, chat)
    if artifact.fingerprint not in (None, entry.fingerprint):
        raise ArtifactError(
            artifact.name,
            f"expected fingerprint {artifact.fingerprint}, found {entry.fingerprint}",
        )
    return entry, functools.partial(build_engine, artifact.format, tokenizer, files, options)


def _holding(entry: Entry, certificates: Mapping[str, Certificate] | None) -> Certificate | None:
    """The certificate that allows an artifact its fast engine."""
    if certificates is None:
        return None
    certificate = certificates.get(entry.name)
    certified = entry.fingerprint, reference_version(entry.tokenizer)
    entry.engine_state = standing(certificate, certified)
    return certificate if entry.engine_state == "fast" else None


def _speed_up(entry: Entry, certificate: Certificate, engine: Engine | None) -> None:
    """Have an artifact's literal text answered by its fast engine.

    The library makes tables for each thread, when it first encodes in it: here, so that forked
    workers share them and no request waits for them.
    """
    reference = entry.tokenizer
    entry.tokenizer, entry.engine_state = guarded(entry.name, reference, certificate, engine)
    entry.tokenizer.count(PROBES[0])


def _options_of(artifact: LockedArtifact, artifact_format: Format) -> Options:
    try:
        return msgspec.convert(artifact.options, artifact_format.options)
    except msgspec.ValidationError as error:
        raise ArtifactError(artifact.name, f"options: {error}") from None


def certify_entry(root: Path, artifact: LockedArtifact) -> Certificate | None:
    """Compare the fast engine with the reference; None where there is none for the artifact.

    Takes about a minute. Raises ArtifactError, and CertificationError when the ids differ by more
    than single characters.
    """
    entry, build = _load(root, artifact)
    tokenizer = entry.tokenizer
    engine = build()
    if engine is None:
        return None
    # Added tokens that are ordinary vocabulary are found in literal text, too.
    added = {token["content"]: token["id"] for token in engine.added_tokens()}
    corpus = (*PROBES, *spelling_probes(tokenizer.controls), *spelling_probes(added))
    texts, code_points, exceptions = compare(tokenizer, every_way(engine), corpus)
    return Certificate(
        artifact=artifact.name,
        fingerprint=entry.fingerprint,
        engine=engine_version(),
        reference=reference_version(tokenizer),
        texts=texts,
        code_points=code_points,
        exceptions=exceptions,
    )


def reference_version(tokenizer: Tokenizer) -> str:
    """The reference library and its version, as a certificate names it."""
    library = tokenizer.facts.library
    return f"{library}=={library_version(library)}"


def _format_of(artifact: LockedArtifact) -> Format:
    known = formats()
    if artifact.format not in known:
        raise ArtifactError(
            artifact.name,
            f"unknown format {artifact.format!r}; there are {', '.join(sorted(known))}",
        )
    artifact_format = known[artifact.format]
    roles = {file.role for file in artifact.file}
    missing = sorted(artifact_format.required_roles - roles)
    extra = sorted(roles - artifact_format.required_roles - artifact_format.optional_roles)
    if missing or extra:
        expected = ", ".join(sorted(artifact_format.required_roles))
        raise ArtifactError(
            artifact.name,
            f"format {artifact.format!r} needs files with the roles {expected}; "
            f"missing: {', '.join(missing) or 'none'}; not known: {', '.join(extra) or 'none'}",
        )
    return artifact_format


def _build(
    artifact: LockedArtifact, artifact_format: Format, files: Mapping[str, bytes], options: Options
) -> Tokenizer:
    paths: dict[str, LockedFile] = {file.role: file for file in artifact.file}
    for role, data in files.items():
        if data.startswith(b"version https://git-lfs"):
            raise ArtifactError(
                artifact.name,
                "expected the file, found a Git LFS pointer to it",
                file=paths[role].path,
            )
    try:
        return artifact_format.build(files, options)
    except FormatError as error:
        file = paths.get(error.role) if error.role else None
        where = None if file is None else file.path
        pinned = "" if file is None else f" (sha256 {file.sha256})"
        raise ArtifactError(artifact.name, f"{error.reason}{pinned}", file=where) from None
    except BaseException as error:
        # Whatever a library raises on a malformed file is a refusal, not a crash with a traceback.
        if not is_fault(error):
            raise
        raise ArtifactError(
            artifact.name, f"can't be built: {type(error).__name__}: {error}"
        ) from error


@functools.cache
def library_version(library: str) -> str:
    """The installed version of a tokenizer library."""
    return __version__ if library == _OWN_ENGINE else importlib.metadata.version(library)
