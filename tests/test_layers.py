"""The import rule of the design, who may touch what, and how long files and functions are."""

from __future__ import annotations

import ast
import functools
import pathlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
SERVICE = ROOT / "service"
FILES = sorted(SERVICE.rglob("*.py"))

# Imports point down only. What stands in one line may not import what stands in the same line,
# itself excepted.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("server",),
    ("api",),
    ("catalog",),
    ("engines",),
    ("formats",),
    ("core",),
    ("settings", "metrics", "log"),
    ("errors",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
ALONE: dict[str, set[str]] = {"settings": {"errors"}, "metrics": set(), "log": set()}
"""What these may import of ours at most."""
FROM_THE_API_UP = {"__main__", "cli", "server", "api"}
"""The parts that may know settings, metrics and log: what is below them is not configured."""

TOKENIZER_LIBRARIES = {"tiktoken", "tokenizers", "sentencepiece"}
OWN_ENCODER = {"minbpe": "service.core.pair_merge"}
"""Formats without a library, and the module of ours that gives their ids."""

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50


def name_of(path: pathlib.Path) -> str:
    """The module's dotted name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@functools.cache
def imports_of(module: str) -> frozenset[str]:
    """Every module that a module imports: wherever the import stands, for types alone included."""
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
    return frozenset(found)


def part_of(module: str) -> str:
    """The layer's name: `service.api.door` is in `api`."""
    return module.split(".")[1] if "." in module else ""


def own_imports(module: str) -> set[str]:
    """The parts of ours that a module imports; `service` itself holds the version alone."""
    return {
        part_of(imported)
        for imported in imports_of(module)
        if imported.startswith("service.") and part_of(imported) != part_of(module)
    }


def library_imports(module: str) -> set[str]:
    return {imported.split(".")[0] for imported in imports_of(module)} - {"service"}


def test_every_module_is_in_a_layer() -> None:
    assert {part_of(module) for module in MODULES} - {""} <= set(RANK)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    part = part_of(module)
    if not part:
        assert own_imports(module) == set()
        return
    for imported in own_imports(module):
        assert RANK[imported] > RANK[part], f"{module} imports {imported}"
        if imported in ALONE:
            assert part in FROM_THE_API_UP, f"{module} imports {imported}"
    if part in ALONE:
        assert own_imports(module) <= ALONE[part]


@pytest.mark.parametrize(
    ("library", "part"), [("prometheus_client", "metrics"), ("litestar", "api"), ("click", "cli")]
)
def test_a_library_has_one_home(library: str, part: str) -> None:
    importers = {part_of(module) for module in MODULES if library in library_imports(module)}
    assert importers == {part}


def test_tokenizer_libraries_are_known_to_formats_and_engines_alone() -> None:
    importers = {
        part_of(module) for module in MODULES if TOKENIZER_LIBRARIES & library_imports(module)
    }
    assert importers <= {"formats", "engines"}


def formats() -> list[str]:
    """The public formats: modules whose name has no underscore in front."""
    return [
        module
        for module, path in MODULES.items()
        if part_of(module) == "formats" and not path.name.startswith("_")
    ]


@pytest.mark.parametrize("module", formats())
def test_a_format_stands_on_one_library_and_on_no_other_format(module: str) -> None:
    libraries: set[str] = set()
    seen, waiting = {module}, [module]
    while waiting:
        current = waiting.pop()
        libraries |= library_imports(current) & TOKENIZER_LIBRARIES
        for imported in imports_of(current):
            if part_of(imported) != "formats" or imported in seen:
                continue
            helper = imported.rpartition(".")[2]
            assert imported == "service.formats" or helper.startswith("_"), imported
            seen.add(imported)
            waiting.append(imported)
    own = OWN_ENCODER.get(module.rpartition(".")[2])
    if own is None:
        assert len(libraries) == 1, libraries
    else:
        assert libraries == set()
        assert own in imports_of(module)


def attributes(module: str) -> Iterator[tuple[str, str]]:
    """(name, attribute) of every `name.attribute` in the code."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_the_environment_is_read_in_one_place(module: str) -> None:
    touching = {("os", name) for name in ("environ", "environb", "getenv", "putenv", "unsetenv")}
    found = touching & set(attributes(module))
    assert not found or module == "service.settings", found


OPENERS = {"open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "memmap"}
MAY_OPEN = {
    "service.api.keys": "the file of API keys",
    "service.catalog.verify": "the files of artifacts",
    "service.catalog.lock": "the lock",
    "service.catalog.certificates": "the certificates beside the lock",
    "service.engines.builders": "memory that a library takes by its path alone",
}


@pytest.mark.parametrize("module", MODULES)
def test_files_are_opened_in_few_places(module: str) -> None:
    found = {
        ast.unparse(node.func)
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in OPENERS)
            or (isinstance(node.func, ast.Attribute) and node.func.attr in OPENERS)
        )
    }
    assert not found or module in MAY_OPEN, found


def test_those_places_do_open_files() -> None:
    """Else the test above would pass for looking at nothing."""
    for module in MAY_OPEN:
        calls = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call)]
        assert any(
            isinstance(call.func, ast.Attribute) and call.func.attr in OPENERS for call in calls
        ), module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_too_long(path: pathlib.Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("module", MODULES)
def test_no_function_is_too_long(module: str) -> None:
    long = {
        node.name: length
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}
