"""The commands, one function each."""

from __future__ import annotations

import gc
import importlib
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec

from service import __version__
from service.catalog.certificates import read_certificates, write_certificates
from service.catalog.loading import certify_entry, load_catalog, load_entry
from service.catalog.lock import read_lock
from service.engines.certify import CertificationError
from service.errors import ArtifactError, SettingsError, UnknownTokenizer
from service.log import configure_logging
from service.settings import load_settings, prepare_libraries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.catalog.catalog import Entry
    from service.catalog.lock import LockedArtifact
    from service.settings import Settings

EXIT_USAGE = 2
EXIT_ARTIFACTS = 3

_INSTALLED_ARTIFACTS = Path(__file__).parent / "artifacts"
_CHECKOUT_ARTIFACTS = Path(__file__).parent.parent / "artifacts"


def artifacts_root(settings: Settings) -> Path:
    """The folder with the lock: the one configured, or the one that comes with the service."""
    if settings.artifacts:
        return Path(settings.artifacts)
    return _INSTALLED_ARTIFACTS if _INSTALLED_ARTIFACTS.is_dir() else _CHECKOUT_ARTIFACTS


def _settings(**overrides: object) -> Settings:
    try:
        return load_settings(overrides=overrides)
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)


def _refuse(error: ArtifactError) -> NoReturn:
    click.echo(f"refused: {error}", err=True)
    sys.exit(EXIT_ARTIFACTS)


@click.group()
@click.version_option(__version__, prog_name="tokenizer-service")
def main() -> None:
    """Text to token ids and back, exact to the reference libraries."""
    prepare_libraries()


@main.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Processes that answer.")
@click.option("--artifacts", help="Folder with artifacts.lock.")
def serve(host: str | None, port: int | None, workers: int | None, artifacts: str | None) -> None:
    """Verify the artifacts and serve them over HTTP. Exit status 3 when one is refused."""
    settings = _settings(listen_host=host, listen_port=port, workers=workers, artifacts=artifacts)
    configure_logging()
    # As the first process of a container this one has no default handlers: without one, a
    # SIGTERM while the artifacts load would be lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # It would go through all that is loaded several times; it is on again once that is settled.
    gc.disable()
    # What serves takes half a second to import: meanwhile the libraries build their engines,
    # for which they do not need the interpreter.
    importing = threading.Thread(target=importlib.import_module, args=["service.server.workers"])
    importing.start()
    try:
        catalog = load_catalog(artifacts_root(settings), fast=settings.fast == "on")
    except ArtifactError as error:
        _refuse(error)
    finally:
        importing.join()
    from service.server.workers import serve as serve_workers  # noqa: PLC0415 - said above

    try:
        status = serve_workers(settings, catalog)
    except SettingsError as error:
        click.echo(f"error: {error}", err=True)
        status = EXIT_USAGE
    except OSError as error:
        where = f"{settings.listen_host}:{settings.listen_port}"
        click.echo(f"error: can't listen on {where}: {error.strerror}", err=True)
        status = 1
    sys.exit(status)


@main.command()
@click.option("--artifacts", help="Folder with artifacts.lock.")
def verify(artifacts: str | None) -> None:
    """Check every artifact of the lock and print a table. Exit status 3 when one is refused."""
    root = artifacts_root(_settings(artifacts=artifacts))
    try:
        locked = read_lock(root)
    except ArtifactError as error:
        _refuse(error)
    rows: list[Sequence[str]] = [
        ("artifact", "format", "file", "bytes", "sha256", "fingerprint", "self-test")
    ]
    refused: list[ArtifactError] = []
    for artifact in locked:
        try:
            entry = load_entry(root, artifact)
        except ArtifactError as error:
            refused.append(error)
            rows += _rows(artifact, "-", "REFUSED")
        else:
            pinned = "ok" if artifact.probes else "ok, probes not pinned"
            rows += _rows(artifact, entry.fingerprint, pinned)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    for refusal in refused:
        click.echo(f"refused: {refusal}", err=True)
    if refused:
        sys.exit(EXIT_ARTIFACTS)


def _rows(artifact: LockedArtifact, fingerprint: str, outcome: str) -> list[Sequence[str]]:
    """One row a file; what belongs to the artifact stands in its first."""
    return [
        (
            artifact.name if first else "",
            artifact.format if first else "",
            file.path,
            str(file.bytes),
            file.sha256[:16],
            fingerprint.removeprefix("sha256:")[:16] if first else "",
            outcome if first else "",
        )
        for first, file in zip([True] + [False] * len(artifact.file), artifact.file, strict=False)
    ]


@main.command()
@click.argument("names", nargs=-1)
@click.option("--artifacts", help="Folder with artifacts.lock.")
def certify(names: tuple[str, ...], artifacts: str | None) -> None:
    """Compare the fast engine with the references and write certificates beside the lock.

    About a minute an artifact; of all artifacts, or of those NAMED.
    """
    root = artifacts_root(_settings(artifacts=artifacts))
    try:
        certificates = read_certificates(root)
        for artifact in read_lock(root):
            if names and artifact.name not in names:
                continue
            certificates.pop(artifact.name, None)
            try:
                certificate = certify_entry(root, artifact)
            except CertificationError as error:
                click.echo(f"{artifact.name}: not certified: {error}", err=True)
                continue
            if certificate is None:
                click.echo(f"{artifact.name}: no fast engine")
                continue
            certificates[artifact.name] = certificate
            held = f"but for {certificate.exceptions!r}" if certificate.exceptions else "all"
            click.echo(f"{artifact.name}: {certificate.texts} texts, {held} equal")
    except ArtifactError as error:
        _refuse(error)
    write_certificates(root, certificates.values())


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="The whole answer of GET /fingerprint.")
@click.option("--artifacts", help="Folder with artifacts.lock.")
def fingerprint(name: str | None, artifacts: str | None, *, as_json: bool) -> None:
    """Print the fingerprint of one tokenizer, or of all."""
    root = artifacts_root(_settings(artifacts=artifacts))
    try:
        entries = _chosen(root, name)
    except ArtifactError as error:
        _refuse(error)
    except UnknownTokenizer as error:
        click.echo(f"error: {error.detail} {error.members}", err=True)
        sys.exit(EXIT_USAGE)
    if not as_json:
        for entry in entries:
            click.echo(f"{entry.fingerprint}  {entry.name}")
        return
    # With it comes all that serves, which no other command needs.
    from service.api.descriptions import Descriptions, describe  # noqa: PLC0415

    described = [describe(entry) for entry in entries]
    answer = described[0] if name else Descriptions(fingerprints=described)
    click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def _chosen(root: Path, name: str | None) -> list[Entry]:
    """Every entry, or the one with a name or alias, alone of all loaded."""
    locked = read_lock(root)
    if name is not None:
        names = [artifact.name for artifact in locked]
        locked = [artifact for artifact in locked if name in (artifact.name, *artifact.aliases)]
        if not locked:
            raise UnknownTokenizer(names)
    return [load_entry(root, artifact) for artifact in locked]
