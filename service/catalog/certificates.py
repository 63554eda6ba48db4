"""certificates.json, beside the lock: what `tokenizer-service certify` has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from service.engines.certificate import Certificate  # noqa: TC001 - msgspec reads it
from service.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CERTIFICATES_NAME = "certificates.json"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    certificates: list[Certificate]


def read_certificates(root: Path) -> dict[str, Certificate]:
    """The certificates beside the lock, by artifact; none when there is no such file.

    Raises ArtifactError for a file that is malformed.
    """
    try:
        data = (root / CERTIFICATES_NAME).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ArtifactError("(all)", f"can't read it: {error}", file=CERTIFICATES_NAME) from None
    try:
        read = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:
        raise ArtifactError("(all)", f"malformed: {error}", file=CERTIFICATES_NAME) from None
    return {certificate.artifact: certificate for certificate in read.certificates}


def write_certificates(root: Path, certificates: Iterable[Certificate]) -> None:
    """Write the certificates beside the lock, in the order of the artifacts' names."""
    ordered = sorted(certificates, key=lambda certificate: certificate.artifact)
    body = msgspec.json.format(msgspec.json.encode(_File(1, ordered)), indent=2)
    (root / CERTIFICATES_NAME).write_bytes(body + b"\n")
