"""service.core.faults: what counts as a failure of a library."""

from __future__ import annotations

import asyncio

import pytest

from service.core.faults import is_fault, is_panic

PanicException = type("PanicException", (BaseException,), {})
"""As PyO3 makes it: no Exception, in no module."""


@pytest.mark.parametrize("error", [ValueError(), MemoryError(), RecursionError(), OSError()])
def test_an_exception_is_a_fault_and_no_panic(error: BaseException) -> None:
    assert is_fault(error)
    assert not is_panic(error)


def test_a_panic_is_a_fault() -> None:
    assert is_panic(PanicException("at the disco"))
    assert is_fault(PanicException("at the disco"))


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseException(),
    ],
)
def test_an_exit_or_a_cancellation_passes_through(error: BaseException) -> None:
    assert not is_fault(error)
    assert not is_panic(error)
