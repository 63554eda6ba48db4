"""GET /metrics: the series of CONTRACT section 6, their labels, and their values."""

from __future__ import annotations

import importlib.metadata
import re
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.operations import operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.metrics_core import Metric

    from service.catalog.catalog import Catalog
    from tests.asgi import AppClient

SERIES = {
    "tokenizer_request_duration_seconds": ("histogram", {"route", "status"}),
    "tokenizer_operation_duration_seconds": ("histogram", {"operation", "tokenizer"}),
    "tokenizer_tokens_per_byte": ("histogram", {"tokenizer"}),
    "tokenizer_tokens_total": ("counter", {"operation", "tokenizer"}),
    "tokenizer_text_bytes_total": ("counter", {"operation", "tokenizer"}),
    "tokenizer_special_spellings_total": ("counter", {"tokenizer", "policy"}),
    "tokenizer_unknown_tokens_total": ("counter", {"tokenizer"}),
    "tokenizer_decode_replacements_total": ("counter", {"tokenizer"}),
    "tokenizer_rejected_total": ("counter", {"reason"}),
    "tokenizer_in_flight": ("gauge", set()),
    "tokenizer_pending_bytes": ("gauge", set()),
    "tokenizer_artifact_info": ("gauge", {"tokenizer", "format", "fingerprint"}),
    "tokenizer_engine_info": ("gauge", {"library", "version"}),
    # Beyond the contract: the fast engine.
    "tokenizer_engine_differences_total": ("counter", {"tokenizer"}),
    "tokenizer_fast_engine": ("gauge", {"tokenizer", "state"}),
}
PAGES = {
    "/healthz",
    "/readyz",
    "/metrics",
    "/tokenizers",
    "/fingerprint",
    "/fingerprint/{name}",
    "/openapi.json",
}
ROUTES = {*operations(), *PAGES, "unmatched"}

TOKENIZER = "cl100k_base"
HELLO = {"tokenizer": TOKENIZER, "text": "Hello world"}
END = "<|endoftext|>"


class Scrape:
    """One answer of /metrics, read as Prometheus reads it."""

    def __init__(self, client: AppClient) -> None:
        self.text = client.get("/metrics").text
        self.families: dict[str, Metric] = {}
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(self.text):
            # The parser names a counter without its suffix.
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert name not in self.families, "a series stands twice"
            self.families[name] = family
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, "a sample stands twice"
                self.values[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """A sample's value; what is not shown never happened."""
        return self.values.get((f"tokenizer_{name}", frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels among theirs."""
        wanted = labels.items()
        return sum(
            value
            for (sample, found), value in self.values.items()
            if sample == f"tokenizer_{name}" and wanted <= set(found)
        )


@pytest.fixture
def fresh(new_client: Callable[..., AppClient]) -> AppClient:
    """A client of an application that has not answered anything yet."""
    return new_client()


def exercise(client: AppClient) -> None:
    """Something of everything, so that every series has a sample."""
    client.post("/encode", HELLO)
    client.post("/count", {"tokenizers": [TOKENIZER, "bert-base-uncased"], "text": f"{END} ภาษา"})
    client.post("/decode", {"tokenizer": TOKENIZER, "ids": [9468], "mode": "replace"})
    client.post("/encode", {})
    client.get("/fingerprint/gpt2")
    client.get("/no-such")


def test_the_media_type(fresh: AppClient) -> None:
    assert fresh.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_every_series_is_there_from_the_start(fresh: AppClient) -> None:
    scrape = Scrape(fresh)
    assert set(scrape.families) == set(SERIES)
    for name, (kind, _) in SERIES.items():
        assert scrape.families[name].type == kind
        assert scrape.families[name].documentation


@pytest.mark.parametrize("name", SERIES)
def test_labels_are_exactly_those_of_the_contract(fresh: AppClient, name: str) -> None:
    exercise(fresh)
    family = Scrape(fresh).families[name]
    kind, labels = SERIES[name]
    assert family.samples, "nothing was looked at"
    for sample in family.samples:
        more = {"le"} if kind == "histogram" and sample.name.endswith("_bucket") else set()
        assert set(sample.labels) == labels | more


def test_label_values_come_from_closed_sets(fresh: AppClient, catalog: Catalog) -> None:
    exercise(fresh)
    names = {entry.name for entry in catalog}
    sets: dict[str, set[str]] = {
        "route": ROUTES,
        "status": {"1xx", "2xx", "3xx", "4xx", "5xx"},
        "operation": {operation.name for operation in operations().values()},
        "tokenizer": names,
        "policy": {"literal", "special", "reject"},
    }
    for family in Scrape(fresh).families.values():
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label in sets:
                    assert value in sets[label]
                elif label == "reason":
                    assert re.fullmatch(r"[a-z0-9_]+", value)


def test_information(fresh: AppClient, catalog: Catalog) -> None:
    scrape = Scrape(fresh)
    for entry in catalog:
        labels = {
            "tokenizer": entry.name,
            "format": entry.artifact.format,
            "fingerprint": entry.fingerprint,
        }
        assert scrape.value("artifact_info", **labels) == 1
    for library in ("tiktoken", "tokenizers", "sentencepiece"):
        version = importlib.metadata.version(library)
        assert scrape.value("engine_info", library=library, version=version) == 1
    assert len(scrape.families["tokenizer_artifact_info"].samples) == len(list(catalog))


@pytest.mark.parametrize("operation", ["encode", "count"])
def test_tokens_and_bytes_of_texts(fresh: AppClient, operation: str) -> None:
    per = {"operation": operation, "tokenizer": TOKENIZER}
    for times in (1, 2):
        fresh.ok(f"/{operation}", HELLO)
        scrape = Scrape(fresh)
        assert scrape.value("tokens_total", **per) == 2 * times
        assert scrape.value("text_bytes_total", **per) == 11 * times
        assert scrape.value("operation_duration_seconds_count", **per) == times
        assert scrape.value("operation_duration_seconds_sum", **per) > 0
    assert scrape.total("tokens_total") == 4, "and of nothing else"


def test_an_alias_counts_for_its_artifact(fresh: AppClient) -> None:
    fresh.ok("/encode", {**HELLO, "tokenizer": "gpt-4"})
    assert Scrape(fresh).value("tokens_total", operation="encode", tokenizer=TOKENIZER) == 2


def test_template_ids_are_no_content(fresh: AppClient) -> None:
    body = {"tokenizer": "bert-base-uncased", "text": "hello", "add_special_tokens": True}
    assert fresh.ok("/encode", body)["count"] == 3
    scrape = Scrape(fresh)
    assert scrape.value("tokens_total", operation="encode", tokenizer="bert-base-uncased") == 1
    assert scrape.value("tokens_per_byte_sum", tokenizer="bert-base-uncased") == pytest.approx(
        1 / 5
    )


def test_tokens_per_byte_has_one_observation_a_text(fresh: AppClient) -> None:
    fresh.ok("/encode", {"tokenizer": TOKENIZER, "texts": ["Hello world", "", "🎉", ""]})
    scrape = Scrape(fresh)
    assert scrape.value("tokens_per_byte_count", tokenizer=TOKENIZER) == 2, "none for empty texts"
    assert scrape.value("tokens_per_byte_sum", tokenizer=TOKENIZER) == pytest.approx(2 / 11 + 3 / 4)
    buckets = {
        sample.labels["le"]: sample.value
        for sample in scrape.families["tokenizer_tokens_per_byte"].samples
        if sample.name.endswith("_bucket")
    }
    assert (buckets["0.15"], buckets["0.2"], buckets["0.6"]) == (0, 1, 1)
    assert (buckets["0.75"], buckets["+Inf"]) == (2, 2), "a bound belongs to its bucket"
    bounds = [float(bound) for bound in buckets if bound != "+Inf"]
    assert (bounds[0], bounds[-1]) == (0.05, 2.0)
    assert bounds == sorted(bounds)


def test_an_empty_text_alone_is_not_observed(fresh: AppClient) -> None:
    fresh.ok("/count", {**HELLO, "text": ""})
    scrape = Scrape(fresh)
    assert scrape.value("tokens_per_byte_count", tokenizer=TOKENIZER) == 0
    assert (
        scrape.value("operation_duration_seconds_count", operation="count", tokenizer=TOKENIZER)
        == 1
    )


def test_an_item_that_is_refused_is_not_counted(new_client: Callable[..., AppClient]) -> None:
    client = new_client(max_text_bytes=11)
    client.ok("/encode", {"tokenizer": TOKENIZER, "texts": ["Hello world", "x" * 12]})
    scrape = Scrape(client)
    assert scrape.value("tokens_total", operation="encode", tokenizer=TOKENIZER) == 2
    assert scrape.value("text_bytes_total", operation="encode", tokenizer=TOKENIZER) == 11
    assert scrape.value("tokens_per_byte_count", tokenizer=TOKENIZER) == 1


def test_several_tokenizers_count_each_for_itself(fresh: AppClient) -> None:
    fresh.ok("/count", {"tokenizers": [TOKENIZER, "gpt2"], "text": "Hello world"})
    scrape = Scrape(fresh)
    for name in (TOKENIZER, "gpt2"):
        assert scrape.value("text_bytes_total", operation="count", tokenizer=name) == 11
        assert (
            scrape.value("operation_duration_seconds_count", operation="count", tokenizer=name) == 1
        )
    assert scrape.value("request_duration_seconds_count", route="/count", status="2xx") == 1


def test_decoded_ids(fresh: AppClient) -> None:
    fresh.ok("/decode", {"tokenizer": TOKENIZER, "ids": [9906, 1917]})
    scrape = Scrape(fresh)
    assert scrape.value("tokens_total", operation="decode", tokenizer=TOKENIZER) == 2
    assert scrape.value("text_bytes_total", operation="decode", tokenizer=TOKENIZER) == 11
    assert (
        scrape.value("operation_duration_seconds_count", operation="decode", tokenizer=TOKENIZER)
        == 1
    )
    assert scrape.value("tokens_per_byte_count", tokenizer=TOKENIZER) == 0


def test_ids_decoded_to_bytes_are_as_many_bytes(fresh: AppClient) -> None:
    fresh.ok("/decode", {"tokenizer": TOKENIZER, "ids": [9906, 1917], "output": "bytes"})
    scrape = Scrape(fresh)
    assert scrape.value("tokens_total", operation="decode", tokenizer=TOKENIZER) == 2
    assert scrape.value("text_bytes_total", operation="decode", tokenizer=TOKENIZER) == 11


def test_replacements(fresh: AppClient) -> None:
    body = {"tokenizer": TOKENIZER, "mode": "replace"}
    fresh.ok("/decode", {**body, "ids": [9468, 9468]})
    fresh.ok("/decode", {**body, "batch": [[9468], [64], [231, 231, 231]]})
    assert Scrape(fresh).value("decode_replacements_total", tokenizer=TOKENIZER) == 6


@pytest.mark.parametrize("policy", ["literal", "special", "reject"])
def test_special_spellings(fresh: AppClient, policy: str) -> None:
    texts = [f"{END} and {END}", "none", "<|fim_prefix|>", "<|endoftxt|>"]
    fresh.ok("/count", {"tokenizer": TOKENIZER, "texts": texts, "special_policy": policy})
    scrape = Scrape(fresh)
    assert scrape.value("special_spellings_total", tokenizer=TOKENIZER, policy=policy) == 3
    assert scrape.total("special_spellings_total") == 3


def test_unknown_tokens(fresh: AppClient) -> None:
    fresh.ok("/count", {"tokenizer": "bert-base-uncased", "texts": ["ภาษา a", "hello", "東 ภาษา"]})
    scrape = Scrape(fresh)
    assert scrape.value("unknown_tokens_total", tokenizer="bert-base-uncased") == 2
    assert scrape.total("unknown_tokens_total") == 2


def test_rejections_by_their_code(fresh: AppClient) -> None:
    requests: list[tuple[str, dict[str, Any], str]] = [
        ("/encode", {"content": b"{"}, "malformed_body"),
        ("/encode", {"content": b'{"text": "\xff"}'}, "invalid_unicode"),
        ("/encode", {"json": {"tokenizer": "no-such", "text": ""}}, "unknown_tokenizer"),
        ("/encode", {"json": {"text": ""}}, "tokenizer_required"),
        ("/encode", {"json": {**HELLO, "x": 1}}, "validation"),
        ("/decode", {"json": {"tokenizer": TOKENIZER, "ids": [-1]}}, "invalid_token_id"),
        ("/decode", {"json": {"tokenizer": TOKENIZER, "ids": [9468]}}, "invalid_utf8"),
        ("/no-such", {"json": {}}, "not_found"),
        ("/healthz", {"json": {}}, "method_not_allowed"),
    ]
    for path, arguments, _ in requests:
        fresh.post(path, headers={"content-type": "application/json"}, **arguments)
    fresh.post("/encode", HELLO, headers={"accept": "text/html"})
    fresh.post("/encode", HELLO, headers={"content-encoding": "gzip"})
    fresh.get("/fingerprint/no-such")
    scrape = Scrape(fresh)
    expected = {code: 1.0 for _, _, code in requests}
    expected |= {"not_acceptable": 1, "unsupported_media_type": 1, "unknown_tokenizer": 2}
    found = {
        sample.labels["reason"]: sample.value
        for sample in scrape.families["tokenizer_rejected_total"].samples
        if sample.value
    }
    assert found == expected


def test_the_route_label_is_a_template(fresh: AppClient) -> None:
    """A raw path would make a series of each name that somebody tries."""
    for path in ("/fingerprint/gpt2", "/fingerprint/no-such", "/fingerprint/a-third"):
        fresh.get(path)
    for path in ("/no-such", "/no-such/2", "/fingerprint/a/b", "/fingerprint/", "/%E6%9D%B1", "/"):
        fresh.get(path)
    fresh.post("/encode?x=1", HELLO)
    fresh.request("OPTIONS", "/encode")
    fresh.request("PUT", "/encode")
    fresh.get("/fingerprint/gpt2", headers={"if-none-match": "*"})
    scrape = Scrape(fresh)
    routes = {
        sample.labels["route"]
        for sample in scrape.families["tokenizer_request_duration_seconds"].samples
    }
    assert routes == {"/fingerprint/{name}", "unmatched", "/encode"}

    def count(route: str, status: str) -> float:
        return scrape.value("request_duration_seconds_count", route=route, status=status)

    assert count("/fingerprint/{name}", "2xx") == 1
    assert count("/fingerprint/{name}", "4xx") == 2
    assert count("/fingerprint/{name}", "3xx") == 1
    assert count("unmatched", "4xx") == 6
    assert count("/encode", "2xx") == 2
    assert count("/encode", "4xx") == 1
    assert "no-such" not in scrape.text


def test_every_page_is_counted_under_its_route(fresh: AppClient) -> None:
    for route in sorted(PAGES):
        fresh.get(route.replace("{name}", "gpt2"))
        scrape = Scrape(fresh)
        counted = scrape.value("request_duration_seconds_count", route=route, status="2xx")
        assert counted >= 1, route


def test_gauges_fall_back(fresh: AppClient) -> None:
    fresh.post("/encode", {**HELLO, "text": "Hello world " * 5000})
    fresh.post("/encode", {})
    fresh.get("/no-such")
    scrape = Scrape(fresh)
    assert scrape.value("in_flight") == 1, "the scrape itself"
    assert scrape.value("pending_bytes") == 0


def test_a_request_that_fails_is_one_request(fresh: AppClient) -> None:
    fresh.post("/encode", {})
    scrape = Scrape(fresh)
    assert scrape.value("request_duration_seconds_count", route="/encode", status="4xx") == 1
    assert scrape.total("operation_duration_seconds_count") == 0, "no library was asked"
    assert scrape.total("tokens_total") == 0
