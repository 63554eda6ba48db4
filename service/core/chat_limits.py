"""What one rendering of a chat template may use, and what its operations would make of it.

A template is the operator's, yet one bad loop may not hold a worker. Turns of loops, calls,
filters and operators are steps; what they make is counted in bytes; an operation whose result
can be far larger than what it is given is estimated before it runs.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import jinja2

MAX_STEPS = 1_000_000
"""Turns of loops, calls, filters and operators; a chat of 1,000 messages takes some 50,000."""

MAX_SECONDS = 1.0
"""Time of one rendering: for work that steps do not count."""

MAX_BYTES = 96 * 1024 * 1024
"""Memory of all texts and lists that one rendering makes, whether or not it keeps them."""

MAX_CHARACTERS = MAX_BYTES // 4
"""Of one text: a character takes up to four bytes."""

_STEPS_A_LOOK = 8

_MAX_OPTION = 1_000_000
"""Of a width, a length or a precision."""

_MAX_REPEATED = 200_000
"""Of the items of a product of a text or a list and a number."""

_MAX_BITS = 4096
"""Of the product of two whole numbers."""

ITEM_BYTES = 32
"""What an item of a list takes that a filter or a call made."""

PIECE_BYTES = 256
"""The same for a piece of a text: a text of its own, with its writers."""

_NODE_CHARACTERS = 16
"""What a value inside a list or an object weighs beside its text; more than its brackets do."""


class LimitError(Exception):
    """A rendering used more than it may."""


class _Run(threading.local):
    """What the rendering of this thread has used."""

    steps = 0
    bytes = 0
    deadline = 0.0


_RUN = _Run()


def begin_run() -> None:
    """Begin to count what a rendering in this thread uses."""
    _RUN.steps, _RUN.bytes = 0, 0
    _RUN.deadline = perf_counter() + MAX_SECONDS


def step() -> None:
    """Count a step; look at the clock at some of them. Raises LimitError."""
    steps = _RUN.steps = _RUN.steps + 1
    if steps > MAX_STEPS or (not steps % _STEPS_A_LOOK and perf_counter() > _RUN.deadline):
        raise LimitError


def stepping(values: Iterable[Any]) -> Iterator[Any]:
    """The values, each of them a step."""
    for value in values:
        step()
        yield value


def made(value: Any, item_bytes: int = ITEM_BYTES) -> Any:  # noqa: ANN401 - any value
    """The value, after what it takes was counted. Raises LimitError."""
    if isinstance(value, str):
        size = sys.getsizeof(value)
    elif isinstance(value, list | tuple | dict):
        size = len(value) * item_bytes
    else:
        return value
    size = _RUN.bytes = _RUN.bytes + size
    if size > MAX_BYTES:
        raise LimitError
    return value


def expect(characters: int) -> None:
    """Raise LimitError for a text that would be longer than any may be."""
    if characters > MAX_CHARACTERS:
        raise LimitError


def weigh(*values: Any) -> int:  # noqa: ANN401 - any values
    """At least how many characters the values have as text. Raises LimitError.

    A list that holds one text many times is small, its text is not.
    """
    weight = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        weight += _NODE_CHARACTERS
        if isinstance(value, str):
            weight += len(value)
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, jinja2.utils.Namespace):
            waiting.append(value._Namespace__attrs)  # noqa: SLF001 - it hides them
        elif isinstance(value, Collection) and not isinstance(value, jinja2.Undefined):
            waiting += value
        expect(weight)
    return weight


# ---- what can make much of little: its result is estimated first ----------------------------

_PERCENT_WIDTH = re.compile(r"%(?:\([^)]*\))?[^%A-Za-z]*(?:\*|\d{5})")
_FORMAT_WIDTH = re.compile(r"\{[^{}]*:[^{}]*(?:\{|\d{5})")


def _percent(text: Any, *values: Any, **named: Any) -> None:  # noqa: ANN401 - any values
    size = weigh(text)
    if _PERCENT_WIDTH.search(str(text)):
        raise LimitError
    expect(size + str(text).count("%") * weigh(values, named))


def _format(text: str, *values: Any, **named: Any) -> None:  # noqa: ANN401 - any values
    if _FORMAT_WIDTH.search(text):
        raise LimitError
    expect(len(text) + text.count("{") * weigh(values, named))


def _replace(text: Any, old: Any, new: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401 - any values
    expect(weigh(text) + str(text).count(str(old)) * weigh(new))


def _indent(text: Any, width: Any = 4, *_: Any, **__: Any) -> None:  # noqa: ANN401 - any values
    size = len(width) if isinstance(width, str) else width
    expect(weigh(text) + (str(text).count("\n") + 1) * size)


def _list(value: Any) -> None:  # noqa: ANN401 - any value
    if isinstance(value, str):
        expect(len(value) * PIECE_BYTES // 4)


def _expandtabs(text: str, tabsize: int = 8) -> None:
    expect(len(text) + text.count("\t") * tabsize)


def _translate(text: str, table: Any) -> None:  # noqa: ANN401 - any value
    expect(len(text) * weigh(table))


def _options(value: Any, *options: Any, **named: Any) -> None:  # noqa: ANN401 - any values
    weigh(value)
    for option in (*options, *named.values()):
        if isinstance(option, int) and option > _MAX_OPTION:
            raise LimitError


Estimate = Callable[..., object]

_OF_METHOD: Mapping[str, Estimate] = {
    "expandtabs": _expandtabs,
    "format": _format,
    "format_map": _format,
    "replace": _replace,
    "translate": _translate,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _options),
}

OF_FILTER: Mapping[str, Estimate] = {
    "format": _percent,
    "indent": _indent,
    "list": _list,
    "replace": _replace,
    **dict.fromkeys(("batch", "center", "round", "slice", "truncate"), _options),
    **dict.fromkeys(("capitalize", "lower", "pprint", "string", "title", "trim", "upper"), weigh),
    **dict.fromkeys(("e", "escape", "forceescape", "safe", "urlencode", "xmlattr"), weigh),
}
"""What is asked before a filter runs, with its arguments; the last ones make text of anything."""


def before_method(
    name: str, text: str, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """What to give to a method of a text: the arguments. Raises LimitError."""
    if name == "join":
        args = (list(*args),)
        expect(weigh(args) + len(text) * len(args[0]))
    elif name in _OF_METHOD:
        _OF_METHOD[name](text, *args, **named)
    return args


def before_operator(operator: str, left: Any, right: Any) -> None:  # noqa: ANN401 - any values
    """Count an operator, `+`, `*`, `**` or `%`. Raises LimitError where its result is too large."""
    step()
    if operator == "+":
        return
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        if operator == "**":
            bits *= max(right, 0)
        elif operator == "*":
            bits += right.bit_length()
        if bits > _MAX_BITS and operator != "%":
            raise LimitError
    elif operator == "%":
        if isinstance(left, str):
            _percent(left, right)
    elif operator == "*":
        sizes = [len(side) if isinstance(side, Collection) else side for side in (left, right)]
        if isinstance(left, Collection) != isinstance(right, Collection) and (
            sizes[0] * sizes[1] > _MAX_REPEATED
        ):
            raise LimitError
