"""service.metrics: slabs in shared memory, and the text that is made of them."""

from __future__ import annotations

import math
import os
import random
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.metrics import SECONDS, STATUS_CLASSES, TOKENS_PER_BYTE, Labels, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = Labels(
    routes=["/encode", "/count", "unmatched"],
    operations=["encode", "count"],
    policies=["literal", "special", "reject"],
    reasons=["overloaded", "validation"],
    artifacts=[("gpt2", "tokenizer_json", "sha256:1"), ("o200k_base", "tiktoken", "sha256:2")],
    engines=[("tiktoken", "0.14.0"), ("tokenizers", "0.23.3")],
)

Samples = dict[str, float]


def samples(metrics: Metrics) -> Samples:
    """Every sample of a scrape, as Prometheus reads it; none may stand twice."""
    found: Samples = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        assert family.type != "unknown"
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={label}" for name, label in sorted(sample.labels.items()))
            key = f"{sample.name.removeprefix('tokenizer_')}{{{labels}}}"
            assert sample.name.startswith("tokenizer_")
            assert key not in found
            found[key] = sample.value
    return found


def changes(metrics: Metrics, change: Callable[[], None]) -> Samples:
    """What a call added to which samples; buckets, which follow from the rest, are left out."""
    before = samples(metrics)
    change()
    after = samples(metrics)
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if value != before.get(name, 0.0) and "_bucket" not in name
    }


# ---- each number in its place -------------------------------------------------------------

CALLS: dict[str, tuple[Callable[[Metrics], None], Samples]] = {
    "observe_request": (
        lambda metrics: metrics.observe_request("/count", 422, 0.25),
        {
            "request_duration_seconds_count{route=/count,status=4xx}": 1,
            "request_duration_seconds_sum{route=/count,status=4xx}": 0.25,
        },
    ),
    "observe_operation": (
        lambda metrics: metrics.observe_operation("encode", "gpt2", 0.5),
        {
            "operation_duration_seconds_count{operation=encode,tokenizer=gpt2}": 1,
            "operation_duration_seconds_sum{operation=encode,tokenizer=gpt2}": 0.5,
        },
    ),
    "observe_tokens_per_byte": (
        lambda metrics: metrics.observe_tokens_per_byte("o200k_base", 0.75),
        {
            "tokens_per_byte_count{tokenizer=o200k_base}": 1,
            "tokens_per_byte_sum{tokenizer=o200k_base}": 0.75,
        },
    ),
    "count_text": (
        lambda metrics: metrics.count_text("count", "gpt2", 2, 11),
        {
            "tokens_total{operation=count,tokenizer=gpt2}": 2,
            "text_bytes_total{operation=count,tokenizer=gpt2}": 11,
        },
    ),
    "count_spellings": (
        lambda metrics: metrics.count_spellings("gpt2", "reject", 3),
        {"special_spellings_total{policy=reject,tokenizer=gpt2}": 3},
    ),
    "count_unknown": (
        lambda metrics: metrics.count_unknown("gpt2", 4),
        {"unknown_tokens_total{tokenizer=gpt2}": 4},
    ),
    "count_replacements": (
        lambda metrics: metrics.count_replacements("o200k_base", 5),
        {"decode_replacements_total{tokenizer=o200k_base}": 5},
    ),
    "count_rejected": (
        lambda metrics: metrics.count_rejected("overloaded"),
        {"rejected_total{reason=overloaded}": 1},
    ),
    "add_in_flight": (lambda metrics: metrics.add_in_flight(1), {"in_flight{}": 1}),
    "add_pending": (lambda metrics: metrics.add_pending(65_536), {"pending_bytes{}": 65_536}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_changes_its_own_samples_alone(name: str) -> None:
    call, expected = CALLS[name]
    metrics = Metrics(LABELS)
    for others, _ in CALLS.values():
        others(metrics)
    assert changes(metrics, lambda: call(metrics)) == expected


def test_no_two_samples_share_a_place() -> None:
    """Every combination of labels gets a number of its own, and each comes back."""
    metrics = Metrics(LABELS)
    expected = {}
    for operation in LABELS.operations:
        for tokenizer in LABELS.tokenizers:
            number = len(expected) + 1
            metrics.count_text(operation, tokenizer, number, 1000 + number)
            labels = f"{{operation={operation},tokenizer={tokenizer}}}"
            expected[f"tokens_total{labels}"] = number
            expected[f"text_bytes_total{labels}"] = 1000 + number
    for tokenizer in LABELS.tokenizers:
        for policy in LABELS.policies:
            number = len(expected) + 1
            metrics.count_spellings(tokenizer, policy, number)
            expected[f"special_spellings_total{{policy={policy},tokenizer={tokenizer}}}"] = number
    found = {name: value for name, value in samples(metrics).items() if value}
    infos = {name for name in found if "_info" in name}
    assert {name: value for name, value in found.items() if name not in infos} == expected


@pytest.mark.parametrize("text_bytes", [0, 16])
@pytest.mark.parametrize("noted", [(0, 0), (2, 3)])
def test_a_recorder_does_what_the_single_calls_do(text_bytes: int, noted: tuple[int, int]) -> None:
    spellings, unknown = noted
    at_once, one_by_one = Metrics(LABELS), Metrics(LABELS)
    at_once.recorder("encode", "gpt2")(0.25, 4, text_bytes, spellings, unknown)
    one_by_one.observe_operation("encode", "gpt2", 0.25)
    one_by_one.count_text("encode", "gpt2", 4, text_bytes)
    if text_bytes:
        one_by_one.observe_tokens_per_byte("gpt2", 4 / text_bytes)
    one_by_one.count_spellings("gpt2", "literal", spellings)
    one_by_one.count_unknown("gpt2", unknown)
    assert at_once.render() == one_by_one.render()


def test_a_recorder_writes_where_the_worker_is_bound() -> None:
    """It is made before the fork, and the slab is chosen after it."""
    metrics = Metrics(LABELS, slabs=2)
    record = metrics.recorder("encode", "gpt2")
    metrics.bind(1)
    record(0.25, 4, 16, 0, 0)
    metrics.bind(0)
    record(0.25, 4, 16, 0, 0)
    assert samples(metrics)["tokens_total{operation=encode,tokenizer=gpt2}"] == 8


def test_information_is_there_from_the_start() -> None:
    found = samples(Metrics(LABELS))
    assert {name: value for name, value in found.items() if value} == {
        "artifact_info{fingerprint=sha256:1,format=tokenizer_json,tokenizer=gpt2}": 1,
        "artifact_info{fingerprint=sha256:2,format=tiktoken,tokenizer=o200k_base}": 1,
        "engine_info{library=tiktoken,version=0.14.0}": 1,
        "engine_info{library=tokenizers,version=0.23.3}": 1,
    }
    # A counter that has no sample until it counts hides its first increase from rate().
    assert found["rejected_total{reason=validation}"] == 0
    assert found["tokens_total{operation=encode,tokenizer=gpt2}"] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda metrics: metrics.observe_request("/fingerprint/gpt2", 200, 1.0),
        lambda metrics: metrics.observe_operation("encode", "my secret", 1.0),
        lambda metrics: metrics.observe_operation("mine", "gpt2", 1.0),
        lambda metrics: metrics.observe_tokens_per_byte("my secret", 1.0),
        lambda metrics: metrics.count_text("encode", "my secret", 1, 1),
        lambda metrics: metrics.count_spellings("gpt2", "my policy", 1),
        lambda metrics: metrics.count_unknown("my secret", 1),
        lambda metrics: metrics.count_replacements("my secret", 1),
        lambda metrics: metrics.count_rejected("my reason"),
        lambda metrics: metrics.recorder("encode", "my secret"),
    ],
)
def test_no_label_comes_from_outside(call: Callable[[Metrics], None]) -> None:
    metrics = Metrics(LABELS)
    before = metrics.render()
    with pytest.raises(KeyError):
        call(metrics)
    assert metrics.render() == before


# ---- histograms ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("observe", "name", "bounds"),
    [
        (
            lambda metrics, value: metrics.observe_request("unmatched", 404, value),
            "request_duration_seconds_bucket{{le={},route=unmatched,status=4xx}}",
            SECONDS,
        ),
        (
            lambda metrics, value: metrics.observe_tokens_per_byte("gpt2", value),
            "tokens_per_byte_bucket{{le={},tokenizer=gpt2}}",
            TOKENS_PER_BYTE,
        ),
    ],
    ids=["seconds", "tokens per byte"],
)
def test_buckets_are_cumulative(
    observe: Callable[[Metrics, float], None], name: str, bounds: tuple[float, ...]
) -> None:
    """A value belongs to the first bucket whose bound it does not exceed, and to all after it."""
    assert list(bounds) == sorted(set(bounds))
    limits = [float(bound) for bound in bounds] + [math.inf]
    metrics = Metrics(LABELS)
    values = [0.0, *bounds, *(math.nextafter(bound, math.inf) for bound in bounds), 1e9]
    for value in values:
        observe(metrics, value)
    found = samples(metrics)
    for limit in limits:
        shown = "+Inf" if limit == math.inf else str(limit)
        assert found[name.format(shown)] == sum(value <= limit for value in values)
    series = name.partition("_bucket")[0]
    (count,) = [value for key, value in found.items() if key.startswith(f"{series}_count")]
    (total,) = [value for key, value in found.items() if key.startswith(f"{series}_sum")]
    assert count == len(values)
    assert total == pytest.approx(sum(values))


def test_a_combination_that_never_happened_has_no_histogram() -> None:
    metrics = Metrics(LABELS)
    metrics.observe_request("/count", 200, 0.1)
    counts = [name for name in samples(metrics) if "duration_seconds_count" in name]
    assert counts == ["request_duration_seconds_count{route=/count,status=2xx}"]


@pytest.mark.parametrize(
    ("status", "expected"), [(100, "1xx"), (204, "2xx"), (304, "3xx"), (499, "4xx"), (503, "5xx")]
)
def test_a_status_is_shown_by_its_class(status: int, expected: str) -> None:
    assert expected in STATUS_CLASSES
    metrics = Metrics(LABELS)
    metrics.observe_request("/count", status, 0.1)
    name = f"request_duration_seconds_count{{route=/count,status={expected}}}"
    assert samples(metrics)[name] == 1


# ---- several workers ----------------------------------------------------------------------


def test_a_scrape_sums_all_slabs() -> None:
    """Whichever worker observed what, the text is the same, to the byte."""
    chooser = random.Random(5)  # noqa: S311 - which calls are made is no secret
    calls = [call for name, (call, _) in CALLS.items() if not name.startswith("add_")]
    one, several = Metrics(LABELS), Metrics(LABELS, slabs=3)
    for _ in range(300):
        several.bind(chooser.randrange(3))
        call = chooser.choice(calls)
        call(one)
        call(several)
    for slab, change in enumerate((5, 7, -2)):
        several.bind(slab)
        several.add_in_flight(change)
    one.add_in_flight(10)
    assert several.render() == one.render()


def test_the_counters_of_a_worker_that_died_stay() -> None:
    """It wrote to memory that it shares; who scrapes does not need it."""
    metrics = Metrics(LABELS, slabs=2)
    metrics.count_rejected("validation")
    metrics.add_in_flight(1)
    pid = os.fork()
    if not pid:
        metrics.bind(1)
        for call, _ in CALLS.values():
            call(metrics)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    found = samples(metrics)
    for _, expected in CALLS.values():
        for name, number in expected.items():
            assert found[name] == number + (name == "in_flight{}"), name

    metrics.clear_gauges(1)
    cleared = samples(metrics)
    assert cleared["in_flight{}"] == 1, "the one of the worker that lives"
    assert cleared["pending_bytes{}"] == 0
    gauges = ("in_flight{}", "pending_bytes{}")
    assert {name for name in found if cleared[name] != found[name]} == set(gauges)


def test_a_successor_counts_on_and_begins_with_nothing_in_flight() -> None:
    metrics = Metrics(LABELS, slabs=2)
    metrics.bind(1)
    metrics.count_rejected("validation")
    metrics.observe_request("/count", 422, 0.25)
    metrics.add_in_flight(3)
    metrics.add_pending(1000)
    before = samples(metrics)
    metrics.bind(1)
    after = samples(metrics)
    assert (after.pop("in_flight{}"), after.pop("pending_bytes{}")) == (0, 0)
    assert after.items() <= before.items()
    metrics.count_rejected("validation")
    assert samples(metrics)["rejected_total{reason=validation}"] == 2


def test_what_came_goes_again() -> None:
    metrics = Metrics(LABELS, slabs=2)
    for slab in range(2):
        metrics.bind(slab)
        metrics.add_in_flight(1)
        metrics.add_pending(70_000)
    metrics.add_in_flight(-1)
    metrics.add_pending(-70_000)
    found = samples(metrics)
    assert (found["in_flight{}"], found["pending_bytes{}"]) == (1, 70_000)
