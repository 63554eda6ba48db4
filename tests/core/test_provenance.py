"""A Traced is the str that it is, and knows who wrote each of its characters."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.chat import ChatTemplate
from service.core.chat_filters import traced_tojson
from service.core.provenance import (
    ROLE,
    TEMPLATE,
    UNKNOWN,
    USER,
    Traced,
    join,
    made_of,
    own,
    text_of,
    traced_values,
    writers_of,
)
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

# Blanks, line ends, letters that change length with their case, an astral character, and few
# others, so that separators are met.
LETTERS = "ab \t\n\r\x1c\x85\u2028\xdf\u0130\u0149\ufb01\U0001f600<|>"
TEXTS = st.text(LETTERS, max_size=12)
SEPARATORS = st.one_of(st.none(), st.text(LETTERS, min_size=1, max_size=2))
PLACES = st.one_of(st.none(), st.integers(-14, 14))


def placed(text: str) -> Traced:
    """A text in which the "writer" of each character is its place: a trace that can be read."""
    return Traced(text, bytes(range(len(text))))


def places_of(piece: str) -> list[int]:
    return list(writers_of(piece))


def same(traced: object, plain: object) -> None:
    """Assert that an operation gave what it gives for str, in kind and value."""
    assert traced == plain
    if isinstance(plain, str):
        assert isinstance(traced, Traced)
        assert len(traced.writers) == len(traced)
        assert str.__str__(traced) == plain
        assert hash(traced) == hash(plain)
    elif isinstance(plain, list | tuple):
        assert isinstance(traced, type(plain))
        for one, other in zip(traced, plain, strict=True):
            same(one, other)


def in_place(source: str, pieces: Iterable[str]) -> None:
    """Assert that the pieces come out of the source, each whole, one after the other."""
    end = 0
    for piece in pieces:
        places = places_of(piece)
        if not places:
            continue
        assert places == list(range(places[0], places[0] + len(piece)))
        assert source[places[0] : places[-1] + 1] == piece
        assert places[0] >= end
        end = places[-1] + 1


CUTS: dict[str, Any] = {
    "strip": lambda text, sep, _: text.strip(sep),
    "lstrip": lambda text, sep, _: text.lstrip(sep),
    "rstrip": lambda text, sep, _: text.rstrip(sep),
    "split": lambda text, sep, count: text.split(sep, count),
    "split by name": lambda text, sep, count: text.split(sep=sep, maxsplit=count),
    "rsplit": lambda text, sep, count: text.rsplit(sep, count),
    "splitlines": lambda text, _, __: text.splitlines(),
    "splitlines, ends kept": lambda text, _, __: text.splitlines(keepends=True),
    "partition": lambda text, sep, _: text.partition(sep or "b"),
    "rpartition": lambda text, sep, _: text.rpartition(sep or "b"),
    "removeprefix": lambda text, sep, _: text.removeprefix(sep or ""),
    "removesuffix": lambda text, sep, _: text.removesuffix(sep or ""),
    "characters": lambda text, _, __: list(text),
}


@pytest.mark.parametrize("name", CUTS)
@property_settings(300)
@given(text=TEXTS, separator=SEPARATORS, count=st.integers(-1, 4))
def test_a_cut_is_in_its_place(name: str, text: str, separator: str | None, count: int) -> None:
    result = CUTS[name](placed(text), separator, count)
    plain = CUTS[name](text, separator, count)
    same(result, plain)
    in_place(text, [result] if isinstance(result, str) else result)


@property_settings(300)
@given(text=TEXTS, start=PLACES, stop=PLACES, stride=st.sampled_from([None, 1, 2, -1, -2]))
def test_a_slice(text: str, start: int | None, stop: int | None, stride: int | None) -> None:
    key = slice(start, stop, stride)
    result = placed(text)[key]
    same(result, text[key])
    assert places_of(result) == list(range(len(text)))[key]


@property_settings(100)
@given(text=TEXTS, place=st.integers(-14, 14))
def test_a_character(text: str, place: int) -> None:
    try:
        expected = text[place]
    except IndexError as error:
        with pytest.raises(IndexError, match=str(error)):
            placed(text)[place]
    else:
        same(placed(text)[place], expected)
        assert places_of(placed(text)[place]) == [place % len(text)]


def test_what_is_no_place_is_refused_as_by_str() -> None:
    """A template asks `message.content.type` of a content that is a text."""
    for key in ("type", Traced("type"), 1.0, None):
        with pytest.raises(TypeError):
            placed("abc")[key]  # type: ignore[index]
    with pytest.raises(TypeError):
        placed("abc") * "a"  # type: ignore[operator]
    with pytest.raises(TypeError):
        placed("abc") + 1  # type: ignore[operator]


@property_settings(300)
@given(text=TEXTS, old=TEXTS, new=TEXTS, count=st.integers(-1, 3))
def test_replace(text: str, old: str, new: str, count: int) -> None:
    old = old[:2]
    written = Traced(new, b"\xff" * len(new))
    result = placed(text).replace(old, written, count)
    same(result, text.replace(old, new, count))
    if old:
        kept = [place for place in places_of(result) if place != 0xFF]
        assert kept == sorted(set(kept))
        assert all(
            text[place] == character
            for place, character in zip(places_of(result), result, strict=True)
            if place != 0xFF
        )
        replaced = text.count(old) if count < 0 else min(count, text.count(old))
        assert places_of(result).count(0xFF) == replaced * len(new)


@property_settings(200)
@given(parts=st.lists(TEXTS, max_size=5), separator=TEXTS)
def test_join(parts: list[str], separator: str) -> None:
    between = Traced(separator, b"\xff" * len(separator))
    traced = [Traced(part, bytes([number]) * len(part)) for number, part in enumerate(parts)]
    result = between.join(traced)
    same(result, separator.join(parts))
    expected = [bytes([number]) * len(part) for number, part in enumerate(parts)]
    assert result.writers == between.writers.join(expected)


@property_settings(200)
@given(left=TEXTS, right=TEXTS, times=st.integers(-1, 4))
def test_sums_and_products(left: str, right: str, times: int) -> None:
    user = Traced(right, USER * len(right))
    same(own(left) + user, left + right)
    assert (own(left) + user).writers == TEMPLATE * len(left) + USER * len(right)
    assert (own(left) + right).writers == TEMPLATE * len(left) + UNKNOWN * len(right)
    assert (left + user).writers == UNKNOWN * len(left) + USER * len(right)
    same(left + user, left + right)
    same(user * times, right * times)
    same(times * user, right * times)
    assert (times * user).writers == user.writers * times


@pytest.mark.parametrize("name", ["lower", "upper", "title", "capitalize"])
@property_settings(200)
@given(text=TEXTS)
def test_case(name: str, text: str) -> None:
    result = getattr(placed(text), name)()
    plain = getattr(text, name)()
    same(result, plain)
    if len(plain) == len(text):
        assert places_of(result) == list(range(len(text)))
    user = getattr(Traced(text, USER * len(text)), name)()
    assert user.writers == USER * len(plain)
    mixed = getattr(own("a") + Traced(text, USER * len(text)), name)()
    assert TEMPLATE not in mixed.writers[1:]


def test_text_of_values() -> None:
    for value in (5, -1.5, True, None):
        assert text_of(value) == str(value)
        assert set(text_of(value).writers) == set(ROLE)
    user = Traced("ab", USER * 2)
    assert text_of(user) is user
    assert text_of([user, {user: 1}]).writers == USER * len("['ab', {'ab': 1}]")
    assert set(text_of([user, own("c")]).writers) == set(UNKNOWN)
    assert set(text_of("plain").writers) == set(UNKNOWN)
    assert set(text_of(object).writers) == set(UNKNOWN)
    assert text_of("").writers == b""


def test_what_is_made_of_several_writers_texts_is_nobody_s() -> None:
    user, template = Traced("ab", USER * 2), own("cd")
    assert made_of("xyz", template, 5).writers == TEMPLATE * 3
    assert made_of("xyz", user, [user]).writers == USER * 3
    assert made_of("xyz", user, template).writers == UNKNOWN * 3
    assert made_of("xyz", user + template).writers == UNKNOWN * 3
    assert made_of("xyz", "untraced", template).writers == UNKNOWN * 3
    assert made_of("xyz", Traced("a", ROLE), template).writers == UNKNOWN * 3
    assert made_of("xyz", Traced(""), template).writers == TEMPLATE * 3


def test_the_join_of_a_module_takes_what_str_takes() -> None:
    assert join([own("a"), 5, None], own("-")) == "a-5-None"
    assert join([own("a"), 5], own("-")).writers == TEMPLATE * 2 + ROLE


# ---- JSON -------------------------------------------------------------------------------------

JSON_TEXTS = st.text('ab"\\\n\u2028\U0001f600<', max_size=6)
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        JSON_TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(JSON_TEXTS, inner, max_size=3)
    ),
    max_leaves=8,
)
JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
JSON_OPTIONS = {
    "ensure_ascii": st.booleans(),
    "indent": st.sampled_from([None, 0, 2, "\t", "--"]),
    "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    "sort_keys": st.booleans(),
}


@property_settings(400)
@given(value=JSON_VALUES, options=st.fixed_dictionaries({}, optional=JSON_OPTIONS))
def test_json_is_json_and_strings_are_their_writers(value: Any, options: dict[str, Any]) -> None:
    numbers = itertools.cycle(range(1, 100))

    def traced(part: Any) -> Any:
        """A copy in which each string has a writer of its own, and says which."""
        if isinstance(part, str):
            return Traced(part, bytes([next(numbers)]) * len(part))
        if isinstance(part, dict):
            return {traced(key): traced(item) for key, item in part.items()}
        return [traced(item) for item in part] if isinstance(part, list) else part

    copy = traced(value)
    result = traced_tojson(copy, **options)
    expected = json.dumps(value, **{"ensure_ascii": False, **options})
    same(result, expected)
    strings = [(found.start(), found.end()) for found in JSON_STRING.finditer(expected)]
    texts = list(strings_in_order(copy, sort_keys=options.get("sort_keys", False)))
    assert len(texts) == len(strings)
    rest = bytearray(result.writers)
    for (start, end), text in zip(strings, texts, strict=True):
        if text:
            assert set(result.writers[start:end]) == set(text.writers)
        rest[start:end] = b"x" * (end - start)
    assert set(rest) <= set(TEMPLATE + b"x")


def strings_in_order(value: Any, *, sort_keys: bool) -> Iterable[Traced]:
    if isinstance(value, Traced):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value) if sort_keys else value:
            yield key
            yield from strings_in_order(value[key], sort_keys=sort_keys)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in_order(item, sort_keys=sort_keys)


def test_json_whose_options_hold_quotation_marks_is_nobody_s() -> None:
    value = [own("a"), Traced("b", USER)]
    for options in ({"separators": ('"', ":")}, {"indent": '"'}):
        result = traced_tojson(value, **options)
        assert result == json.dumps(value, **options)
        assert set(result.writers) == set(UNKNOWN)


def test_json_of_a_string_of_two_writers_is_nobody_s() -> None:
    result = traced_tojson({own("k"): own("a") + Traced("b", USER)})
    assert result == '{"k": "ab"}'
    assert result.writers == TEMPLATE * 6 + UNKNOWN * 4 + TEMPLATE


# ---- templates --------------------------------------------------------------------------------

T, U, R, X = TEMPLATE.decode(), USER.decode(), ROLE.decode(), UNKNOWN.decode()

USED: dict[str, tuple[str, str, str]] = {
    "data": ("ab", "ab", T * 2),
    "constants folded": ("{{ 'a' ~ 'b' + 'c' }}", "abc", T * 3),
    "a list of constants": ("{{ ['a', 'b'][0] ~ ('c', 'd')[1] }}", "ad", T * 2),
    "a table of constants": ("{{ {'user': '<u>'}['user'] }}", "<u>", T * 3),
    "a table in a table": ("{{ {'a': {'b': ['<u>']}}.a.b[0] }}", "<u>", T * 3),
    "plus": ("{{ '<' + m.t + '>' }}", "<Ab c>", T + U * 4 + T),
    "tilde": ("{{ '<' ~ m.t ~ m.n ~ '>' }}", "<Ab c5>", T + U * 4 + R + T),
    "role": ("{{ '<|' + m.role + '|>' }}", "<|user|>", T * 2 + R * 4 + T * 2),
    "number": ("{{ 1 }}{{ m.n }}{{ none }}{{ true }}", "15NoneTrue", T + R + T * 8),
    "slice": ("{{ m.t[1:] }}{{ 'xyz'[:-1] }}", "b cxy", U * 3 + T * 2),
    "index": ("{{ m.t[0] }}{{ m.t[-1] }}", "Ac", U * 2),
    "strip": ("{{ (' ' + m.t + ' x').strip() }}", "Ab c x", U * 4 + T * 2),
    "trim": ("{{ (' ' + m.t) | trim }}", "Ab c", U * 4),
    "trim of characters": ("{{ ('x' + m.t + 'x') | trim('x') }}", "Ab c", U * 4),
    "split": ("{{ ('a b' + m.t).split(' ')[1] }}", "bAb", T + U * 2),
    "rsplit": ("{{ (m.t + ' z').rsplit(none, 1)[0] }}", "Ab c", U * 4),
    "partition": ("{{ m.t.partition(' ') | join('-') }}", "Ab- -c", U * 2 + T + U + T + U),
    "replace": ("{{ m.t.replace('b', '##') }}", "A## c", U + T * 2 + U * 2),
    "replace filter": ("{{ m.t | replace(' ', '_') }}", "Ab_c", U * 2 + T + U),
    "replace by a user's": ("{{ 'a%b' | replace('%', m.t) }}", "aAb cb", T + U * 4 + T),
    "join": ("{{ [m.t, 'z', 1] | join(', ') }}", "Ab c, z, 1", U * 4 + T * 5 + R),
    "join of attributes": ("{{ [m, m] | join('+', attribute='t') }}", "Ab c+Ab c", "uuuutuuuu"),
    "upper": ("{{ (m.t + 'z') | upper }}", "AB CZ", U * 4 + T),
    "lower": ("{{ (m.t + 'Z') | lower }}", "ab cz", U * 4 + T),
    "title": ("{{ (m.t + ' zz') | title }}", "Ab C Zz", U * 4 + T * 3),
    "capitalize": ("{{ m.t | capitalize }}", "Ab c", U * 4),
    "indent": ("{{ (m.t ~ '\n' ~ m.t) | indent(1) }}", "Ab c\n Ab c", U * 4 + T * 2 + U * 4),
    "indent, first": ("{{ m.t | indent(2, first=true) }}", "  Ab c", T * 2 + U * 4),
    "indent, blank": ("{{ 'a\n\nb' | indent('>', blank=true) }}", "a\n>\n>b", T * 6),
    "first and last": ("{{ [m.t, 'z'] | first }}{{ [m.t, 'z'] | last }}", "Ab cz", U * 4 + T),
    "first and last of a text": ("{{ m.t | first }}{{ m.t | last }}", "Ac", U * 2),
    "default": ("{{ nope | default('z') }}{{ m.t | default('z') }}", "zAb c", T + U * 4),
    "string": ("{{ m.t | string }}{{ m.n | string }}", "Ab c5", U * 4 + R),
    "list": ("{{ m.t | list | join }}", "Ab c", U * 4),
    "reverse": ("{{ ('z' + m.t) | reverse }}", "c bAz", U * 4 + T),
    "safe": ("{{ m.t | safe }}", "Ab c", U * 4),
    "map": ("{{ [m.t] | map('upper') | join }}", "AB C", U * 4),
    "items": ("{% for k, v in m.d.items() %}{{ k }}{{ v }}{% endfor %}", "kv", U * 2),
    "dictsort": ("{% for k, v in m.d | dictsort %}{{ k }}{{ v }}{% endfor %}", "kv", U * 2),
    "tojson": ("{{ {'a': m.t} | tojson }}", '{"a": "Ab c"}', T * 6 + U * 6 + T),
    "tojson of a user's": ("{{ m.d | tojson }}", '{"k": "v"}', T + U * 3 + T * 2 + U * 3 + T),
    "loops over characters": ("{% for c in m.t %}{{ c }}{% endfor %}", "Ab c", U * 4),
    "a macro": ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m.t) }}", "<Ab c>", "tuuuut"),
    "a macro's text used": (
        "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m.t)[1:3] | upper }}",
        "AB",
        U * 2,
    ),
    "a call block": (
        (
            "{% macro f() %}<{{ caller('z') }}>{% endmacro %}"
            "{% call(x) f() %}{{ m.t }}{{ x }}{% endcall %}"
        ),
        "<Ab cz>",
        T + U * 4 + T * 2,
    ),
    "a set block": ("{% set x %}<{{ m.t }}>{% endset %}{{ x }}", "<Ab c>", T + U * 4 + T),
    "a set block with a filter": (
        "{% set x | upper %}z{{ m.t }}{% endset %}{{ x }}",
        "ZAB C",
        "tuuuu",
    ),
    "a filter block": ("{% filter upper %}z{{ m.t }}{% endfilter %}", "ZAB C", T + U * 4),
    "a namespace": (
        (
            "{% set n = namespace(x='a') %}"
            "{% for i in 'bc' %}{% set n.x = n.x ~ m.t[0] %}{% endfor %}{{ n.x }}"
        ),
        "aAA",
        T + U * 2,
    ),
    "the generation tag": ("{% generation %}<{{ m.t }}>{% endgeneration %}", "<Ab c>", "tuuuut"),
    "cycle and joiner": (
        (
            "{% set j = joiner(',') %}"
            "{% for i in 'ab' %}{{ j() }}{{ loop.cycle('x', m.t) }}{% endfor %}"
        ),
        "x,Ab c",
        T * 2 + U * 4,
    ),
    "the template's tokens": ("{{ bos_token }}{{ m.t }}", "<s>Ab c", T * 3 + U * 4),
    "format of the template's alone": ("{{ '<{}>'.format('z') }}", "<z>", T * 3),
    "format of one with another's": ("{{ '<{}>'.format(m.t) }}", "<Ab c>", X * 6),
    "percent of the template's alone": ("{{ '<%s>' % 'z' }}{{ '%d' | format(5) }}", "<z>5", T * 4),
    "percent of one with another's": (
        "{{ '<%s>' % m.t }}{{ '%s' | format(m.t) }}",
        "<Ab c>Ab c",
        X * 6 + U * 4,
    ),
    "center": ("{{ m.t.center(6) }}", " Ab c ", U * 6),
    "swapcase": ("{{ m.t.swapcase() }}{{ ('z' + m.t).swapcase() }}", "aB CZaB C", U * 4 + X * 5),
    "a user's list as text": ("{{ [m.t] }}", "['Ab c']", U * 8),
    "a list of both as text": ("{{ [m.t, 'z'] }}", "['Ab c', 'z']", X * 13),
    "escape": ("{{ m.t | escape }}", "Ab c", X * 4),
    "names of arguments": ("{% for k in dict(a=1) %}{{ k }}{% endfor %}", "a", X),
}
"""A template, what it writes of m = {t: "Ab c", n: 5, role: "user", d: {k: v}}, and who does."""


@pytest.mark.parametrize("name", USED)
def test_who_wrote_what_in_a_rendering(name: str) -> None:
    source, expected, writers = USED[name]
    template = ChatTemplate(source, {"bos_token": "<s>"})
    values = {"t": "Ab c", "n": 5, "role": "user", "d": {"k": "v"}}
    assert template.render({"m": values}, None, 100) == expected
    traced = traced_values(values, USER)
    traced["role"] = Traced("user", ROLE * 4)
    result = template.render({"m": traced}, None, 100, traced=True)
    same(result, expected)
    assert writers_of(result).decode() == writers


def test_traced_values_have_their_writer_at_any_depth() -> None:
    value = traced_values({"a": ["b", {"c": None}], "d": 1}, USER)
    assert value == {"a": ["b", {"c": None}], "d": 1}
    strings = list(strings_in_order(value, sort_keys=False))
    assert [(text, text.writers) for text in strings] == [(text, USER) for text in "abcd"]
