"""Every environment variable, typed, with its unit in its name; the only user of os.environ."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from service.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "TOKENIZER_"
"""A setting's variable is this and its field's name in capitals."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one process. README's table of settings is made from these fields."""

    listen_host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    listen_port: Annotated[
        Port,
        Meta(
            description="Port to listen on. Not TOKENIZER_PORT, which Kubernetes sets for a "
            "service named tokenizer."
        ),
    ] = 8000
    workers: Annotated[
        Count, Meta(description="Processes that answer; all share the port and the metrics.")
    ] = 1
    artifacts: Annotated[
        str,
        Meta(
            description="Folder with artifacts.lock. Empty: the artifacts that come with the "
            "service."
        ),
    ] = ""
    fast: Annotated[
        Literal["on", "off"],
        Meta(description="Use the fast engine where a certificate proves it exact: on or off."),
    ] = "on"
    log_requests: Annotated[
        Literal["errors", "all", "off"],
        Meta(description="Which requests write a line to the log: errors, all or off."),
    ] = "errors"
    api_keys_file: Annotated[
        str,
        Meta(
            description="File with a name and the SHA-256 of an API key on each line. Empty: "
            "everybody may call."
        ),
    ] = ""
    tls_certificate_file: Annotated[
        str, Meta(description="Certificate chain (PEM). With it the service speaks TLS alone.")
    ] = ""
    tls_key_file: Annotated[
        str, Meta(description="Key of the certificate (PEM), unless it is in the same file.")
    ] = ""
    max_body_bytes: Annotated[
        Count, Meta(description="A longer body is 413 payload_too_large, read no further.")
    ] = 16 * 1024 * 1024
    max_text_bytes: Annotated[
        Count,
        Meta(
            description="A text of more bytes of UTF-8 is 422 text_too_large; in a batch, its "
            "item alone."
        ),
    ] = 2 * 1024 * 1024
    max_detail_text_bytes: Annotated[
        Count,
        Meta(description="The same with offsets, token_bytes or special_tokens_mask."),
    ] = 256 * 1024
    max_batch_items: Annotated[
        Count, Meta(description="More texts or lists of ids in a request are 422 too_many_items.")
    ] = 4096
    max_ids: Annotated[
        Count,
        Meta(description="A longer list of ids is 422 too_many_items; in a batch, its item alone."),
    ] = 1_048_576
    max_chunks: Annotated[
        Count, Meta(description="A text of more chunks is 422 too_many_items.")
    ] = 65_536
    max_pending_bytes: Annotated[
        Count,
        Meta(
            description="Bytes of bodies, times the tokenizers each asks for, that may wait for an "
            "engine; more is 503 overloaded."
        ),
    ] = 64 * 1024 * 1024
    request_timeout_seconds: Annotated[
        Seconds, Meta(description="A request that waits longer for an engine is 503 overloaded.")
    ] = 30.0
    engine_timeout_seconds: Annotated[
        Seconds,
        Meta(description="A call of a library that takes longer hangs: its process is replaced."),
    ] = 60.0
    max_header_bytes: Annotated[
        Count, Meta(description="A longer request line with its headers is 431 headers_too_large.")
    ] = 64 * 1024
    header_timeout_seconds: Annotated[
        Seconds,
        Meta(description="A head that takes longer from its first byte on closes the connection."),
    ] = 10.0
    body_idle_timeout_seconds: Annotated[
        Seconds,
        Meta(description="A body of which no byte comes for so long closes the connection."),
    ] = 10.0
    idle_timeout_seconds: Annotated[
        Seconds, Meta(description="How long a connection may wait before its first request.")
    ] = 10.0
    keep_alive_seconds: Annotated[
        Seconds,
        Meta(
            description="How long a connection may be idle between two requests, or read nothing "
            "of an answer."
        ),
    ] = 75.0
    drain_seconds: Annotated[
        Seconds,
        Meta(
            description="After SIGTERM: /readyz is 503 and requests are still served for this long."
        ),
    ] = 5.0
    shutdown_seconds: Annotated[
        Seconds,
        Meta(description="After draining: how long requests in flight may take to finish."),
    ] = 20.0


def variable_of(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def load_settings(
    environment: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Read the settings from the environment; `overrides` that are not None win over it.

    Raises SettingsError naming the variable, for a value that does not fit.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, object] = {
        field: environment[variable_of(field)]
        for field in Settings.__struct_fields__
        if variable_of(field) in environment
    }
    values |= {k: v for k, v in (overrides or {}).items() if v is not None}
    for field, value in values.items():
        try:
            values[field] = msgspec.convert(value, _type_of(field), strict=False)
        except msgspec.ValidationError as error:
            raise SettingsError(f"{variable_of(field)}: {error}") from None
    return msgspec.convert(values, Settings)


def _type_of(field: str) -> object:
    return get_type_hints(Settings, include_extras=True)[field]


def prepare_libraries() -> None:
    """Set the environment that the libraries read, unless it is set already.

    Thread pools do not survive a fork, and a worker has one core. fastokens would share a long
    text between threads, each with 8 to 32 MB of tables for each engine, and none was faster for
    it. numpy's library starts its threads when it is imported, and nothing here is for them.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def described_settings() -> list[tuple[str, str, str]]:
    """(variable, default, description) of every setting, for documentation."""
    rows = []
    defaults = Settings()
    for field in Settings.__struct_fields__:
        metas = [part for part in get_args(_type_of(field)) if isinstance(part, Meta)]
        description = next(meta.description for meta in metas if meta.description)
        rows.append((variable_of(field), str(getattr(defaults, field)), description or ""))
    return rows
