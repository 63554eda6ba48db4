"""Where in a worker's slab each number of each series stands, and from which sets labels come."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    10,
)
"""Bounds of durations: a count of 160 bytes takes 0.1 ms, a text of 2 MiB about half a second."""

TOKENS_PER_BYTE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0)
"""Bounds of tokens per byte: English is near 0.22, a script foreign to a tokenizer near 1."""

STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

DOUBLE_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Labels:
    """The closed sets from which every label comes."""

    routes: Sequence[str]
    operations: Sequence[str]
    policies: Sequence[str]
    reasons: Sequence[str]
    artifacts: Sequence[tuple[str, str, str]]
    """(tokenizer, format, fingerprint)."""
    engines: Sequence[tuple[str, str]]
    """(library, version)."""
    engine_states: Sequence[tuple[str, str]] = ()
    """(tokenizer, state of its fast engine)."""

    @property
    def per_operation(self) -> dict[str, Sequence[str]]:
        """The labels of what one operation did with one tokenizer."""
        return {"operation": self.operations, "tokenizer": self.tokenizers}

    @property
    def tokenizers(self) -> Sequence[str]:
        """The names of the artifacts."""
        return [tokenizer for tokenizer, _, _ in self.artifacts]


class Family:
    """One series: its labels, and where each combination's slots begin in a slab."""

    def __init__(
        self,
        start: int,
        name: str,
        text: str,
        labels: dict[str, Sequence[str]],
        bounds: tuple[float, ...] = (),
        *,
        gauge: bool = False,
    ) -> None:
        self.name, self.text, self.label_names = name, text, list(labels)
        self.bounds, self.gauge = bounds, gauge
        # A histogram has a slot for each bucket, one for +Inf and one for the sum.
        width = len(bounds) + 2 if bounds else 1
        combinations = list(itertools.product(*labels.values()))
        self.places = {
            combination: start + number * width for number, combination in enumerate(combinations)
        }
        self.end = start + len(combinations) * width
