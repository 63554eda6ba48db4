"""From a lock to a catalog: every artifact verified, built and tested, with its fast engine."""

from __future__ import annotations

import functools
from concurrent.futures import as_completed
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from service.catalog.building import Builders, largest_first, undisturbed
from service.catalog.catalog import Catalog, Entry, reference_version
from service.catalog.certificates import read_certificates
from service.catalog.chat import load_chat
from service.catalog.lock import read_lock
from service.catalog.probes import PROBES, spelling_probes
from service.catalog.self_test import self_test
from service.catalog.verify import read_verified
from service.core.faults import is_fault
from service.engines.builders import build_engine, engine_version, is_built_of_files
from service.engines.certificate import Certificate
from service.engines.certify import compare, every_way
from service.engines.fast import Certified, guarded, standing
from service.errors import ArtifactError
from service.formats import FormatError, formats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from service.catalog.lock import LockedArtifact, LockedFile
    from service.core.tokenizer import Tokenizer
    from service.engines.engine import Engine
    from service.formats import Format, Options


class _Opened(NamedTuple):
    """An artifact of which the bytes are verified and nothing is built yet."""

    artifact: LockedArtifact
    format: Format
    options: Options
    files: Mapping[str, bytes]

    def engine(self, reference: Tokenizer | None) -> Engine | None:
        """Build the fast engine; None where there is none. Takes up to 2 s."""
        return build_engine(self.format.name, self.files, self.options, reference)


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
            opened = _open(root, artifact)
            engine: Future[Engine | None] | None = None
            if (
                certificates
                and artifact.name in certificates
                and is_built_of_files(artifact.format)
            ):
                # Begun before it is known that its certificate holds, which takes the reference:
                # what takes longest to build is also what takes longest to load.
                engine = builders.begin(artifact, functools.partial(opened.engine, None))
            entry = loaded[artifact.name] = _load(opened)
            certificate = _holding(entry, certificates)
            if certificate is not None:
                build = functools.partial(opened.engine, entry.tokenizer)
                building[engine or builders.begin(artifact, build)] = entry, certificate
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
    opened = _open(root, artifact)
    entry = _load(opened)
    certificate = _holding(entry, certificates)
    if certificate is not None:
        _speed_up(entry, certificate, opened.engine(entry.tokenizer))
    return entry


def _open(root: Path, artifact: LockedArtifact) -> _Opened:
    artifact_format = _format_of(artifact)
    options = _options_of(artifact, artifact_format)
    return _Opened(artifact, artifact_format, options, read_verified(root, artifact))


def _load(opened: _Opened) -> Entry:
    """The entry of an artifact, built and tested, without a fast engine."""
    artifact = opened.artifact
    tokenizer = _build(opened)
    chat = load_chat(artifact, tokenizer, opened.files)
    self_test(artifact, tokenizer, chat)
    entry = Entry(artifact, tokenizer, opened.options, chat)
    if artifact.fingerprint not in (None, entry.fingerprint):
        raise ArtifactError(
            artifact.name,
            f"expected fingerprint {artifact.fingerprint}, found {entry.fingerprint}",
        )
    return entry


def _holding(entry: Entry, certificates: Mapping[str, Certificate] | None) -> Certificate | None:
    """The certificate that allows an artifact its fast engine."""
    if certificates is None:
        return None
    certificate = certificates.get(entry.name)
    tokenizer = entry.tokenizer
    certified = Certified(
        entry.fingerprint, reference_version(tokenizer), engine_version(tokenizer)
    )
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
    opened = _open(root, artifact)
    entry = _load(opened)
    tokenizer = entry.tokenizer
    engine = opened.engine(tokenizer)
    if engine is None:
        return None
    # Added tokens that are ordinary vocabulary are found in literal text, too.
    added = {token["content"]: token["id"] for token in engine.added_tokens()}
    corpus = (*PROBES, *spelling_probes(tokenizer.controls), *spelling_probes(added))
    texts, code_points, exceptions = compare(tokenizer, every_way(engine), corpus)
    return Certificate(
        artifact=artifact.name,
        fingerprint=entry.fingerprint,
        engine=engine_version(tokenizer),
        reference=reference_version(tokenizer),
        texts=texts,
        code_points=code_points,
        exceptions=exceptions,
    )


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


def _build(opened: _Opened) -> Tokenizer:
    artifact = opened.artifact
    paths: dict[str, LockedFile] = {file.role: file for file in artifact.file}
    for role, data in opened.files.items():
        if data.startswith(b"version https://git-lfs"):
            raise ArtifactError(
                artifact.name,
                "expected the file, found a Git LFS pointer to it",
                file=paths[role].path,
            )
    try:
        return opened.format.build(opened.files, opened.options)
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
