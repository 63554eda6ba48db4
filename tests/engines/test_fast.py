"""The fast engine's guard: where it answers, where the reference does, what a difference does."""

from __future__ import annotations

import dataclasses
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from service.api.app import create_app
from service.catalog.certificates import CERTIFICATES_NAME, read_certificates, write_certificates
from service.catalog.loading import load_catalog
from service.catalog.probes import PROBES
from service.core.alignment import Unit
from service.engines.certify import CertificationError, compare, documents, every_way, random_texts
from service.engines.fast import (
    SAMPLE_EVERY,
    SAMPLE_MAX_CHARACTERS,
    Certified,
    Difference,
    FastTokenizer,
    guarded,
    standing,
)
from service.errors import ArtifactError
from service.settings import Settings
from tests.asgi import AppClient
from tests.locks import EMBEDDED

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from service.catalog.catalog import Catalog

RANK_FILES = ("r50k_base", "cl100k_base", "o200k_base", "o200k_harmony")
WORD_BY_WORD = ("all-minilm-l6-v2", "bert-base-uncased", "clip-vit-large-patch14")
CERTIFIED = (*RANK_FILES, "gpt2", "minbpe-service", "mistral-7b-v0.3", *WORD_BY_WORD)


@dataclasses.dataclass
class Ids:
    """What the fast library answers."""

    ids: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class Engine:
    """An engine that gives an id no tokenizer has, so that a test sees who answered."""

    def encode(self, text: str) -> Ids:
        return Ids([-1] * len(text))

    def encode_batch_flat(self, texts: list[str]) -> tuple[bytes, bytes]:
        return b"\xff" * 4 * len(texts[0]), b""

    def added_tokens(self) -> list[dict[str, Any]]:
        return []


class PanicException(BaseException):
    """What a panic of the fast library looks like: its name is all that PyO3 tells."""


class Failing:
    """An engine that raises, and counts how often it was asked."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.asked = 0

    def encode(self, _: str) -> Ids:
        self.asked += 1
        raise self.error

    def encode_batch_flat(self, _: list[str]) -> tuple[bytes, bytes]:
        self.asked += 1
        raise self.error


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
        buffer = fast.encode_buffer(text)
        assert buffer is None or buffer == struct.pack(f"<{len(expected)}I", *expected), ascii(text)
        aligned, reference = fast.align(text, []), fast.reference.align(text, [])
        assert aligned.ids == expected, ascii(text)
        assert aligned.offsets(Unit.BYTE) == reference.offsets(Unit.BYTE), ascii(text)


@pytest.mark.parametrize("name", CERTIFIED)
def test_spans_are_aligned_by_the_reference(catalog: Catalog, name: str) -> None:
    fast = fast_of(catalog, name)
    spelling = min(fast.controls)
    text = f" caf\u00e9 {spelling}\u2581\u0301 x{spelling} "
    spans = fast.find_controls(text, None)
    assert len(spans) == 2
    aligned, reference = fast.align(text, spans), fast.reference.align(text, spans)
    assert aligned.ids == reference.ids == fast.encode_spans(text, spans)
    assert aligned.offsets(Unit.CODEPOINT) == reference.offsets(Unit.CODEPOINT)


@pytest.mark.parametrize("name", CERTIFIED)
def test_long_texts_are_the_reference_s(catalog: Catalog, name: str) -> None:
    """Other ways through the library: parts on several threads, and its caches overflowing."""
    fast = fast_of(catalog, name)
    for text in documents(fast.controls):
        if len(text) < 500_000:
            assert fast.encode(text) == fast.reference.encode(text)


@pytest.mark.parametrize("name", CERTIFIED)
def test_threads_share_an_engine(catalog: Catalog, name: str) -> None:
    fast = fast_of(catalog, name)
    texts = [*random_texts(600, fast.controls)]
    expected = [fast.reference.encode(text) for text in texts]

    def answers(first: int) -> bool:
        order = [*range(first, len(texts)), *range(first)]
        return all(fast.encode(texts[place]) == expected[place] for place in order)

    with ThreadPoolExecutor(max_workers=3) as threads:
        assert all(threads.map(answers, (0, 200, 400)))


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


def test_long_texts_wait_for_no_sample(wrong: FastTokenizer) -> None:
    """They are never sampled, and once made lists of ids for as long as no other text came."""
    wrong._until_sample = 1
    assert wrong.encode_buffer("a" * (SAMPLE_MAX_CHARACTERS + 1)) is not None
    assert wrong.encode_buffer("a" * SAMPLE_MAX_CHARACTERS) is None


def test_an_exception_never_reaches_the_engine(wrong: FastTokenizer) -> None:
    assert not answered_fast(wrong, "'\u017f")
    assert answered_fast(wrong, "'s")


def test_a_text_of_the_reference_is_counted_by_it_without_a_list(
    wrong: FastTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong.reference, "count", lambda _: 7)
    assert wrong.count("'\u017f") == 7
    assert wrong.count("street") == 6


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
    change: dict[str, str], state: str
) -> None:
    certificate = read_certificates(EMBEDDED)["cl100k_base"]
    certified = Certified(certificate.fingerprint, certificate.reference, certificate.engine)
    held = msgspec.structs.replace(certificate, **change)
    assert standing(held, certified) == state
    assert standing(None, certified) == "uncertified"


def test_without_an_engine_the_reference_answers(catalog: Catalog) -> None:
    certificate = read_certificates(EMBEDDED)["cl100k_base"]
    reference = fast_of(catalog, "cl100k_base").reference
    engine: Any = Engine()
    assert guarded("x", reference, certificate, None) == (reference, "not loaded")
    assert guarded("x", reference, certificate, engine)[1] == "fast"


@pytest.mark.parametrize("error", [ValueError("no"), PanicException("called unwrap()")])
def test_a_failure_is_a_difference(catalog: Catalog, error: BaseException) -> None:
    engine: Any = Failing(error)
    reference = fast_of(catalog, "cl100k_base").reference
    fast = FastTokenizer("cl100k_base", reference, engine, "")
    seen: list[Difference] = []
    fast.on_difference = seen.append
    assert fast.encode("Stra\u00dfe") == reference.encode("Stra\u00dfe")
    assert fast.count("Stra\u00dfe") == len(reference.encode("Stra\u00dfe"))
    assert engine.asked == 1, "once for texts beyond ASCII"
    assert fast.count("street") == len(reference.encode("street"))
    assert fast.encode("street") == reference.encode("street")
    assert engine.asked == 2, "once for ASCII"
    assert [found.ascii for found in seen] == [False, True]


def test_what_is_no_failure_passes_through(catalog: Catalog) -> None:
    engine: Any = Failing(KeyboardInterrupt())
    fast = FastTokenizer("cl100k_base", fast_of(catalog, "cl100k_base").reference, engine, "")
    for call in (fast.encode, fast.count):
        with pytest.raises(KeyboardInterrupt):
            call("street")
    assert fast.takes_all, "and says nothing of the engine"


def test_certificates_are_written_as_they_are_read(tmp_path: pathlib.Path) -> None:
    assert read_certificates(tmp_path) == {}
    held = read_certificates(EMBEDDED)
    write_certificates(tmp_path, reversed(held.values()))
    written = (tmp_path / CERTIFICATES_NAME).read_bytes()
    assert written == (EMBEDDED / CERTIFICATES_NAME).read_bytes()
    (tmp_path / CERTIFICATES_NAME).write_bytes(written[:-9])
    with pytest.raises(ArtifactError, match=CERTIFICATES_NAME):
        read_certificates(tmp_path)


def test_every_way_of_asking_an_engine_is_compared() -> None:
    class Counting(Engine):
        def encode(self, text: str) -> Ids:
            return Ids([1] * len(text))

        def encode_batch_flat(self, texts: list[str]) -> tuple[bytes, bytes]:
            return b"\1\0\0\0" * len(texts[0].rstrip("!")), b""

    differing: Any = Counting()
    assert every_way(differing)("ab") == [1, 1]
    assert every_way(differing)("ab!") == [-1], "the buffer is another"


def test_comparing_finds_the_character_at_fault(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.engines.certify._RANDOM_TEXTS", 300)
    monkeypatch.setattr("service.engines.certify.sys.maxunicode", 0x300)
    tokenizer = fast_of(catalog, "cl100k_base").reference

    def wrong_on(bad: str) -> Callable[[str], list[int]]:
        return lambda text: [*tokenizer.encode(text), *([0] if bad in text else [])]

    def wrong_when_long(text: str) -> list[int]:
        return tokenizer.encode(text)[: 65_536 // 2]

    monkeypatch.setattr("service.engines.certify._DOCUMENT_CHARACTERS", (4_000, 70_000))
    assert compare(tokenizer, tokenizer.encode, ["a"]) == (305, 0x301, "")
    assert compare(tokenizer, wrong_on("\u00df"), ["a"])[2] == "\u00df"
    assert compare(tokenizer, wrong_on("\u0915"), ["\u0915"])[2] == "\u0915", "beyond the sweep"
    with pytest.raises(CertificationError):
        compare(tokenizer, wrong_on("b"), ["a"])
    with pytest.raises(CertificationError):
        compare(tokenizer, wrong_on("zq"), ["\u00e9zq"])
    with pytest.raises(CertificationError):
        compare(tokenizer, wrong_when_long, ["a"])
