"""The lock: what it must say, what it may say, and the one line for everything else."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest

from service.catalog.lock import parse_lock, read_lock
from service.errors import ArtifactError
from tests.locks import EMBEDDED, EMBEDDED_LOCK, LOCK_NAME, toml_lines, toml_value

if TYPE_CHECKING:
    from collections.abc import Callable

SHA256 = "0" * 64


def a_file(**changes: Any) -> dict[str, Any]:
    return {"role": "ranks", "path": "a/a.data", "sha256": SHA256, "bytes": 1, **changes}


def an_artifact(**changes: Any) -> dict[str, Any]:
    return {
        "name": "one",
        "format": "tiktoken",
        "license": "CC0-1.0",
        "source": "made for a test",
        "file": [a_file()],
        **changes,
    }


def lock_of(*artifacts: dict[str, Any], **top: Any) -> bytes:
    """A lock with these artifacts; a value of None leaves a key out."""
    tables = {"version": 1, "artifact": list(artifacts), **top}
    return toml_lines({key: value for key, value in tables.items() if value is not None}).encode()


def without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


def refusal(data: bytes) -> str:
    """The one line with which a lock is refused."""
    with pytest.raises(ArtifactError) as caught:
        parse_lock(data)
    line = str(caught.value)
    assert len(line.splitlines()) == 1, line
    return line


def test_a_whole_lock() -> None:
    (artifact,) = parse_lock(
        lock_of(
            an_artifact(
                aliases=["two", "a.b_c-9"],
                fingerprint=f"sha256:{SHA256}",
                probes=f"sha256:{SHA256}",
                options={"pattern": "x", "special_tokens": {"<|end|>": 1}},
            )
        )
    )
    assert (artifact.name, artifact.format, artifact.aliases) == (
        "one",
        "tiktoken",
        ["two", "a.b_c-9"],
    )
    assert artifact.options == {"pattern": "x", "special_tokens": {"<|end|>": 1}}
    (file,) = artifact.file
    assert (file.role, file.path, file.sha256, file.bytes) == ("ranks", "a/a.data", SHA256, 1)


def test_what_may_be_left_out() -> None:
    (artifact,) = parse_lock(lock_of(an_artifact()))
    assert (artifact.aliases, artifact.options) == ([], {})
    assert (artifact.fingerprint, artifact.probes) == (None, None)


def test_the_embedded_lock() -> None:
    artifacts = read_lock(EMBEDDED)
    assert [artifact.name for artifact in artifacts] == list(EMBEDDED_LOCK)
    for artifact in artifacts:
        assert artifact.fingerprint is not None, "every embedded artifact pins its fingerprint"
        assert artifact.probes is not None, "every embedded artifact pins its probes"


def test_the_order_of_the_lock_is_kept() -> None:
    names = ["zebra", "ant", "bee"]
    artifacts = parse_lock(lock_of(*(an_artifact(name=name) for name in names)))
    assert [artifact.name for artifact in artifacts] == names


@pytest.mark.parametrize("name", ["a", "A", "0", ".", "-", "_", "a" * 64, "gpt-3.5-turbo"])
def test_names(name: str) -> None:
    assert parse_lock(lock_of(an_artifact(name=name)))[0].name == name
    assert parse_lock(lock_of(an_artifact(aliases=[name])))[0].aliases == [name]


BAD_NAMES = ["", " ", "a b", "a/b", "a:b", "é", "a" * 65, "a\n", "\na", "a\0", "a\\b", 'a"b']


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_name(name: str) -> None:
    refusal(lock_of(an_artifact(name=name)))
    refusal(lock_of(an_artifact(aliases=[name])))


CHANGES: dict[str, Callable[[], bytes]] = {
    "an unknown key at the top": lambda: lock_of(an_artifact(), checked=True),
    "an unknown key of an artifact": lambda: lock_of(an_artifact(alias=["two"])),
    "an unknown key of a file": lambda: lock_of(an_artifact(file=[a_file(sha512="0")])),
    "another version": lambda: lock_of(an_artifact(), version=2),
    "a version in quotes": lambda: lock_of(an_artifact(), version="1"),
    "no version": lambda: lock_of(an_artifact(), version=None),
    "no artifacts": lock_of,
    "no list of artifacts": lambda: lock_of(artifact=None),
    "an artifact without files": lambda: lock_of(an_artifact(file=[])),
    "a role that nothing has": lambda: lock_of(an_artifact(file=[a_file(role="weights")])),
    "a short hash": lambda: lock_of(an_artifact(file=[a_file(sha256="0" * 63)])),
    "a long hash": lambda: lock_of(an_artifact(file=[a_file(sha256="0" * 65)])),
    "a hash in capitals": lambda: lock_of(an_artifact(file=[a_file(sha256="A" * 64)])),
    "a hash with its kind": lambda: lock_of(an_artifact(file=[a_file(sha256="sha256:" + SHA256)])),
    "a hash and a line end": lambda: lock_of(an_artifact(file=[a_file(sha256=SHA256 + "\n")])),
    "a negative size": lambda: lock_of(an_artifact(file=[a_file(bytes=-1)])),
    "a size with a fraction": lambda: lock_of(an_artifact(file=[a_file(bytes=1.5)])),
    "a size in quotes": lambda: lock_of(an_artifact(file=[a_file(bytes="1")])),
    "a size that is true": lambda: lock_of(an_artifact(file=[a_file(bytes=True)])),
    "a bare fingerprint": lambda: lock_of(an_artifact(fingerprint=SHA256)),
    "an empty fingerprint": lambda: lock_of(an_artifact(fingerprint="")),
    "bare probes": lambda: lock_of(an_artifact(probes=SHA256)),
    "an empty licence": lambda: lock_of(an_artifact(license="")),
    "an empty source": lambda: lock_of(an_artifact(source="")),
    "aliases in one string": lambda: lock_of(an_artifact(aliases="two")),
    "options that are no table": lambda: lock_of(an_artifact(options=["pattern"])),
    "an empty path": lambda: lock_of(an_artifact(file=[a_file(path="")])),
    "an empty file": lambda: b"",
    "no TOML": lambda: b"version = ",
    "JSON": lambda: b'{"version": 1}',
    "a cut lock": lambda: lock_of(an_artifact())[:-20],
    "a Git LFS pointer": lambda: b"version https://git-lfs.github.com/spec/v1\n",
    "no UTF-8": lambda: lock_of(an_artifact()) + b"# \xff",
    "a key twice": lambda: b"version = 1\nversion = 1\n",
    "a number that Python does not read": lambda: b"version = " + b"1" * 5000,
    "deep nesting": lambda: b"version = " + b"[" * 100_000,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_malformed_lock(change: str) -> None:
    assert LOCK_NAME in refusal(CHANGES[change]())


@pytest.mark.parametrize("key", ["name", "format", "license", "source", "file"])
def test_a_key_that_an_artifact_lacks(key: str) -> None:
    assert key in refusal(lock_of(without(an_artifact(), key)))


@pytest.mark.parametrize("key", ["role", "path", "sha256", "bytes"])
def test_a_key_that_a_file_lacks(key: str) -> None:
    assert key in refusal(lock_of(an_artifact(file=[without(a_file(), key)])))


@pytest.mark.parametrize(
    "artifacts",
    [
        [an_artifact(name="twice"), an_artifact(name="twice")],
        [an_artifact(name="one"), an_artifact(name="two", aliases=["one"])],
        [an_artifact(name="one", aliases=["two"]), an_artifact(name="two")],
        [an_artifact(name="one", aliases=["x"]), an_artifact(name="two", aliases=["x"])],
        [an_artifact(name="one", aliases=["x", "x"])],
        [an_artifact(name="one", aliases=["one"])],
    ],
    ids=["names", "alias of a name", "name of an alias", "aliases", "own aliases", "own name"],
)
def test_a_name_that_stands_twice(artifacts: list[dict[str, Any]]) -> None:
    line = refusal(lock_of(*artifacts))
    assert repr(artifacts[-1]["name"]) in line
    assert "twice" in line


def test_a_name_in_another_case_is_another_name() -> None:
    assert len(parse_lock(lock_of(an_artifact(name="A"), an_artifact(name="a")))) == 2


def test_two_files_of_one_role() -> None:
    line = refusal(lock_of(an_artifact(file=[a_file(), a_file(path="b")])))
    assert "'one'" in line
    assert "role" in line


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a/../../b",
        "/etc/passwd",
        "/",
        "//a",
        "a\\b",
        "..\\a",
        "C:\\a",
        "a\0b",
        "\0",
    ],
)
def test_a_path_that_leaves_the_folder(path: str) -> None:
    line = refusal(lock_of(an_artifact(file=[a_file(path=path)])))
    assert "'one'" in line
    assert repr(path) in line


@pytest.mark.parametrize(
    "path", ["a", "a/b/c", "./a", "a..b", "...", "a/...", "..a/b", "é/東", "a b"]
)
def test_a_path_that_stays(path: str) -> None:
    assert parse_lock(lock_of(an_artifact(file=[a_file(path=path)])))[0].file[0].path == path


def test_a_lock_that_is_not_there(tmp_path: pathlib.Path) -> None:
    for root in (tmp_path, tmp_path / "none", pathlib.Path("/dev/null")):
        with pytest.raises(ArtifactError, match=LOCK_NAME) as caught:
            read_lock(root)
        assert len(str(caught.value).splitlines()) == 1


def test_a_lock_that_is_a_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    with pytest.raises(ArtifactError, match=LOCK_NAME):
        read_lock(tmp_path)


def test_read_lock_reads_what_parse_lock_parses(tmp_path: pathlib.Path) -> None:
    data = lock_of(an_artifact())
    (tmp_path / LOCK_NAME).write_bytes(data)
    assert read_lock(tmp_path) == parse_lock(data)


def test_the_writer_of_these_tests_writes_toml() -> None:
    """Else a refusal above could be for the wrong reason."""
    value = {"a b": ['é\x7f"\\\n', 1, True, {"": "<|x|>"}]}
    assert toml_value(value) == '{ "a b" = ["é\\u007F\\"\\\\\\n", 1, true, { "" = "<|x|>" }] }'
    artifact = an_artifact(options=value)
    assert parse_lock(lock_of(artifact))[0].options == value
