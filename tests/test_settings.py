"""Settings: every variable of CONTRACT section 5, its default, and what it refuses."""

from __future__ import annotations

import os

import msgspec
import pytest

from service.errors import SettingsError
from service.settings import (
    PREFIX,
    Settings,
    described_settings,
    load_settings,
    prepare_libraries,
    variable_of,
)

MEBIBYTE = 1024 * 1024

CONTRACT: dict[str, object] = {
    "TOKENIZER_LISTEN_HOST": "127.0.0.1",
    "TOKENIZER_LISTEN_PORT": 8000,
    "TOKENIZER_WORKERS": 1,
    "TOKENIZER_ARTIFACTS": "",
    "TOKENIZER_LOG_REQUESTS": "errors",
    "TOKENIZER_MAX_BODY_BYTES": 16 * MEBIBYTE,
    "TOKENIZER_MAX_TEXT_BYTES": 2 * MEBIBYTE,
    "TOKENIZER_MAX_DETAIL_TEXT_BYTES": 256 * 1024,
    "TOKENIZER_MAX_BATCH_ITEMS": 4096,
    "TOKENIZER_MAX_IDS": 1_048_576,
    "TOKENIZER_MAX_CHUNKS": 65_536,
    "TOKENIZER_MAX_PENDING_BYTES": 64 * MEBIBYTE,
    "TOKENIZER_REQUEST_TIMEOUT_SECONDS": 30,
    "TOKENIZER_ENGINE_TIMEOUT_SECONDS": 60,
    "TOKENIZER_MAX_HEADER_BYTES": 64 * 1024,
    "TOKENIZER_HEADER_TIMEOUT_SECONDS": 10,
    "TOKENIZER_BODY_IDLE_TIMEOUT_SECONDS": 10,
    "TOKENIZER_IDLE_TIMEOUT_SECONDS": 10,
    "TOKENIZER_KEEP_ALIVE_SECONDS": 75,
    "TOKENIZER_DRAIN_SECONDS": 5,
    "TOKENIZER_SHUTDOWN_SECONDS": 20,
}

FIELDS = {variable_of(field): field for field in Settings.__struct_fields__}


def test_every_variable_of_the_contract_is_there() -> None:
    assert set(CONTRACT) <= set(FIELDS)


@pytest.mark.parametrize("variable", sorted(CONTRACT))
def test_defaults(variable: str) -> None:
    assert getattr(load_settings({}), FIELDS[variable]) == CONTRACT[variable]


def test_the_environment_is_empty_by_default_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument the process's own environment is read."""
    for variable in FIELDS:
        monkeypatch.delenv(variable, raising=False)
    assert load_settings() == Settings()
    monkeypatch.setenv("TOKENIZER_MAX_IDS", "7")
    assert load_settings().max_ids == 7


@pytest.mark.parametrize("field", Settings.__struct_fields__)
def test_every_setting_is_read_from_its_variable(field: str) -> None:
    default = getattr(Settings(), field)
    others: dict[str, object] = {"log_requests": "all", "fast": "off"}
    if field in others:
        value = others[field]
    elif isinstance(default, str):
        value = "somewhere"
    else:
        value = default + 1
    settings = load_settings({variable_of(field): str(value)})
    assert getattr(settings, field) == value
    assert type(getattr(settings, field)) is type(default)
    for other in set(Settings.__struct_fields__) - {field}:
        assert getattr(settings, other) == getattr(Settings(), other)


def test_variables_carry_the_unit_of_a_limit() -> None:
    for field in Settings.__struct_fields__:
        if isinstance(getattr(Settings(), field), int | float) and field not in {
            "listen_port",
            "workers",
        }:
            assert field.endswith(("_bytes", "_seconds", "_items", "_ids", "_chunks")), field


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOKENIZER_LISTEN_PORT", "http"),
        ("TOKENIZER_LISTEN_PORT", "-1"),
        ("TOKENIZER_LISTEN_PORT", "65536"),
        ("TOKENIZER_LISTEN_PORT", ""),
        ("TOKENIZER_LISTEN_PORT", "80.5"),
        ("TOKENIZER_WORKERS", "0"),
        ("TOKENIZER_WORKERS", "two"),
        ("TOKENIZER_MAX_BODY_BYTES", "0"),
        ("TOKENIZER_MAX_BODY_BYTES", "16MiB"),
        ("TOKENIZER_MAX_TEXT_BYTES", "-1"),
        ("TOKENIZER_MAX_IDS", "1.5"),
        ("TOKENIZER_MAX_BATCH_ITEMS", " "),
        ("TOKENIZER_KEEP_ALIVE_SECONDS", "-0.5"),
        ("TOKENIZER_KEEP_ALIVE_SECONDS", "long"),
        ("TOKENIZER_DRAIN_SECONDS", "nan"),
        ("TOKENIZER_SHUTDOWN_SECONDS", "inf"),
        ("TOKENIZER_LOG_REQUESTS", "none"),
        ("TOKENIZER_LOG_REQUESTS", "ALL"),
    ],
)
def test_a_value_that_can_t_be(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as caught:
        load_settings({variable: value})
    assert len(str(caught.value).splitlines()) == 1


def test_what_kubernetes_sets_for_a_service_named_tokenizer_is_not_ours() -> None:
    injected = {
        "TOKENIZER_PORT": "tcp://10.0.0.1:80",
        "TOKENIZER_PORT_80_TCP": "tcp://10.0.0.1:80",
        "TOKENIZER_PORT_80_TCP_ADDR": "10.0.0.1",
        "TOKENIZER_PORT_80_TCP_PORT": "80",
        "TOKENIZER_PORT_80_TCP_PROTO": "tcp",
        "TOKENIZER_SERVICE_HOST": "10.0.0.1",
        "TOKENIZER_SERVICE_PORT": "80",
        "TOKENIZER_SERVICE_PORT_HTTP": "80",
    }
    assert load_settings(injected) == Settings()


def test_overrides_win() -> None:
    environment = {"TOKENIZER_WORKERS": "3", "TOKENIZER_LISTEN_PORT": "9000"}
    settings = load_settings(environment, {"workers": 5, "listen_port": None})
    assert (settings.workers, settings.listen_port) == (5, 9000)


def test_an_override_is_checked_like_a_variable() -> None:
    with pytest.raises(SettingsError, match="TOKENIZER_LISTEN_PORT"):
        load_settings({}, {"listen_port": 70000})


def test_settings_are_frozen() -> None:
    settings = Settings()
    with pytest.raises(AttributeError):
        settings.workers = 2  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    rows = described_settings()
    assert [variable for variable, _, _ in rows] == list(FIELDS)
    for variable, default, description in rows:
        assert variable.startswith(PREFIX)
        assert default == str(getattr(Settings(), FIELDS[variable]))
        assert description.endswith(".")


def test_readiness_fails_long_before_kubernetes_kills() -> None:
    """The sum of both waits stays under its 30 seconds."""
    settings = Settings()
    assert settings.drain_seconds + settings.shutdown_seconds < 30


def test_libraries_are_prepared_unless_somebody_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    prepare_libraries()
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    prepare_libraries()
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"


def test_a_setting_survives_msgspec() -> None:
    """What a worker is given is what was read."""
    settings = load_settings({"TOKENIZER_DRAIN_SECONDS": "1.5"})
    assert msgspec.convert(msgspec.to_builtins(settings), Settings) == settings
