"""service.core.chat_filters: transformers' and Jinja's own filters are the oracle, options and all.

What the traced filters say of writers: tests/core/test_provenance.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
from jinja2 import filters

from service.core.chat import ChatTemplate
from service.core.chat_filters import tojson, traced_indent, traced_title, traced_tojson
from service.core.chat_limits import LimitError, begin_run
from service.core.provenance import TEMPLATE, UNKNOWN, USER, Traced, own, traced_values, writers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUES: list[Any] = [
    {"b": [1, -2.5, None, True, {}], "a": {"\u6771": 'x"\\\n', "Z": []}},
    ["\u00e9\U0001f642", [], [[1]], ""],
    "\u00e9",
    0,
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"ensure_ascii": True},
    {"sort_keys": True},
    {"indent": 0},
    {"indent": 1},
    {"indent": 3, "sort_keys": True, "ensure_ascii": True},
    {"indent": "\t"},
    {"indent": '"'},
    {"separators": (",", ":")},
    {"separators": (" , ", '"')},
    {"indent": 2, "separators": (";", " = ")},
]


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
@pytest.mark.parametrize("options", OPTIONS, ids=json.dumps)
def test_tojson_is_pythons(value: Any, options: dict[str, Any]) -> None:
    expected = json.dumps(value, **{"ensure_ascii": False, **options})
    assert tojson(value, **options) == expected
    traced = traced_tojson(traced_values(value, USER), **options)
    assert traced == expected
    assert len(writers_of(traced)) == len(expected)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        (["a" * 10_000] * 10_000, {}),
        (["a" * 10_000] * 10_000, {"separators": (",", ":")}),
        ([1] * 200_000, {"indent": 900}),
        ([1] * 200_000, {"indent": "-" * 900}),
        ([1] * 200_000, {"separators": ("-" * 900, ":")}),
    ],
    ids=["texts", "texts in chunks", "indents", "indents of letters", "separators"],
)
def test_json_of_more_characters_than_any_text_has_is_not_written(
    value: Any, options: dict[str, Any]
) -> None:
    """100 and 180 million characters, of what takes little memory itself."""
    begin_run()
    for write in (tojson, traced_tojson):
        with pytest.raises(LimitError):
            write(value, **options)


def test_sorted_keys_keep_their_writers() -> None:
    value = {own("b"): Traced("1", USER), Traced("a", USER): own("2")}
    written = traced_tojson(value, separators=(",", ":"), sort_keys=True)
    assert written == '{"a":"2","b":"1"}'
    assert writers_of(written) == b"tuuutttttttttuuut"


def test_an_option_that_could_pass_for_a_string_leaves_no_text_to_the_template() -> None:
    written = traced_tojson(traced_values(["x"], USER), indent=own('"'))
    assert written == '[\n""x"\n]'
    assert writers_of(written) == UNKNOWN * len(written)


def test_an_indent_of_many_letters() -> None:
    """Its width is that of the text, not of a number."""
    source = "{{ value | tojson(indent=indent) }}"
    for indent in ("-" * 40, 40):
        values = {"value": [1, [2]], "indent": indent}
        expected = json.dumps([1, [2]], ensure_ascii=False, indent=indent)
        for traced in (False, True):
            rendered = ChatTemplate(source, {}).render(values, None, 10_000, traced=traced)
            assert rendered == expected


TEXTS = ("", "a", "a\nb", "\n a\n\n  b\n", "a\r\nb\u2028c", "\n", "\n\n")
INDENTS: list[dict[str, Any]] = [
    {},
    {"width": 2},
    {"width": ">> "},
    {"first": True},
    {"blank": True},
    {"width": 1, "first": True, "blank": True},
    {"width": 0},
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", INDENTS, ids=json.dumps)
def test_indent_is_jinjas(text: str, options: Mapping[str, Any]) -> None:
    expected = filters.do_indent(text, **options)
    traced = traced_indent(own(text), **options)
    assert traced == expected
    assert len(writers_of(traced)) == len(expected)


def test_the_lines_keep_their_writers_and_the_indent_has_its_own() -> None:
    text = Traced("a\nb", USER * 3)
    assert writers_of(traced_indent(text, 2, first=True)) == b"ttutttu"
    assert writers_of(traced_indent(text, Traced("-", USER))) == USER + TEMPLATE + USER * 2
    assert writers_of(traced_indent(12, 1, first=True)) == b"trr"


@pytest.mark.parametrize("text", ["", "two words", "\u01c6 \u00df", "a-b(c"])
def test_title_is_jinjas(text: str) -> None:
    assert traced_title(own(text)) == filters.do_title(text)


SOURCES = {
    "join": "{{ items | join }}|{{ items | join('-') }}|{{ objects | join(d, attribute='n') }}",
    "sum": "{{ [1, 2] | sum }}|{{ [1] | sum(start=5) }}|{{ objects | sum(attribute='k') }}",
    "sum of lists": "{{ [[1], [2]] | sum(start=[]) }}",
    "string": "{{ 1 | string }}{{ none | string }}{{ items | string }}",
    "safe": "{{ items[0] | safe }}",
    "title": "{{ 'ab cd' | title }}",
    "indent": "{{ 'a\nb' | indent }}",
    "concatenation": "{{ 1 ~ 'a' ~ none ~ items }}",
    "escaped": "{% autoescape true %}{{ '<a>' }}{{ items[0] ~ '&' }}<b>{% endautoescape %}",
    "perhaps escaped": "{% autoescape d == '+' %}{{ '<a>' }}{{ items }}{% endautoescape %}",
    "not escaped": "{% autoescape d == '-' %}{{ '<a>' }}{{ items }}{% endautoescape %}",
    "namespace": "{% set n = namespace({'a': 1}, b=2) %}{% set n.c = 3 %}{{ n.a ~ n.b ~ n.c }}",
    "dict": "{{ dict(a=1) }}{{ dict({'b': 2}, c=3) }}{{ dict([('d', 4)]) }}",
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
def test_filters_are_jinjas(name: str, *, traced: bool) -> None:
    values = {"items": ["a", "b"], "objects": [{"n": "x", "k": 1}, {"n": "y", "k": 2}], "d": "+"}
    environment = jinja2.Environment(autoescape=False)  # noqa: S701 - the text is no HTML
    expected = environment.from_string(SOURCES[name]).render(values)
    rendered = ChatTemplate(SOURCES[name], {}).render(values, None, 10_000, traced=traced)
    assert rendered == expected


def test_what_title_and_safe_make_of_two_writers_texts() -> None:
    values = {"user": Traced("ab cd", USER * 5)}
    for name, text in (("title", "Xy Ab Cd"), ("safe", "xy ab cd"), ("string", "xy ab cd")):
        source = "{{ ('xy ' ~ user) | " + name + " }}"
        rendered = ChatTemplate(source, {}).render(values, None, 100, traced=True)
        assert rendered == text
        assert writers_of(rendered) == TEMPLATE * 3 + USER * 5
