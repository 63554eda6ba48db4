"""The answers of GET /tokenizers and GET /fingerprint: what a loaded tokenizer is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.api.structs import Response
from service.catalog.catalog import library_version
from service.catalog.probes import probe_count, probes_digest
from service.core.tokenizer import ROLES, Coverage, RoundTrip

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog, Entry


class FileDescription(Response, frozen=True, kw_only=True):
    """One verified file."""

    role: str
    path: str
    sha256: str
    bytes: int


class Engine(Response, frozen=True, kw_only=True):
    """The library that gives the ids."""

    library: str
    version: str


class Vocabulary(Response, frozen=True, kw_only=True):
    """All (id, bytes) pairs in short; `holes` are the ids up to `max_id` that nothing has."""

    size: int
    max_id: int
    holes: list[int]
    sha256: str


class TemplateIds(Response, frozen=True, kw_only=True):
    """What `add_special_tokens` puts around the content."""

    before: list[int]
    after: list[int]


class Hash(Response, frozen=True, kw_only=True):
    """The hash of a file's bytes."""

    sha256: str


class Probes(Response, frozen=True, kw_only=True):
    """The hash over the ids of the probe corpus."""

    count: int
    sha256: str


class Description(Response, frozen=True, kw_only=True):
    """Everything that decides a tokenizer's ids, and what it promises."""

    tokenizer: str
    fingerprint: str
    format: str
    license: str
    source: str
    files: list[FileDescription]
    engine: Engine
    vocab: Vocabulary
    pipeline: dict[str, Any]
    special_tokens: dict[str, int]
    roles: dict[str, int | None]
    add_special_tokens: TemplateIds
    chat_template: Hash | None
    coverage: Coverage
    round_trip: RoundTrip
    probes: Probes


class Descriptions(Response, frozen=True, kw_only=True):
    """All of them."""

    fingerprints: list[Description]


class Listed(Response, frozen=True, kw_only=True):
    """One tokenizer in short."""

    name: str
    aliases: list[str]
    format: str
    vocab_size: int
    fingerprint: str
    round_trip: RoundTrip


class Listing(Response, frozen=True, kw_only=True):
    """All of them, in the order of the lock."""

    tokenizers: list[Listed]


class Status(Response, frozen=True, kw_only=True):
    """How the process is."""

    status: str


def describe(entry: Entry) -> Description:
    """The /fingerprint answer of one tokenizer. The first time it may take 0.2 s."""
    artifact, tokenizer, facts = entry.artifact, entry.tokenizer, entry.tokenizer.facts
    return Description(
        tokenizer=entry.name,
        fingerprint=entry.fingerprint,
        format=artifact.format,
        license=artifact.license,
        source=artifact.source,
        files=[
            FileDescription(role=file.role, path=file.path, sha256=file.sha256, bytes=file.bytes)
            for file in artifact.file
        ],
        engine=Engine(library=facts.library, version=library_version(facts.library)),
        vocab=Vocabulary(
            size=entry.vocabulary_size,
            max_id=entry.max_id,
            holes=entry.holes,
            sha256=entry.vocabulary_sha256,
        ),
        pipeline=dict(facts.pipeline),
        special_tokens=dict(tokenizer.controls),
        roles={role: facts.roles.get(role) for role in ROLES},
        add_special_tokens=TemplateIds(
            before=list(tokenizer.frame.before), after=list(tokenizer.frame.after)
        ),
        chat_template=None if entry.template_sha256 is None else Hash(sha256=entry.template_sha256),
        coverage=facts.coverage,
        round_trip=facts.round_trip,
        probes=Probes(
            count=probe_count(tokenizer, entry.chat),
            sha256=artifact.probes or probes_digest(tokenizer, entry.chat),
        ),
    )


def list_catalog(catalog: Catalog) -> Listing:
    """The /tokenizers answer."""
    return Listing(
        tokenizers=[
            Listed(
                name=entry.name,
                aliases=list(entry.artifact.aliases),
                format=entry.artifact.format,
                vocab_size=entry.vocabulary_size,
                fingerprint=entry.fingerprint,
                round_trip=entry.tokenizer.facts.round_trip,
            )
            for entry in catalog
        ]
    )
