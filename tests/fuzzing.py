"""How much and with which randomness the property tests run."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, seed, settings

if TYPE_CHECKING:
    from collections.abc import Callable

_USUAL = 2000
FUZZ_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", _USUAL))
"""How many different texts an artifact is compared on; `make fuzz` sets ten times as many."""

_FUZZING = "FUZZ_EXAMPLES" in os.environ
FUZZ_SEED = int(
    os.environ.get("FUZZ_SEED")
    or (random.SystemRandom().randrange(2**32) if _FUZZING else 0)  # each fuzz sees other texts
)

AT_ONCE = 20
"""hypothesis spends more on an example than a library on a text, so an example is many texts."""

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]


def property_settings(examples: int) -> settings:
    """The same `examples` at every `make test`; more and others at `make fuzz`."""
    return settings(
        max_examples=max(1, examples * FUZZ_EXAMPLES // _USUAL),
        derandomize=not _FUZZING,
        deadline=None,
        suppress_health_check=_SLOW_IS_FINE,
    )


def run_until(wanted: int, count: Callable[[], int], test: Callable[[], None]) -> None:
    """Run a hypothesis test with one seed after the other until `count()` is at least `wanted`.

    In a single run, however long, hypothesis varies what it has and gives many a text twice.
    """
    run = settings(
        max_examples=max(1, min(wanted // AT_ONCE // 4, 100)),
        deadline=None,
        database=None,
        suppress_health_check=_SLOW_IS_FINE,
    )(test)
    for number in itertools.count(FUZZ_SEED):
        if count() >= wanted:
            return
        seed(number)(run)()
