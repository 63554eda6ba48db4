"""The fast engine's guard: where it answers, where the reference does, what a difference does."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api.app import create_app
from service.catalog.catalog import load_catalog
from service.catalog.certificates import CERTIFICATES_NAME, read_certificates, write_certificates
from service.catalog.probes import PROBES
from service.core.alignment import Unit
from service.engines.certify import CertificationError, compare, random_texts
from service.engines.fast import SAMPLE_EVERY, Difference, FastTokenizer, guarded
from service.errors import ArtifactError
from service.settings import Settings
from tests.asgi import AppClient
from tests.locks import EMBEDDED

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from service.catalog.catalog import Catalog

CERTIFIED = ("r50k_base", "cl100k_base", "o200k_base", "o200k_harmony")


@dataclasses.dataclass
class Ids:
    """What the fast library answers."""

    ids: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class Engine:
    """An engine that gives an id no tokenizer has, so that a test sees who answered."""

    def encode_ordinary(self, text: str) -> Ids:
        return Ids([-1] * len(text))


def fast_of(catalog: Catalog, name: str) -> FastTokenizer:
    tokenizer = catalog.resolve(name).tokenizer
    assert isinstance(tokenizer, FastTokenizer)
    return tokenizer


def test_the_embedded_certificates_hold_for_what_is_installed(catalog: Catalog) -> None:
    states = {entry.name: entry.engine_state for entry in catalog}
    assert {name for name, state in states.items() if state == "fast"} == set(CERTIFIED)
    assert set(states.values()) == {"fast", "uncertified"}


@pytest.mark.parametrize("name", CERTIFIED)
def test_ids_and_counts_are_the_reference_s(catalog: Catalog, name: str) -> None:
    fast = fast_of(catalog, name)
    texts = (*PROBES, *random_texts(3000, fast.controls))
    for text in texts:
        expected = fast.reference.encode(text)
        assert fast.encode(text) == expected, ascii(text)
        assert fast.count(text) == len(expected), ascii(text)
        aligned, reference = fast.align(text, []), fast.reference.align(text, [])
        assert aligned.offsets(Unit.BYTE) == reference.offsets(Unit.BYTE), ascii(text)


def test_a_known_exception_goes_to_the_reference(catalog: Catalog) -> None:
    text = "'S'\u017f'SA"
    fast = fast_of(catalog, "o200k_base")
    assert fast.encode(text) == fast.reference.encode(text)
    assert fast._engine(text).ids != fast.reference.encode(text), "the exception is a real one"


def test_off_means_off() -> None:
    states = {entry.engine_state for entry in load_catalog(EMBEDDED, fast=False)}
    assert states == {"off"}


@pytest.fixture
def wrong(catalog: Catalog) -> FastTokenizer:
    """The reference of cl100k_base behind an engine that is always wrong."""
    engine: Any = Engine()
    reference = fast_of(catalog, "cl100k_base").reference
    return FastTokenizer("cl100k_base", reference, engine, "\u017f")


def answered_fast(tokenizer: FastTokenizer, text: str) -> bool:
    return -1 in tokenizer.encode(text)


def test_one_text_in_a_thousand_is_answered_by_both(wrong: FastTokenizer) -> None:
    seen: list[Difference] = []
    wrong.on_difference = seen.append
    answers = [answered_fast(wrong, "Stra\u00dfe") for _ in range(SAMPLE_EVERY)]
    assert answers == [True] * (SAMPLE_EVERY - 1) + [False], "the reference's ids are given"
    assert [(found.tokenizer, found.ascii) for found in seen] == [("cl100k_base", False)]
    assert "Stra" not in str(seen)
    assert not answered_fast(wrong, "Stra\u00dfe"), "texts beyond ASCII are off the fast engine"
    assert answered_fast(wrong, "street"), "ASCII is not"


def test_a_difference_in_ascii_takes_all_texts_off(wrong: FastTokenizer) -> None:
    for _ in range(SAMPLE_EVERY):
        wrong.count("street")
    assert not answered_fast(wrong, "street")
    assert not answered_fast(wrong, "Stra\u00dfe")
    assert wrong.count("street") == len(wrong.reference.encode("street"))


def test_an_exception_never_reaches_the_engine(wrong: FastTokenizer) -> None:
    assert not answered_fast(wrong, "'\u017f")
    assert answered_fast(wrong, "'s")


def test_a_difference_is_counted_and_logged(
    catalog: Catalog, wrong: FastTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog.resolve("cl100k_base"), "tokenizer", wrong)
    wrong._until_sample = 1
    with AppClient(create_app(Settings(log_requests="off"), catalog)) as client:
        answer = client.post("/encode", {"tokenizer": "cl100k_base", "text": "Hello world"}).json()
        assert answer["ids"] == [9906, 1917]
        scrape = client.get("/metrics").text
    assert 'tokenizer_engine_differences_total{tokenizer="cl100k_base"} 1.0' in scrape


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "fast"),
        ({"fingerprint": "sha256:" + "0" * 64}, "stale"),
        ({"reference": "tiktoken==0.0.1"}, "stale"),
        ({"engine": "fastokens==0.0.1"}, "stale"),
    ],
)
def test_a_certificate_is_for_one_artifact_and_two_versions(
    catalog: Catalog, change: dict[str, str], state: str
) -> None:
    certificate = read_certificates(EMBEDDED)["cl100k_base"]
    certified = (certificate.fingerprint, certificate.reference)
    engine: Any = Engine()
    reference = fast_of(catalog, "cl100k_base").reference
    held = msgspec.structs.replace(certificate, **change)
    assert guarded("x", reference, held, certified, lambda: engine)[1] == state
    assert guarded("x", reference, None, certified, lambda: engine) == (reference, "uncertified")
    if state == "fast":
        assert guarded("x", reference, held, certified, lambda: None)[1] == "not loaded"


def test_certificates_are_written_as_they_are_read(tmp_path: pathlib.Path) -> None:
    assert read_certificates(tmp_path) == {}
    held = read_certificates(EMBEDDED)
    write_certificates(tmp_path, reversed(held.values()))
    written = (tmp_path / CERTIFICATES_NAME).read_bytes()
    assert written == (EMBEDDED / CERTIFICATES_NAME).read_bytes()
    (tmp_path / CERTIFICATES_NAME).write_bytes(written[:-9])
    with pytest.raises(ArtifactError, match=CERTIFICATES_NAME):
        read_certificates(tmp_path)


def test_comparing_finds_the_character_at_fault(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.engines.certify._RANDOM_TEXTS", 300)
    monkeypatch.setattr("service.engines.certify.sys.maxunicode", 0x300)
    tokenizer = fast_of(catalog, "cl100k_base").reference

    def wrong_on(bad: str) -> Callable[[str], list[int]]:
        return lambda text: [*tokenizer.encode(text), *([0] if bad in text else [])]

    assert compare(tokenizer, tokenizer.encode, ["a"]) == (301, 0x301, "")
    assert compare(tokenizer, wrong_on("\u00df"), ["a"])[2] == "\u00df"
    assert compare(tokenizer, wrong_on("\u0915"), ["\u0915"])[2] == "\u0915", "beyond the sweep"
    with pytest.raises(CertificationError):
        compare(tokenizer, wrong_on("b"), ["a"])
    with pytest.raises(CertificationError):
        compare(tokenizer, wrong_on("zq"), ["\u00e9zq"])
