"""Canonical description -> digest: what makes two tokenizers the same one.

docs/fingerprint.md describes the canonical form in full, so that anybody can compute it again.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DESCRIPTION_VERSION = 1
"""Moves when the canonical description itself changes shape; every fingerprint moves with it."""

POLICY_RULES = 1
"""Moves when CONTRACT section 2 changes: which spellings are control spellings, what each policy
makes of them."""


def digest(data: bytes) -> str:
    """SHA-256 in the notation used everywhere in the service: `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no blanks and no escapes but those that JSON needs, as UTF-8."""
    return msgspec.json.encode(value, order="deterministic")


def fingerprint(
    *,
    artifact_format: str,
    files: Iterable[tuple[str, str]],
    options: Mapping[str, object],
    controls: Mapping[str, int],
    before: Iterable[int],
    after: Iterable[int],
    chat_template: str | None,
) -> str:
    """The fingerprint of a tokenizer: a SHA-256 over all that decides ids and text.

    `files` are (role, SHA-256 in hex); `options` are the options that differ from their defaults,
    so that writing a default out changes nothing; `controls` are spelling to id; `before` and
    `after` are the template's ids; `chat_template` is the template's SHA-256 in hex.
    The library's version is left out: an upgrade that keeps the ids keeps the fingerprint, and
    the lock's probes stop the start with one that doesn't.
    """
    description = {
        "version": DESCRIPTION_VERSION,
        "policy_rules": POLICY_RULES,
        "format": artifact_format,
        "files": sorted([role, sha256] for role, sha256 in files),
        "options": dict(options),
        "special_tokens": dict(controls),
        "template": {"before": list(before), "after": list(after)},
        "chat_template": chat_template,
    }
    return digest(canonical_json(description))


def vocabulary_digest(vocabulary: Mapping[int, bytes]) -> str:
    """SHA-256 over the (id, bytes) pairs in the order of their ids.

    Each pair is hashed as the id and the number of bytes, both as 8-byte big-endian unsigned
    integers, and then the bytes.
    """
    state = hashlib.sha256()
    for token_id, token in sorted(vocabulary.items()):
        state.update(struct.pack(">QQ", token_id, len(token)))
        state.update(token)
    return "sha256:" + state.hexdigest()


def probe_digest(ids_per_probe: Iterable[list[int]]) -> str:
    """SHA-256 over the ids of the probe corpus: canonical JSON of the list of lists."""
    return digest(canonical_json(list(ids_per_probe)))
