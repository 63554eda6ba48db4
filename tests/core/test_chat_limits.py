"""service.core.chat_limits: what is refused is refused before it is made, and just past a limit.

tests/core/test_chat_environment.py renders templates that would take gigabytes. Memory that the
machine refuses at once ends such a rendering the same way, so it cannot show that here.
"""

from __future__ import annotations

from typing import Any

import jinja2
import pytest

from service.core import chat_limits
from service.core.chat_limits import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_STEPS,
    OF_FILTER,
    LimitError,
    before_method,
    before_operator,
    begin_run,
    expect,
    made,
    step,
    stepping,
    weigh,
)

LONG = "a" * 100_000


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the test of the clock is about the clock.
    monkeypatch.setattr(chat_limits, "MAX_SECONDS", 1000.0)
    begin_run()


# ---- counts ------------------------------------------------------------------------------------


def test_steps() -> None:
    for _ in stepping(range(MAX_STEPS)):
        pass
    with pytest.raises(LimitError):
        step()
    begin_run()
    step()


def test_the_clock_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_limits, "MAX_SECONDS", -1.0)
    begin_run()
    with pytest.raises(LimitError):
        list(stepping(range(100)))


def test_bytes_add_up() -> None:
    value = [None] * 1000
    times = MAX_BYTES // (1000 * chat_limits.ITEM_BYTES)
    for _ in range(times):
        assert made(value) is value
    with pytest.raises(LimitError):
        made(value)
    begin_run()
    made(value)
    made(7)
    made(None)


@pytest.mark.parametrize("value", [LONG, [0] * 5000, (0,) * 5000, dict.fromkeys(range(5000))])
def test_what_is_made_takes_its_size(value: Any) -> None:
    with pytest.raises(LimitError):
        list(map(made, [value] * (MAX_BYTES // 10_000)))


def test_items_may_be_said_to_be_larger() -> None:
    with pytest.raises(LimitError):
        made(["a"], MAX_BYTES + 1)
    begin_run()
    made(["a"], MAX_BYTES)


def test_characters() -> None:
    expect(MAX_CHARACTERS)
    with pytest.raises(LimitError):
        expect(MAX_CHARACTERS + 1)


def test_a_text_in_a_list_many_times_weighs_as_often() -> None:
    namespace = jinja2.utils.Namespace(x=LONG)
    for value in ([LONG], (LONG,), {LONG: 1}, {"k": LONG}, [[{"k": [LONG]}]], namespace, {LONG}):
        assert 100_000 < weigh(value) < 100_200
        assert weigh(LONG, value) > 200_000
    assert weigh(LONG, LONG) > 200_000
    assert weigh(1, None, True, 1.5) < 100
    assert weigh(jinja2.Undefined()) < 100
    with pytest.raises(LimitError):
        weigh([LONG] * 300)


# ---- before it is made -------------------------------------------------------------------------

METHODS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "join": (LONG, ([""] * 300,), {}),
    "join ": ("", ([LONG] * 300,), {}),
    "expandtabs": ("\t" * 100_000, (300,), {}),
    "expandtabs ": ("\t" * 100_000, (), {"tabsize": 300}),
    "format": ("{0}" * 300, (LONG,), {}),
    "format ": ("{a}" * 300, (), {"a": LONG}),
    "format  ": ("{:10000}", ("a",), {}),
    "format   ": ("{:{w}}", ("a",), {"w": 1}),
    "format_map": ("{a}" * 300, ({"a": LONG},), {}),
    "replace": (LONG, ("a", "b" * 300), {}),
    "replace ": ("a" * 5000, ("", "b" * 10_000), {}),
    "translate": (LONG, ({97: "b" * 300},), {}),
    "center": ("a", (1_000_001,), {}),
    "ljust": ("a", (1_000_001,), {}),
    "rjust": ("a", (1_000_001,), {}),
    "zfill": ("a", (1_000_001,), {}),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_makes_much_of_little(name: str) -> None:
    text, args, named = METHODS[name]
    with pytest.raises(LimitError):
        before_method(name.strip(), text, args, named)


@pytest.mark.parametrize(
    ("name", "text", "args", "named"),
    [
        ("expandtabs", "\ta" * 1000, (), {}),
        ("format", "{} {:>9} {a}" + "x" * 1000, (1, 2), {"a": LONG}),
        ("format_map", "{a}", ({"a": LONG},), {}),
        ("replace", LONG, ("a", "bb"), {}),
        ("translate", "abc", ({97: LONG},), {}),
        ("center", "a", (1_000_000,), {}),
        ("upper", LONG, (), {}),
        ("split", LONG, ("a",), {}),
    ],
)
def test_an_honest_method_gets_its_arguments(
    name: str, text: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    assert before_method(name, text, args, named) == args


def test_what_is_joined_may_be_read_once() -> None:
    (items,) = before_method("join", ", ", (iter(["a", "b"]),), {})
    assert list(items) == ["a", "b"]


FILTERS: dict[str, tuple[Any, ...]] = {
    "format": ("%(a)s" * 300, {"a": LONG}),
    "format ": ("%10000d", 5),
    "format  ": ("%*d", 1, 5),
    "format   ": ([LONG] * 300,),
    "indent": ("\n" * 100_000, 300),
    "indent ": ("\n" * 1000, LONG),
    "indent  ": ("a", MAX_CHARACTERS),
    "indent   ": ([LONG] * 300,),
    "list": ("a" * 393_217,),
    "replace": (LONG, "a", "b" * 300),
    "replace ": ([LONG] * 300, "b", "c"),
    "batch": ([1], 1_000_001),
    "slice": ([1], 1_000_001),
    "round": (1.5, 1_000_001),
    "truncate": ([LONG] * 300,),
    "center": ("a", 1_000_001),
    **{
        name: ([LONG] * 300,)
        for name in (
            *("capitalize", "lower", "pprint", "string", "title", "trim", "upper", "e", "escape"),
            *("forceescape", "safe", "urlencode", "xmlattr"),
        )
    },
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_that_makes_much_of_little(name: str) -> None:
    with pytest.raises(LimitError):
        OF_FILTER[name.strip()](*FILTERS[name])


def test_an_option_by_name() -> None:
    with pytest.raises(LimitError):
        OF_FILTER["center"]("a", width=1_000_001)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("format", ("%9999d %s", 5, LONG)),
        ("indent", ("a\n" * 1000,)),
        ("indent", ("a\nb", "> ")),
        ("list", ("a" * 393_216,)),
        ("list", ([LONG] * 300,)),
        ("replace", (LONG, "b", LONG)),
        ("round", (1.5, 3)),
        ("center", ("a", 1_000_000)),
    ],
)
def test_an_honest_filter(name: str, arguments: tuple[Any, ...]) -> None:
    OF_FILTER[name](*arguments)


HALF = 2**2047
"""Of 2,048 bits: the product of two has 4,096."""


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [
        (HALF, "*", HALF * 2),
        (HALF * 2, "*", HALF),
        (2**63, "**", 65),
        ("%10000d", "%", 5),
        ("%(a)s" * 300, "%", {"a": LONG}),
        ("%s" * 300, "%", (LONG,)),
        ("a", "*", 200_001),
        (200_001, "*", "a"),
        ([1] * 201, "*", 1000),
        (1000, "*", (1,) * 201),
    ],
)
def test_an_operator_that_makes_much_of_little(left: Any, operator: str, right: Any) -> None:
    with pytest.raises(LimitError):
        before_operator(operator, left, right)


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [
        (HALF, "*", HALF),
        (2**63, "**", 64),
        (2, "**", -5000),
        (2**5000, "%", 7),
        (2**5000, "+", 2**5000),
        (LONG, "+", LONG),
        ("%9999d", "%", 5),
        ("a", "*", 200_000),
        (200_000, "*", "a"),
        ([1] * 200, "*", 1000),
        ([], "*", 10**9),
        (1.5, "*", 10**9),
        (1.5, "**", 1000.0),
    ],
)
def test_an_honest_operator(left: Any, operator: str, right: Any) -> None:
    before_operator(operator, left, right)


def test_each_operator_is_a_step() -> None:
    for _ in range(MAX_STEPS):
        step()
    with pytest.raises(LimitError):
        before_operator("+", 1, 1)
