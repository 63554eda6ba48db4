"""The series that /metrics shows; the only importer of prometheus_client.

The numbers live in one anonymous shared mapping, made before the workers are forked: each worker
writes its own slab and a scrape of any worker sums all of them. A slab outlives its worker, so
the counters of a worker that died stay and its successor counts on; its gauges are cleared.
Compared with prometheus_client's multiprocess mode there is no folder to wipe or to find full or
corrupt, and an observation costs a tenth (docs/decisions/0005).

Every label comes from a closed set that is known at start, so every slot has its place before the
first request, and no text of a request can become a label.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from service.metrics.slots import (
    DOUBLE_BYTES,
    SECONDS,
    STATUS_CLASSES,
    TOKENS_PER_BYTE,
    Family,
    Labels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

__all__ = ["SECONDS", "STATUS_CLASSES", "TOKENS_PER_BYTE", "Labels", "Metrics"]


class Metrics(Collector):
    """All series of one service, over all its workers."""

    def __init__(self, labels: Labels, *, slabs: int = 1) -> None:
        """Make room for `slabs` workers. This process writes the first until bind() says other."""
        self._labels = labels
        self._families: list[Family] = []
        self._add_histograms(labels)
        self._add_counters(labels)
        self._in_flight = self._add("in_flight", "Requests being answered.", {}, gauge=True)
        self._pending = self._add(
            "pending_bytes", "Bytes of bodies waiting for the engine thread.", {}, gauge=True
        )
        self._slab_size = self._families[-1].end
        self._slabs = slabs
        self._mapping = mmap.mmap(-1, self._slab_size * slabs * DOUBLE_BYTES)
        self._all = memoryview(self._mapping).cast("d")
        self._slots = self._all
        self.bind(0)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def _add_histograms(self, labels: Labels) -> None:
        self._requests = self._add(
            "request_duration_seconds",
            "Time from a request's first byte to its answer's last.",
            {"route": labels.routes, "status": STATUS_CLASSES},
            SECONDS,
        )
        self._operations = self._add(
            "operation_duration_seconds",
            "Time in the tokenizer library alone.",
            labels.per_operation,
            SECONDS,
        )
        self._tokens_per_byte = self._add(
            "tokens_per_byte",
            "Content ids over bytes of UTF-8, one observation a text.",
            {"tokenizer": labels.tokenizers},
            TOKENS_PER_BYTE,
        )

    def _add_counters(self, labels: Labels) -> None:
        per_tokenizer = {"tokenizer": labels.tokenizers}
        self._tokens = self._add("tokens", "Content ids given or taken.", labels.per_operation)
        self._text_bytes = self._add("text_bytes", "Bytes of text as UTF-8.", labels.per_operation)
        self._spellings = self._add(
            "special_spellings",
            "Control spellings seen in the first 65,536 characters of texts.",
            per_tokenizer | {"policy": labels.policies},
        )
        self._unknown = self._add(
            "unknown_tokens", "Ids that stand for text outside the vocabulary.", per_tokenizer
        )
        self._replacements = self._add(
            "decode_replacements", "U+FFFD put for bytes that are not UTF-8.", per_tokenizer
        )
        self._differences = self._add(
            "engine_differences",
            "Texts for which the fast engine gave other ids than the reference; alert on any.",
            per_tokenizer,
        )
        self._rejected = self._add(
            "rejected", "Requests answered with an error, by its code.", {"reason": labels.reasons}
        )

    def _add(
        self,
        name: str,
        text: str,
        labels: dict[str, Sequence[str]],
        bounds: tuple[float, ...] = (),
        *,
        gauge: bool = False,
    ) -> Family:
        start = self._families[-1].end if self._families else 0
        family = Family(start, f"tokenizer_{name}", text, labels, bounds, gauge=gauge)
        self._families.append(family)
        return family

    def bind(self, slab: int) -> None:
        """Write to this slab from now on; its gauges begin at zero."""
        self._slots = self._all[slab * self._slab_size : (slab + 1) * self._slab_size]
        self.clear_gauges(slab)

    def clear_gauges(self, slab: int) -> None:
        """Set the gauges of a slab to zero: those of a worker that is gone say nothing."""
        for family in self._families:
            if family.gauge:
                self._all[slab * self._slab_size + family.places[()]] = 0.0

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._observe(self._requests, (route, STATUS_CLASSES[status // 100 - 1]), seconds)

    def observe_operation(self, operation: str, tokenizer: str, seconds: float) -> None:
        """The library worked on one request for this long."""
        self._observe(self._operations, (operation, tokenizer), seconds)

    def observe_tokens_per_byte(self, tokenizer: str, ratio: float) -> None:
        """One text had this many content ids for each byte."""
        self._observe(self._tokens_per_byte, (tokenizer,), ratio)

    def count_text(self, operation: str, tokenizer: str, tokens: int, text_bytes: int) -> None:
        """Content ids and bytes of text that an operation gave or took."""
        self._slots[self._tokens.places[operation, tokenizer]] += tokens
        self._slots[self._text_bytes.places[operation, tokenizer]] += text_bytes

    def recorder(
        self, operation: str, tokenizer: str
    ) -> Callable[[float, int, int, int, int], None]:
        """A function that notes one literal text: seconds, ids, bytes, spellings, unknown ids.

        It does what the single calls do, with every place looked up beforehand.
        """
        engine = self._operations.places[operation, tokenizer]
        per_byte = self._tokens_per_byte.places[tokenizer,]
        tokens_place = self._tokens.places[operation, tokenizer]
        bytes_place = self._text_bytes.places[operation, tokenizer]
        engine_sum = engine + len(SECONDS) + 1
        per_byte_sum = per_byte + len(TOKENS_PER_BYTE) + 1

        def record(
            seconds: float, tokens: int, text_bytes: int, spellings: int, unknown: int
        ) -> None:
            slots = self._slots
            slots[engine + bisect_left(SECONDS, seconds)] += 1
            slots[engine_sum] += seconds
            slots[tokens_place] += tokens
            slots[bytes_place] += text_bytes
            if text_bytes:
                ratio = tokens / text_bytes
                slots[per_byte + bisect_left(TOKENS_PER_BYTE, ratio)] += 1
                slots[per_byte_sum] += ratio
            if spellings:
                self.count_spellings(tokenizer, "literal", spellings)
            if unknown:
                self.count_unknown(tokenizer, unknown)

        return record

    def request_recorder(self, route: str, status: int) -> Callable[[float], None]:
        """`observe_request` for one route and status, its place looked up beforehand."""
        place = self._requests.places[route, STATUS_CLASSES[status // 100 - 1]]
        sum_place = place + len(SECONDS) + 1

        def record(seconds: float) -> None:
            slots = self._slots
            slots[place + bisect_left(SECONDS, seconds)] += 1
            slots[sum_place] += seconds

        return record

    def count_spellings(self, tokenizer: str, policy: str, number: int) -> None:
        """Control spellings that stood in texts."""
        self._slots[self._spellings.places[tokenizer, policy]] += number

    def count_unknown(self, tokenizer: str, number: int) -> None:
        """Ids that stand for text outside the vocabulary."""
        self._slots[self._unknown.places[tokenizer,]] += number

    def count_replacements(self, tokenizer: str, number: int) -> None:
        """U+FFFD that decoding put."""
        self._slots[self._replacements.places[tokenizer,]] += number

    def count_difference(self, tokenizer: str) -> None:
        """The fast engine and the reference gave different ids."""
        self._slots[self._differences.places[tokenizer,]] += 1

    def count_rejected(self, reason: str) -> None:
        """One request was answered with an error."""
        self._slots[self._rejected.places[reason,]] += 1

    def add_in_flight(self, change: int) -> None:
        """A request came (1) or was answered (-1)."""
        self._slots[self._in_flight.places[()]] += change

    def add_pending(self, change: int) -> None:
        """Bytes began (+) or ended (-) to wait for the engine thread."""
        self._slots[self._pending.places[()]] += change

    def _observe(self, family: Family, labels: tuple[str, ...], value: float) -> None:
        slots, start = self._slots, family.places[labels]
        slots[start + bisect_left(family.bounds, value)] += 1
        slots[start + len(family.bounds) + 1] += value

    def render(self) -> bytes:
        """Prometheus text format, summed over all workers."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Called by the registry at each scrape."""
        for family in self._families:
            yield self._metric(family)
        artifacts = GaugeMetricFamily(
            "tokenizer_artifact_info",
            "The artifacts that are loaded.",
            labels=["tokenizer", "format", "fingerprint"],
        )
        for artifact in self._labels.artifacts:
            artifacts.add_metric(artifact, 1)
        engines = GaugeMetricFamily(
            "tokenizer_engine_info", "The libraries that give ids.", labels=["library", "version"]
        )
        for engine in self._labels.engines:
            engines.add_metric(engine, 1)
        fast = GaugeMetricFamily(
            "tokenizer_fast_engine",
            "Whether literal text goes to the fast engine, and why not where it does not.",
            labels=["tokenizer", "state"],
        )
        for tokenizer, state in self._labels.engine_states:
            fast.add_metric((tokenizer, state), float(state == "fast"))
        yield from (artifacts, engines, fast)

    def _metric(self, family: Family) -> Metric:
        if family.bounds:
            histogram = HistogramMetricFamily(family.name, family.text, labels=family.label_names)
            for labels, start in family.places.items():
                buckets = list(self._cumulated(family, start))
                # A combination that never happened is left out: most of a scrape would be zeros.
                if buckets[-1][1]:
                    total = self._sum(start + len(family.bounds) + 1)
                    histogram.add_metric(labels, buckets, total)
            return histogram
        kind = GaugeMetricFamily if family.gauge else CounterMetricFamily
        metric = kind(family.name, family.text, labels=family.label_names)
        for labels, place in family.places.items():
            metric.add_metric(labels, self._sum(place))
        return metric

    def _cumulated(self, family: Family, start: int) -> Iterator[tuple[str, float]]:
        total = 0.0
        for number, bound in enumerate((*family.bounds, float("inf"))):
            total += self._sum(start + number)
            yield ("+Inf" if bound == float("inf") else str(float(bound))), total

    def _sum(self, place: int) -> float:
        return sum(self._all[slab * self._slab_size + place] for slab in range(self._slabs))
