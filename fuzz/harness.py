"""What a harness is, and which there are."""

from __future__ import annotations

import abc
import functools
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    Mutator = Callable[[bytes, Callable[[bytes], bytes], random.Random], bytes | None]
    """(an input, how the fuzzer changes bytes, chance) to another; None leaves it to the fuzzer."""

CORPUS = pathlib.Path(__file__).parent / "corpus"

LONGEST_MESSAGE = 10_000
"""An error is a line that a person reads."""


class Harness(abc.ABC):
    """Something that holds for any bytes."""

    name: str
    """Also that of its folder in the corpus."""
    dictionary: tuple[bytes, ...] = ()
    """What the fuzzer may put in: words that mean something here."""
    mutator: Mutator | None = None
    """Changes an input with an eye to what it means; the fuzzer's own way when None."""

    @abc.abstractmethod
    def run(self, data: bytes) -> bool:
        """Whether `data` was taken; a refusal that is right is False. Raises for a defect."""


@functools.cache
def harnesses() -> Mapping[str, Harness]:
    """Every harness by its name."""
    # What is fuzzed is imported here and not above, so that atheris can instrument it.
    from fuzz.bodies import BodyHarness  # noqa: PLC0415 - said above
    from fuzz.decoding import DecodeHarness  # noqa: PLC0415 - said above
    from fuzz.formats import format_harnesses  # noqa: PLC0415 - said above
    from fuzz.lock import LockHarness  # noqa: PLC0415 - said above

    every: tuple[Harness, ...] = (
        LockHarness(),
        *format_harnesses(),
        BodyHarness(),
        DecodeHarness(),
    )
    return {harness.name: harness for harness in every}


def corpus_of(name: str) -> list[pathlib.Path]:
    """The inputs of a harness that are kept."""
    return sorted((CORPUS / name).iterdir())


def check_line(message: str) -> None:
    """An error that an operator reads is one short line without control characters."""
    assert message.isprintable(), f"not one printable line: {message!r}"
    assert len(message) <= LONGEST_MESSAGE, f"{len(message)} characters: {message[:200]!r}"
