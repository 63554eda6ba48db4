"""What a tokenizer must show at start before the service is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.catalog.probes import PROBES, probes_digest
from service.core.faults import is_fault
from service.core.utf8 import is_utf8
from service.errors import ArtifactError

if TYPE_CHECKING:
    from service.catalog.chat import ChatTemplates
    from service.catalog.lock import LockedArtifact
    from service.core.tokenizer import Tokenizer


def self_test(artifact: LockedArtifact, tokenizer: Tokenizer, chat: ChatTemplates | None) -> None:
    """Raise ArtifactError unless the tokenizer keeps what its facts and the lock promise.

    Every control spelling gives its id where it is recognised and no control id where it is
    literal; decoding gives whole texts back as `round_trip` says; the probe ids are those pinned.
    """
    try:
        _check_controls(artifact, tokenizer)
        _check_round_trips(artifact, tokenizer)
    except BaseException as error:
        # A library that built a tokenizer of a malformed file may fail as soon as it is asked.
        if isinstance(error, ArtifactError) or not is_fault(error):
            raise
        reason = f"the self-test failed: {type(error).__name__}: {error}"
        raise ArtifactError(artifact.name, reason) from error
    if artifact.probes is not None:
        found = probes_digest(tokenizer, chat)
        if found != artifact.probes:
            raise ArtifactError(
                artifact.name,
                f"the probe ids moved: expected {artifact.probes}, found {found}; the version of "
                f"{tokenizer.facts.library} gives other ids than the one that pinned them",
            )


def _check_controls(artifact: LockedArtifact, tokenizer: Tokenizer) -> None:
    control_ids = set(tokenizer.controls.values()) - {tokenizer.unknown_id}
    for spelling, token_id in tokenizer.controls.items():
        spans = tokenizer.find_controls(spelling, None)
        recognised = tokenizer.encode_spans(spelling, spans)
        # The library recognises a spelling together with what its flags and its normalizer do to
        # it, so the id must be among those given rather than alone.
        if token_id not in recognised or recognised != tokenizer.encode_special(spelling):
            raise ArtifactError(
                artifact.name, f"special token {spelling!r} does not give its id {token_id}"
            )
        leaked = control_ids.intersection(tokenizer.encode(spelling))
        if leaked:
            raise ArtifactError(
                artifact.name, f"the literal text {spelling!r} gives control id {min(leaked)}"
            )


def _check_round_trips(artifact: LockedArtifact, tokenizer: Tokenizer) -> None:
    for text in PROBES:
        decoded = tokenizer.decode_bytes(tokenizer.encode(text))
        if tokenizer.facts.round_trip == "exact" and decoded != text.encode():
            raise ArtifactError(artifact.name, "a probe text does not decode to itself")
        if not is_utf8(decoded):
            raise ArtifactError(artifact.name, "a probe text decodes to bytes that are not UTF-8")
