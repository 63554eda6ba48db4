"""Telling what a tokenizer library may raise from what must pass through."""

from __future__ import annotations


def is_panic(error: BaseException) -> bool:
    """Whether `error` is a panic of a Rust library that PyO3 turned into an exception.

    It derives from BaseException so that nobody catches it by accident, and its class has no
    importable name (pyo3, `panic.rs`), so its name is all there is to look at.
    """
    return type(error).__name__ == "PanicException"


def is_fault(error: BaseException) -> bool:
    """Whether `error` is a failure of the code that raised it, and no cancellation or exit."""
    return isinstance(error, Exception) or is_panic(error)
