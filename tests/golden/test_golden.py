"""The loaded artifacts give, to the id, what the reference libraries gave when a person looked."""

from __future__ import annotations

import ast
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import make_golden
import pytest
import reference

from service.api.operations import Call
from service.api.operations.decode import DecodeBatchResponse, DecodeRequest, decode
from service.api.operations.encode import EncodeBatchResponse, EncodeRequest, EncodeResponse, encode
from service.catalog.loading import load_catalog
from service.core.policy import SpecialPolicy
from service.settings import Settings
from tests.locks import EMBEDDED, EMBEDDED_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.catalog.catalog import Catalog
    from service.core.tokenizer import Tokenizer

HERE = Path(__file__).parent
ARTIFACTS = sorted(EMBEDDED_LOCK)
SCRIPTS = [Path(make_golden.__file__), Path(reference.__file__)]

MAKER = "scripts/make_golden.py"

EVERY_ARTIFACT = pytest.mark.parametrize("artifact", ARTIFACTS)
EVERY_POLICY = pytest.mark.parametrize(
    "policy", [SpecialPolicy.LITERAL, SpecialPolicy.SPECIAL], ids=["literal", "special"]
)
BARE_AND_FRAMED = pytest.mark.parametrize("framed", [False, True], ids=["bare", "framed"])


@functools.cache
def golden(artifact: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / f"{artifact}.json").read_text(encoding="ascii"))
    return content


def expected_ids(case: dict[str, Any], policy: SpecialPolicy, *, framed: bool) -> list[int]:
    ids: list[int] = case[f"framed_{policy.value}" if framed else policy.value]
    return ids


@pytest.fixture(scope="module", params=["fast", "off"])
def either(request: pytest.FixtureRequest, catalog: Catalog) -> Catalog:
    """The embedded artifacts with their fast engines, and with the references alone."""
    return catalog if request.param == "fast" else load_catalog(EMBEDDED, fast=False)


@EVERY_ARTIFACT
@EVERY_POLICY
@BARE_AND_FRAMED
def test_encode_gives_the_ids(
    either: Catalog, artifact: str, policy: SpecialPolicy, *, framed: bool
) -> None:
    wrong = {}
    for case in golden(artifact)["cases"]:
        request = EncodeRequest(
            tokenizer=artifact,
            text=case["text"],
            special_policy=policy,
            add_special_tokens=framed,
        )
        answer = encode(request, Call(either, Settings()))
        assert isinstance(answer, EncodeResponse)
        expected = expected_ids(case, policy, framed=framed)
        assert answer.count == len(answer.ids)
        if answer.ids != expected:
            wrong[case["id"]] = (answer.ids, expected)
    assert not wrong


@EVERY_ARTIFACT
def test_a_batch_gives_the_ids(either: Catalog, artifact: str) -> None:
    cases = golden(artifact)["cases"]
    request = EncodeRequest(
        tokenizer=artifact, texts=[case["text"] for case in cases], add_special_tokens=True
    )
    answer = encode(request, Call(either, Settings()))
    assert isinstance(answer, EncodeBatchResponse)
    assert [result.ids for result in answer.results] == [case["framed_literal"] for case in cases]


@EVERY_ARTIFACT
def test_decode_gives_the_text(catalog: Catalog, artifact: str) -> None:
    cases = golden(artifact)["cases"]
    request = DecodeRequest(tokenizer=artifact, batch=[case["literal"] for case in cases])
    answer = decode(request, Call(catalog, Settings()))
    assert isinstance(answer, DecodeBatchResponse)
    assert not {
        case["id"]: (result.text, case["decoded"])
        for case, result in zip(cases, answer.results, strict=True)
        if result.text != case["decoded"]
    }


@EVERY_ARTIFACT
def test_the_versions_are_those_installed(artifact: str) -> None:
    """Another version of a library: run `make golden` and read what moved."""
    content = golden(artifact)
    assert content["artifact"] == artifact
    assert content["version"] == reference.version_of(content["library"])


@EVERY_ARTIFACT
def test_the_file_is_what_the_script_makes(artifact: str) -> None:
    content = {**make_golden.golden(artifact), "python": golden(artifact)["python"]}
    assert make_golden.written(content) == (HERE / f"{artifact}.json").read_text(encoding="ascii")


@EVERY_ARTIFACT
def test_the_file_covers_what_it_has_to(
    artifact: str, tokenizer_of: Callable[[str], Tokenizer]
) -> None:
    cases = golden(artifact)["cases"]
    texts = [case["text"] for case in cases]
    assert len({case["id"] for case in cases}) == len(cases)
    assert len(make_golden.TEXTS) >= 60
    assert set(make_golden.TEXTS.values()) <= set(texts)
    controls = tokenizer_of(artifact).controls
    recognised = {token_id for case in cases for token_id in case["special"]}
    assert set(controls.values()) <= recognised
    assert all(any(spelling in text for text in texts) for spelling in controls)


def test_every_artifact_has_a_file_and_every_file_an_artifact() -> None:
    made = [
        path.stem for path in HERE.glob("*.json") if golden(path.stem).get("generator") == MAKER
    ]
    assert sorted(made) == ARTIFACTS
    assert sorted(reference.NAMES) == ARTIFACTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_script_does_not_need_the_service(script: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert "reference" in imported or "tokenizers" in imported
    assert not imported & {"service", "tests"}


KNOWN = [
    ("cl100k_base", "Hello world", [9906, 1917]),
    ("o200k_base", "Hello world", [13225, 2375]),
    ("gpt2", "Hello world", [15496, 995]),
    ("r50k_base", "Hello world", [15496, 995]),
    ("cl100k_base", "\U0001f389", [9468, 236, 231]),
]


@pytest.mark.parametrize(("artifact", "text", "ids"), KNOWN)
def test_known_answers(
    tokenizer_of: Callable[[str], Tokenizer], artifact: str, text: str, ids: list[int]
) -> None:
    tokenizer = tokenizer_of(artifact)
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode_special(text) == ids
    assert tokenizer.decode_bytes(ids).decode() == text


def test_known_answers_of_a_control_spelling(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    tokenizer = tokenizer_of("cl100k_base")
    literal = tokenizer.encode("<|endoftext|>")
    assert len(literal) == 7
    assert literal[:4] == [27, 91, 8862, 728]
    assert tokenizer.encode_special("<|endoftext|>") == [100257]
