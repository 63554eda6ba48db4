"""The commands: what they print, and the status with which they end."""

from __future__ import annotations

import base64
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from click.testing import CliRunner, Result

from service import __version__
from service.cli import main
from tests.locks import DATA, EMBEDDED_LOCK, LockedFolder
from tests.serving import run, serving

if TYPE_CHECKING:
    import pathlib

RANKS = b"".join(b"%s %d\n" % (base64.b64encode(bytes([byte])), byte) for byte in range(256))
OPTIONS = {"pattern": r"\w+|\W+", "special_tokens": {"<|end|>": 300}}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> LockedFolder:
    """Two small artifacts, one of two files."""
    folder = LockedFolder(tmp_path / "artifacts")
    folder.add("small", "tiktoken", {"ranks": RANKS}, OPTIONS, aliases=["tiny"])
    tokenizer = (DATA / "synthetic" / "template.tokenizer.json").read_bytes()
    folder.add("framed", "tokenizer_json", {"tokenizer": tokenizer, "config": b"{}"})
    return folder


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine sets is not what is tested."""
    for name in ("ARTIFACTS", "LISTEN_HOST", "LISTEN_PORT", "WORKERS", "LOG_REQUESTS"):
        monkeypatch.delenv(f"TOKENIZER_{name}", raising=False)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def spoil(folder: LockedFolder, place: int = 0) -> str:
    """Change a byte of an artifact's first file; its path in the lock."""
    path: str = folder.artifacts[place]["file"][0]["path"]
    data = bytearray((folder.root / path).read_bytes())
    data[10] ^= 1
    (folder.root / path).write_bytes(data)
    return path


def test_help_names_every_command() -> None:
    done = command("--help")
    assert done.exit_code == 0
    for name in ("serve", "verify", "fingerprint"):
        assert name in done.output
        assert command(name, "--help").exit_code == 0


def test_version() -> None:
    assert __version__ in command("--version").output


def test_an_unknown_command_is_a_usage_error() -> None:
    assert command("no-such").exit_code == 2
    assert command("serve", "--no-such").exit_code == 2


# ---- verify -------------------------------------------------------------------------------


def test_verify(folder: LockedFolder) -> None:
    done = command("verify", "--artifacts", str(folder.root))
    assert done.exit_code == 0
    header, *rows = done.stdout.splitlines()
    assert re.split(r"\s{2,}", header) == [
        "artifact",
        "format",
        "file",
        "bytes",
        "sha256",
        "fingerprint",
        "self-test",
    ]
    assert len(rows) == 3, "one row a file"
    for file in (file for artifact in folder.artifacts for file in artifact["file"]):
        (row,) = (row for row in rows if file["path"] in row)
        assert str(file["bytes"]) in row
        assert file["sha256"][:16] in row
    assert "small" in rows[0]
    assert "tiktoken" in rows[0]
    assert "ok" in rows[0]
    assert "not pinned" in rows[0]


def test_verify_of_a_refused_artifact(folder: LockedFolder) -> None:
    path = spoil(folder)
    done = command("verify", "--artifacts", str(folder.root))
    assert done.exit_code == 3
    (line,) = done.stderr.splitlines()
    assert "'small'" in line
    assert path in line
    assert folder.artifacts[0]["file"][0]["sha256"] in line
    (row,) = (row for row in done.stdout.splitlines() if row.startswith("small"))
    assert "REFUSED" in row
    (row,) = (row for row in done.stdout.splitlines() if row.startswith("framed"))
    assert "ok" in row, "the others are checked all the same"


def test_verify_lists_all_that_are_refused(folder: LockedFolder) -> None:
    paths = [spoil(folder, 0), spoil(folder, 1)]
    folder.add("third", "gguf", {"model": b"x"})
    done = command("verify", "--artifacts", str(folder.root))
    assert done.exit_code == 3
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    for line, part in zip(lines, [*paths, "'third'"], strict=True):
        assert part in line


def test_verify_of_a_malformed_lock(folder: LockedFolder) -> None:
    folder.lock.write_text("version = 2\n", encoding="utf-8")
    done = command("verify", "--artifacts", str(folder.root))
    assert done.exit_code == 3
    (line,) = done.stderr.splitlines()
    assert "artifacts.lock" in line
    assert done.stdout == ""


def test_verify_as_a_process(folder: LockedFolder) -> None:
    spoil(folder)
    done = run("verify", "--artifacts", str(folder.root))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_artifacts_by_environment(folder: LockedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZER_ARTIFACTS", str(folder.root))
    assert "framed" in command("verify").stdout
    other = LockedFolder(folder.root / "other")
    other.add("third", "tiktoken", {"ranks": RANKS}, OPTIONS)
    done = command("verify", "--artifacts", str(other.root))
    assert "third" in done.stdout, "an option wins over the environment"
    assert "framed" not in done.stdout


# ---- fingerprint --------------------------------------------------------------------------


def fingerprints(*arguments: str) -> list[tuple[str, str]]:
    done = command("fingerprint", *arguments)
    assert done.exit_code == 0, done.stderr
    pairs = (line.split() for line in done.stdout.splitlines())
    return [(name, fingerprint) for fingerprint, name in pairs]


def test_fingerprint_of_all(folder: LockedFolder) -> None:
    found = fingerprints("--artifacts", str(folder.root))
    assert [name for name, _ in found] == ["small", "framed"]
    for _, fingerprint in found:
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", fingerprint)


def test_fingerprint_of_one(folder: LockedFolder) -> None:
    both = fingerprints("--artifacts", str(folder.root))
    assert fingerprints("small", "--artifacts", str(folder.root)) == both[:1]
    assert fingerprints("tiny", "--artifacts", str(folder.root)) == both[:1], "by its alias"


def test_fingerprint_of_an_embedded_artifact() -> None:
    name = "minbpe-service"
    assert fingerprints(name) == [(name, EMBEDDED_LOCK[name]["fingerprint"])]


def test_fingerprint_of_one_asks_nothing_of_the_others(folder: LockedFolder) -> None:
    spoil(folder, 1)
    assert fingerprints("small", "--artifacts", str(folder.root))
    assert command("fingerprint", "--artifacts", str(folder.root)).exit_code == 3
    assert command("fingerprint", "framed", "--artifacts", str(folder.root)).exit_code == 3


def test_fingerprint_of_what_is_not_there(folder: LockedFolder) -> None:
    done = command("fingerprint", "no-such", "--artifacts", str(folder.root))
    assert done.exit_code == 2
    assert "small" in done.stderr, "it says what there is"
    assert done.stdout == ""


def test_fingerprint_as_json(folder: LockedFolder) -> None:
    done = command("fingerprint", "small", "--json", "--artifacts", str(folder.root))
    one: dict[str, Any] = json.loads(done.stdout)
    assert (one["tokenizer"], one["format"]) == ("small", "tiktoken")
    assert one["special_tokens"] == {"<|end|>": 300}
    done = command("fingerprint", "--json", "--artifacts", str(folder.root))
    both = json.loads(done.stdout)
    assert [page["tokenizer"] for page in both["fingerprints"]] == ["small", "framed"]
    assert both["fingerprints"][0] == one


# ---- serve --------------------------------------------------------------------------------


def test_serve(folder: LockedFolder) -> None:
    with serving(folder.root) as service:
        pages = httpx.get(f"{service.url}/fingerprint").json()["fingerprints"]
        body = {"tokenizer": "tiny", "text": "hi"}
        answer = httpx.post(f"{service.url}/encode", json=body).json()
        assert answer["ids"] == [104, 105]
        assert service.stop() == 0
    done = command("fingerprint", "--json", "--artifacts", str(folder.root))
    assert json.loads(done.stdout)["fingerprints"] == pages, "the command says what the route says"


def test_serve_refuses(folder: LockedFolder) -> None:
    path = spoil(folder)
    done = run("serve", "--port", "0", "--artifacts", str(folder.root))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "'small'" in line
    assert path in line
    assert done.stdout == ""


def test_serve_without_artifacts(tmp_path: pathlib.Path) -> None:
    done = run("serve", "--port", "0", "--artifacts", str(tmp_path))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_serve_on_a_port_that_is_taken(folder: LockedFolder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for workers in ("1", "2"):
            done = run(
                "serve", "--port", port, "--workers", workers, "--artifacts", str(folder.root)
            )
            assert done.returncode == 1
            (line,) = done.stderr.splitlines()
            assert port in line


@pytest.mark.parametrize(
    "arguments", [["--port", "70000"], ["--port", "-1"], ["--workers", "0"], ["--port", "http"]]
)
def test_serve_with_an_option_that_can_t_be(arguments: list[str], folder: LockedFolder) -> None:
    done = command("serve", "--artifacts", str(folder.root), *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_options_of_serve_win_over_the_environment(folder: LockedFolder) -> None:
    variables = {
        "TOKENIZER_LISTEN_PORT": "1",
        "TOKENIZER_LISTEN_HOST": "192.0.2.1",
        "TOKENIZER_WORKERS": "2",
        "TOKENIZER_ARTIFACTS": "no-such-folder",
    }
    arguments = ["--host", "127.0.0.1", "--workers", "1"]
    with serving(folder.root, arguments, variables=variables) as service:
        listening = json.loads(service.log().splitlines()[0])
        assert listening["host"] == "127.0.0.1"
        assert listening["workers"] == 1


def test_settings_of_the_environment_reach_the_service(folder: LockedFolder) -> None:
    variables = {
        "TOKENIZER_ARTIFACTS": str(folder.root),
        "TOKENIZER_MAX_TEXT_BYTES": "3",
        "TOKENIZER_LOG_REQUESTS": "all",
    }
    with serving(variables=variables) as service:
        body = {"tokenizer": "small", "text": "four"}
        answer = httpx.post(f"{service.url}/count", json=body).json()
        assert (answer["code"], answer["limit"]) == ("text_too_large", 3)
        routes = [json.loads(line).get("route") for line in service.log().splitlines()]
        assert "/count" in routes


def test_a_setting_that_can_t_be_is_a_usage_error(folder: LockedFolder) -> None:
    done = run(
        "serve",
        "--port",
        "0",
        "--artifacts",
        str(folder.root),
        variables={"TOKENIZER_MAX_IDS": "many"},
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "TOKENIZER_MAX_IDS" in line
