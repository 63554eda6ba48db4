"""The Dockerfile keeps its promises, and its steps work as far as they can without an engine.

Not run here: pulling the base image, and installing the dependencies from a registry.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from service.settings import described_settings
from tests.locks import EMBEDDED_LOCK
from tests.serving import READY_SECONDS, Served
from tests.test_packaging import requirement_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]

BASE = "python:3.11-slim-bookworm"

READ_ONLY = '''\
import errno, os, sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = {"os." + name for name in "mkdir rename remove rmdir link symlink truncate".split()}


def refuse(event, arguments):
    """What a read-only root file system does to Python code, and a line that says so."""
    writes = event == "open" and isinstance(arguments[0], str | bytes) and arguments[2] & WRITING
    if (writes or event in CHANGING) and os.fsdecode(arguments[0]) != os.devnull:
        os.write(2, f"WRITES {event} {arguments[0]!r}\\n".encode())
        raise OSError(errno.EROFS, "read-only file system")


sys.addaudithook(refuse)
'''
"""Run at the start of the interpreter of the installed service (site-packages/sitecustomize.py)."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """What follows one FROM."""

    base: str
    steps: list[tuple[str, str]]
    """Instruction and the rest of it, in order."""

    def of(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.steps if name == instruction]

    def place(self, instruction: str, part: str) -> int:
        """Where the one step with `part` in it stands."""
        (place,) = [
            place
            for place, (name, rest) in enumerate(self.steps)
            if name == instruction and part in rest
        ]
        return place

    @property
    def environment(self) -> dict[str, str]:
        pairs = (pair.partition("=") for line in self.of("ENV") for pair in line.split())
        return {name: value for name, _, value in pairs}


def parse(text: str) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first FROM, and the stages."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(None, "\n".join(lines).replace("\\\n", " ").splitlines()):
        instruction, rest = line.split(maxsplit=1)
        assert instruction.isupper(), line
        if instruction == "FROM":
            stages.append(Stage(rest, []))
        elif stages:
            stages[-1].steps.append((instruction, rest))
        else:
            assert instruction == "ARG"
            name, _, value = rest.partition("=")
            arguments[name] = value
    return arguments, stages


ARGUMENTS, (BUILD, IMAGE) = parse((ROOT / "Dockerfile").read_text(encoding="utf-8"))
HEALTH_CHECK: list[str] = json.loads(IMAGE.of("HEALTHCHECK")[0].partition(" CMD ")[2])
COMMAND: list[str] = [*json.loads(IMAGE.of("ENTRYPOINT")[0]), *json.loads(IMAGE.of("CMD")[0])]


def test_both_stages_stand_on_the_slim_base() -> None:
    assert ARGUMENTS == {"PYTHON": BASE}
    assert [BUILD.base, IMAGE.base] == ["${PYTHON} AS build", "${PYTHON}"]


def test_dependencies_are_a_layer_of_their_own_with_hashes() -> None:
    dependencies = BUILD.place("RUN", "requirements/runtime.txt")
    assert dependencies < BUILD.place("COPY", "service/")
    installs = re.findall(
        r"pip (?:--python \S+ )?(?:install|wheel) [^&\n]*", "\n".join(BUILD.of("RUN"))
    )
    assert len(installs) == 4
    for install in installs:
        assert ("--require-hashes" in install) != ("--no-index --no-deps" in install), install


def test_the_image_gets_nothing_but_the_installed_service() -> None:
    assert IMAGE.of("COPY") == ["--from=build /opt/tokenizer-service /opt/tokenizer-service"]
    assert not [step for step in IMAGE.of("RUN") if re.search(r"\b(pip|apt-get|curl|wget)\b", step)]
    assert not BUILD.of("ADD")
    assert not IMAGE.of("ADD")


def test_the_user_is_not_root_and_is_given_by_number() -> None:
    (user,) = IMAGE.of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    uid, _, gid = user.partition(":")
    assert f"--uid {uid} --gid {gid}" in IMAGE.of("RUN")[0]
    assert IMAGE.place("USER", user) > IMAGE.place("COPY", "--from=build")


def test_the_environment_of_the_image() -> None:
    environment = IMAGE.environment
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert environment["TOKENIZER_LISTEN_HOST"] == "0.0.0.0"
    settings = {variable for variable, _, _ in described_settings()}
    assert {name for name in environment if name.startswith("TOKENIZER_")} <= settings


def test_signals_and_port() -> None:
    defaults = {variable: default for variable, default, _ in described_settings()}
    assert IMAGE.of("STOPSIGNAL") == ["SIGTERM"]
    assert IMAGE.of("EXPOSE") == [defaults["TOKENIZER_LISTEN_PORT"]]
    assert f"'{defaults['TOKENIZER_LISTEN_PORT']}'" in HEALTH_CHECK[2]
    # JSON lists are exec form: no shell stands between the engine and the service.
    assert COMMAND == ["/opt/tokenizer-service/bin/tokenizer-service", "serve"]
    assert HEALTH_CHECK[:2] == ["/opt/tokenizer-service/bin/python", "-c"]
    assert "/readyz" in HEALTH_CHECK[2]


def test_the_engine_is_sent_what_is_copied_and_little_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {source for step in BUILD.of("COPY") for source in step.split()[:-1]}
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert copied == sent
    kept_out = [rule for rule in rules[1:] if not rule.startswith("!")]
    assert any(fnmatch.fnmatch("service/__pycache__/", rule) for rule in kept_out)


def test_what_builds_the_wheel_is_pinned_as_everywhere() -> None:
    # Each line is a pin with its hashes.
    build, dev = (requirement_lines(ROOT / "requirements" / f"{n}.txt") for n in ("build", "dev"))
    assert set(build) <= set(dev)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = requirement_lines(ROOT / "requirements" / "build.in")
    assert asked == project["build-system"]["requires"]
    assert any(line.startswith(asked[0]) for line in build)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel, built as the image builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A virtual environment with the wheel, and with the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", python)
    _run(*pip, "install", "--no-index", "--no-deps", "--quiet", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path in a .pth file comes last, and .pth files in it are not read: not the editable
    # install of this project, which must not hide the wheel.
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(dependencies), encoding="utf-8")
    (packages / "sitecustomize.py").write_text(READ_ONLY, encoding="utf-8")
    return folder


def _run(*command: str | pathlib.Path) -> None:
    """Run a step; what it says is shown when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_every_artifact(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert {"service/artifacts/artifacts.lock", "service/artifacts/NOTICE"} <= names
        for locked in EMBEDDED_LOCK.values():
            for file in locked["file"]:
                data = archive.read(f"service/artifacts/{file['path']}")
                assert hashlib.sha256(data).hexdigest() == file["sha256"]
        assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"service"}
        assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def _container_environment(installed: pathlib.Path, **more: str) -> dict[str, str]:
    """What a process in the container sees: no HOME, no settings but the image's."""
    path = f"{installed / 'bin'}:{os.defpath}"
    # Loopback instead of every interface of this machine.
    loopback = {"TOKENIZER_LISTEN_HOST": "127.0.0.1"}
    return {**IMAGE.environment, "PATH": path, **loopback, **more}


def _in_place(command: list[str], installed: pathlib.Path) -> list[str]:
    """A command of the image with the folder of this environment."""
    return [command[0].replace("/opt/tokenizer-service", str(installed)), *command[1:]]


@pytest.fixture
def started(installed: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Served]:
    """The command of the image, in an empty folder that can't be written."""
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o555)
    log = tmp_path / "log"
    environment = _container_environment(
        installed, TOKENIZER_LISTEN_PORT="0", TOKENIZER_DRAIN_SECONDS="0"
    )
    with log.open("wb") as stream:
        process = subprocess.Popen(
            _in_place(COMMAND, installed), cwd=empty, env=environment, stderr=stream
        )
    try:
        yield Served(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_the_installed_service_starts_is_healthy_and_stops(
    started: Served, installed: pathlib.Path
) -> None:
    started.wait_until_ready(READY_SECONDS)

    def healthy() -> bool:
        environment = _container_environment(installed, TOKENIZER_LISTEN_PORT=str(started.port))
        # A proxy that does not exist: the check must not ask it.
        environment["http_proxy"] = "http://127.0.0.1:9"
        check = _in_place(HEALTH_CHECK, installed)
        return not subprocess.run(
            check, env=environment, capture_output=True, timeout=30, check=False
        ).returncode

    assert healthy()
    assert started.stop() == 0
    assert not healthy()
    assert "WRITES" not in started.log()


def test_the_installed_service_is_the_wheel_and_the_guard_is_on(installed: pathlib.Path) -> None:
    """Else the test above would show nothing."""
    code = "import service, pathlib; print(service.__file__); pathlib.Path('x').write_text('')"
    asked = subprocess.run(
        [installed / "bin" / "python", "-c", code],
        cwd=installed,
        env=_container_environment(installed),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert asked.stdout.startswith(str(installed))
    assert "WRITES open 'x'" in asked.stderr
    assert asked.returncode != 0
