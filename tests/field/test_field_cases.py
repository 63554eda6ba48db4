"""Failures that users of such systems reported, each run against this one.

tests/data/field.json holds the cases and tests/data/synthetic the files that were made for them.
Every expectation of every case is asserted in full.
"""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import functools
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest
import regex
from qwen3_package import QWEN3_PACKAGE, NotToBeHadError, qwen3

from service.api.app import create_app
from service.catalog.catalog import Catalog, Entry
from service.catalog.loading import load_catalog
from service.settings import Settings
from tests.asgi import JSON_TYPE, AppClient, OneLoop, problem
from tests.locks import DATA, EMBEDDED_LOCK, TESTS, LockedFolder, embedded_bytes
from tests.serving import environment, run, serving

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

CASES: list[dict[str, Any]] = json.loads((DATA / "field.json").read_text(encoding="utf-8"))

# ---- artifacts ----------------------------------------------------------------------------

EMBEDDED_AS = {
    "cl100k_base": (
        "cl100k_base",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "o200k_base",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "bert-base-uncased": (
        "bert-base-uncased",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    ),
    "mistral-7b-v0.3": (
        "mistral-7b-v0.3",
        "37f00374dea48658ee8f5d0f21895b9bc55cb0103939607c8185bfd1c6ca1f89",
    ),
    "t5": ("t5-base", "d60acb128cf7b7f2536e8f38a5b18a05535c9e14c7a355904270e15b0945ea86"),
}
"""A case's name of an artifact: the embedded one it means, and the hash of the file it knows."""

SYNTHETIC = {
    "syn_addedflags": "addedflags.tokenizer.json",
    "syn_baked_pad_trunc": "baked_pad_trunc.tokenizer.json",
    "syn_hole": "hole.tokenizer.json",
    "syn_hole_permuted": "hole_permuted.tokenizer.json",
    "syn_template": "template.tokenizer.json",
    "syn_uni_bytefb": "uni_bytefb.model",
    "syn_uni_nmt_nfkc": "uni_nmt_nfkc.model",
}
SYNTHETIC_OPTIONS = {"syn_uni_nmt_nfkc": {"ordinary_pieces": ["<sep>"]}}
ROLE_OF_FORMAT = {"sentencepiece": "model", "tokenizer_json": "tokenizer"}


def _synthetic_format(name: str) -> str:
    return "sentencepiece" if SYNTHETIC[name].endswith(".model") else "tokenizer_json"


def original(name: str) -> tuple[str, str, dict[str, Any], bytes]:
    """Format, role, options and bytes of an artifact that a case names."""
    if name in EMBEDDED_AS:
        embedded, sha256 = EMBEDDED_AS[name]
        locked = EMBEDDED_LOCK[embedded]
        (file,) = locked["file"]
        assert file["sha256"] == sha256, "the case was computed with another file"
        data = embedded_bytes(embedded, file["role"])
        return locked["format"], file["role"], locked["options"], data
    if name == "qwen3":
        return "tokenizer_json", "tokenizer", {}, qwen3()
    artifact_format = _synthetic_format(name)
    data = (DATA / "synthetic" / SYNTHETIC[name]).read_bytes()
    options = SYNTHETIC_OPTIONS.get(name, {})
    return artifact_format, ROLE_OF_FORMAT[artifact_format], options, data


def skip_unless_to_be_had(case: dict[str, Any]) -> None:
    if "qwen3" in case["artifacts"]:
        try:
            qwen3()
        except NotToBeHadError as reason:
            pytest.skip(f"{case['id']}: {QWEN3_PACKAGE} can't be had: {reason}")


def add(
    folder: LockedFolder, name: str, base: str, edited: bytes | None = None, *, lie: bool = False
) -> None:
    """Pin `base` in `folder` as `name`, with `edited` bytes; `lie`: with the old bytes' hash."""
    artifact_format, role, options, data = original(base)
    if edited is not None and not lie:
        data = edited
    written = {role: edited} if edited is not None else None
    folder.add(name, artifact_format, {role: data}, options, written=written)


@pytest.fixture(scope="module")
def entry_of(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Entry]:
    """The loaded artifact that a case names."""

    @functools.cache
    def loaded(name: str) -> Entry:
        if name in EMBEDDED_AS and EMBEDDED_AS[name][0] == name:
            return catalog.resolve(name)
        folder = LockedFolder(tmp_path_factory.mktemp("field") / name)
        add(folder, name, name)
        return load_catalog(folder.root).resolve(name)

    return loaded


# ---- one step -----------------------------------------------------------------------------


class Client(Protocol):
    """What AppClient and httpx.Client have in common."""

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response: ...


def expanded(value: Any) -> Any:
    """A body with `{"$repeat": [text, n]}` written out."""
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        return {key: expanded(item) for key, item in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def send(client: Client, step: dict[str, Any]) -> httpx.Response:
    if "raw_hex" in step:
        content = bytes.fromhex(step["raw_hex"])
    elif "body" in step:
        content = json.dumps(expanded(step["body"])).encode()
    else:
        return client.request(step["method"], step["path"])
    headers = {"content-type": JSON_TYPE}
    return client.request(step["method"], step["path"], content=content, headers=headers)


def run_step(client: Client, step: dict[str, Any]) -> httpx.Response:
    """Ask, and hold the answer against the expectation."""
    response = send(client, step)
    meet(client, step, response)
    return response


def meet(client: Client, step: dict[str, Any], response: httpx.Response) -> None:
    """Assert every part of a step's expectation."""
    expect = dict(step["expect"])
    holds("status", expect.pop("status"), response.status_code)
    assert response.headers["x-request-id"]
    body = response.json()
    code = expect.pop("code", None)
    if response.status_code >= httpx.codes.BAD_REQUEST:
        problem(response, response.status_code, body["code"])
    if code is not None:
        holds("code", code, body["code"])
    holds("body", expect.pop("has", {}), body)
    for unwanted in expect.pop("lacks", []):
        assert unwanted not in body["ids"]
    if "number" in expect:
        numbers = [value for value in body.values() if not isinstance(value, bool)]
        assert expect.pop("number") in numbers
    if "lists" in expect:
        assert expect.pop("lists") in strings_of(body)
    expect.pop("max_seconds", None)  # a figure for a quiet machine: no test asserts a time
    check = expect.pop("check", None)
    if check is not None:
        CHECKS[check](client, expanded(step["body"]), body)
    assert not expect, f"nobody looks at {sorted(expect)}"


def holds(where: str, expected: Any, actual: Any) -> None:
    """Assert that `actual` is, or contains, what is expected."""
    if isinstance(expected, dict) and set(expected) == {"$in"}:
        assert actual in expected["$in"], where
    elif isinstance(expected, dict):
        assert isinstance(actual, dict), where
        for key, value in expected.items():
            assert key in actual, f"{where}.{key}"
            holds(f"{where}.{key}", value, actual[key])
    elif isinstance(expected, list):
        assert isinstance(actual, list), where
        assert len(actual) == len(expected), f"{where}: {actual}"
        for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
            holds(f"{where}[{place}]", one, other)
    else:
        assert actual == expected, where
        assert isinstance(actual, bool) == isinstance(expected, bool), where


def strings_of(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


# ---- checks that ask the service again ----------------------------------------------------


def ask(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = send(client, {"method": "POST", "path": path, "body": body})
    assert response.status_code == httpx.codes.OK, response.text
    answer: dict[str, Any] = response.json()
    return answer


def counted(client: Client, body: dict[str, Any], text: str) -> int:
    """The count of a text alone, read as `body` reads its own."""
    same = ("tokenizer", "special_policy", "allowed_special", "add_special_tokens")
    kept = {key: body[key] for key in same if key in body}
    count: int = ask(client, "/count", {**kept, "text": text})["count"]
    return count


def cluster_edges(text: str) -> set[int]:
    """The places at which a text may be cut: between grapheme clusters."""
    return {0} | {found.end() for found in regex.finditer(r"\X", text)}


def check_chunks(client: Client, body: dict[str, Any], answer: dict[str, Any]) -> None:
    text, limit, overlap = body["text"], body["max_tokens"], body.get("overlap_tokens", 0)
    chunks, edges = answer["chunks"], cluster_edges(text)
    assert answer["chunk_count"] == len(chunks)
    assert answer["count"] == sum(chunk["count"] for chunk in chunks)
    assert answer["bytes"] == len(text.encode())
    end = 0
    for chunk in chunks:
        piece = text[chunk["start"] : chunk["end"]]
        assert chunk["text"] == piece
        assert counted(client, body, piece) == chunk["count"] <= limit
        assert chunk["start"] <= end < chunk["end"]
        if overlap:
            assert counted(client, body, text[chunk["start"] : end]) <= overlap
        else:
            assert chunk["start"] == end
        end = chunk["end"]
        if end not in edges:
            cluster = text[max(e for e in edges if e < end) : min(e for e in edges if e > end)]
            assert counted(client, body, cluster) > limit, "a cluster that fits was cut"
    assert end == len(text)


def check_truncate(client: Client, body: dict[str, Any], answer: dict[str, Any]) -> None:
    text, limit = body["text"], body["max_tokens"]
    assert body.get("keep", "start") == "start"
    kept, edges = answer["text"], cluster_edges(text)
    assert (answer["start"], answer["end"]) == (0, len(kept))
    assert text.startswith(kept)
    assert counted(client, body, kept) == answer["count"] <= limit
    assert answer["bytes"] == len(kept.encode())
    assert answer["truncated"] == (kept != text)
    assert len(kept) in edges
    whole = {key: value for key, value in body.items() if key not in ("max_tokens", "keep")}
    encoded = ask(client, "/encode", {**whole, "offsets": "codepoint"})
    spans = [span for span in encoded["offsets"] if span is not None]
    for _, end in reversed(spans[: limit - encoded["special_tokens_added"]]):
        if end in edges and counted(client, body, text[:end]) <= limit:
            assert len(kept) >= end
            break


def check_pieces(_: Client, body: dict[str, Any], answer: dict[str, Any]) -> None:
    assert len(answer["pieces"]) == len(body["ids"])
    assert "".join(answer["pieces"]) == answer["text"]


CHECKS: dict[str, Callable[[Client, dict[str, Any], dict[str, Any]], None]] = {
    "chunks": check_chunks,
    "truncate": check_truncate,
    "pieces": check_pieces,
}

# ---- cases over HTTP ----------------------------------------------------------------------


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in kinds]


def value_at(body: Any, path: str) -> Any:
    for key in path.split("."):
        body = body[key]
    return body


def run_case(client: Client, case: dict[str, Any]) -> None:
    """The steps of a case in turn, and the comparison of the first two answers."""
    answers = [run_step(client, step).json() for step in case["steps"]]
    for verdict, path in case.get("compare", []):
        equal = value_at(answers[0], path) == value_at(answers[1], path)
        assert equal == {"equal": True, "differ": False}[verdict], path


@pytest.mark.parametrize("case", of_kind("http"))
def test_case(case: dict[str, Any], entry_of: Callable[[str], Entry]) -> None:
    skip_unless_to_be_had(case)
    catalog = Catalog([entry_of(name) for name in case["artifacts"]])
    with AppClient(create_app(Settings(), catalog)) as client:
        run_case(client, case)
        if "concurrent" in case:
            run_concurrently(client, case)


def run_concurrently(client: AppClient, case: dict[str, Any]) -> None:
    """The steps of a case in turn, many times, from threads that share the application."""
    times, threads = case["concurrent"]["n"], case["concurrent"]["threads"]
    steps = case["steps"]
    loop = OneLoop()

    def work(_: int) -> None:
        with contextlib.closing(AppClient(client.app, loop)) as own:
            for _ in range(times):
                for step in steps:
                    meet(own, step, send(own, step))

    try:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(work, range(threads))) == [None] * threads
    finally:
        loop.end()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The real command over every artifact that a case names."""
    folder = LockedFolder(tmp_path_factory.mktemp("field-served"))
    over_http = [case for case in CASES if case["kind"] == "http"]
    for name in sorted({name for case in over_http for name in case["artifacts"]}):
        with contextlib.suppress(NotToBeHadError):
            add(folder, name, name)
    with serving(folder.root) as service, httpx.Client(base_url=service.url) as client:
        yield client


@pytest.mark.parametrize("case", of_kind("http"))
def test_case_over_a_socket(case: dict[str, Any], served: httpx.Client) -> None:
    """The server decides how a path is decoded and how a body arrives: it is in the way here."""
    skip_unless_to_be_had(case)
    run_case(served, case)


# ---- cases about starting -----------------------------------------------------------------


def edited(load: dict[str, Any]) -> bytes | None:
    """The bytes of the file as a load wants them; None: as they are."""
    if "text" in load:
        text: str = load["text"]
        return text.encode()
    if "data_of" in load:
        return original(load["data_of"])[3]
    data = original(load["base"])[3]
    changed = None
    for kind, argument in load.get("edit", {}).items():
        lines = data.splitlines(keepends=True)
        if kind == "first_lines":
            changed = b"".join(lines[:argument])
        elif kind == "drop_lines":
            changed = b"".join(lines[argument:])
        elif kind == "half":
            changed = data[: len(data) // 2]
        elif kind == "replace":
            old, new = (part.encode() for part in argument)
            assert old in data
            changed = data.replace(old, new)
        else:
            raise AssertionError(f"nobody knows the edit {kind}")
    return changed


NO_NETWORK = """
import sys


def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", None):
        raise OSError("the test allows no network")


sys.addaudithook(refuse)
"""


@pytest.mark.parametrize("case", of_kind("loader"))
def test_start(case: dict[str, Any], tmp_path: pathlib.Path) -> None:
    expect = case["expect"]
    for number, load in enumerate(case["loads"]):
        folder = LockedFolder(tmp_path / str(number))
        add(folder, "case", load["base"], edited(load), lie=load.get("lie", False))
        if "exit" in expect:
            refused_at_start(folder, expect["exit"])
            continue
        variables = {}
        if expect.get("no_network"):
            (tmp_path / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
            variables["PYTHONPATH"] = str(tmp_path)
            assert_no_network(variables)
        with (
            serving(folder.root, variables=variables) as service,
            httpx.Client(base_url=service.url) as client,
        ):
            for step in case.get("steps", []):
                run_step(client, step)
        if expect.get("no_network"):
            loads_without_a_network(folder)


def assert_no_network(variables: dict[str, str]) -> None:
    """Else a start below would show nothing."""
    code = "import socket; socket.create_connection(('192.0.2.1', 9), 1)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment(variables), capture_output=True, text=True, check=False
    )
    assert "the test allows no network" in done.stderr


def refused_at_start(folder: LockedFolder, status: int) -> None:
    """The command ends with this status and one line that names the artifact and the file."""
    done = run("serve", "--port", "0", "--artifacts", str(folder.root))
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    assert "'case'" in line
    assert folder.artifacts[0]["file"][0]["path"] in line
    assert done.stdout == ""


def loads_without_a_network(folder: LockedFolder) -> None:
    """The same load where not even a native library could reach a network."""
    unshare = shutil.which("unshare")
    command = [unshare or "unshare", "--map-root-user", "--net"]
    if unshare is None or subprocess.run([*command, "true"], check=False).returncode:
        return  # this machine has no such thing: the audit hook above has to do
    done = run("verify", "--artifacts", str(folder.root), prefix=command)
    assert done.returncode == 0, done.stderr


# ---- nothing is forgotten -----------------------------------------------------------------

COVERED_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "LN05": (
        "tests/contract/test_limits.py::test_a_declared_length_over_the_limit_is_refused_unread",
        "tests/contract/test_limits.py::test_a_streamed_body_is_read_no_further_than_the_limit",
        "tests/contract/test_media_types.py::test_an_encoded_body_is_refused",
    ),
    "ST04": ("issue 4: memory of a worker over never-repeating words",),
    "MT01": ("tests/server/test_workers.py::test_every_scrape_shows_all_workers",),
    "MT03": ("tests/contract/test_metrics.py::test_the_route_label_is_a_template",),
    "LC01": ("tests/server/test_process.py::test_sigterm_fails_readiness_first_and_exits_0",),
    "LT01": ("issue 2: loadtests/locustfile.py",),
}
"""Rules for metrics, life cycle and load: the test that holds each, or the issue that brings it."""


def test_every_case_is_run_or_covered_by_name() -> None:
    run_here = {case["id"] for case in CASES if case["kind"] in ("http", "loader")}
    others = {case["id"] for case in CASES if case["kind"] in ("service", "internal")}
    assert run_here | others == {case["id"] for case in CASES}, "a kind that nobody runs"
    assert len(CASES) == len(run_here) + len(others), "two cases have one id"
    assert others == set(COVERED_ELSEWHERE)


DECODED = [
    pytest.param(case, step, id=f"{case['id']}-{number}")
    for case in CASES
    if case["kind"] == "http"
    for number, step in enumerate(case["steps"])
    if step["path"] == "/decode"
    and "ids" in step.get("body", {})
    and step["body"].get("output", "text") == "text"
    and step["expect"]["status"] == httpx.codes.OK
]


@pytest.mark.parametrize(("case", "step"), DECODED)
def test_pieces_of_what_the_cases_decode(
    case: dict[str, Any], step: dict[str, Any], entry_of: Callable[[str], Entry]
) -> None:
    skip_unless_to_be_had(case)
    catalog = Catalog([entry_of(name) for name in case["artifacts"]])
    with AppClient(create_app(Settings(), catalog)) as client:
        body = expanded({**step["body"], "pieces": True})
        run_step(client, {**step, "body": body, "expect": {**step["expect"], "check": "pieces"}})


def test_every_check_exists_and_is_asked_for() -> None:
    steps = [step for case in CASES for step in case.get("steps", [])]
    asked = {step["expect"]["check"] for step in steps if "check" in step["expect"]}
    assert DECODED
    assert asked | {"pieces"} == set(CHECKS)


@pytest.mark.parametrize(
    "test", [place for places in COVERED_ELSEWHERE.values() for place in places]
)
def test_the_tests_named_for_other_cases_exist(test: str) -> None:
    if test.startswith("issue "):
        return
    file, _, function = test.partition("::")
    tree = ast.parse((TESTS.parent / file).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
