"""The sandbox of chat templates: what it bounds, what it refuses, and that it is transformers'."""

from __future__ import annotations

import concurrent.futures
import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jinja2
import pytest

from service.core.chat import ChatTemplate
from service.errors import ChatTemplateFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = {"role": "user", "content": "Hello"}
TRACED_AND_PLAIN = pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])


def render(
    source: str,
    variables: Mapping[str, Any] | None = None,
    *,
    traced: bool = False,
    limit: int = 1_000_000,
) -> str:
    values = {"messages": [USER], **(variables or {})}
    return ChatTemplate(source, {}).render(values, None, limit, traced=traced)


def failure(source: str, *, traced: bool = False, limit: int = 1_000_000) -> str:
    """The reason with which a rendering fails."""
    with pytest.raises(ChatTemplateFailed) as caught:
        render(source, traced=traced, limit=limit)
    assert caught.value.__cause__ is None
    assert set(caught.value.members) == {"reason"}
    return str(caught.value.members["reason"])


# ---- limits -----------------------------------------------------------------------------------


def doubling(start: str, step: str, used: str = "") -> str:
    return (
        f"{{% set ns = namespace(x={start}) %}}"
        f"{{% for i in range(99) %}}{{% set ns.x = {step} %}}{{% endfor %}}{used}"
    )


def keeping(start: str, made: str) -> str:
    """Keeps everything that it makes."""
    return (
        f"{{% set big = {start} %}}{{% set ns = namespace(x=[]) %}}"
        f"{{% for i in range(99999) %}}{{% set ns.x = [ns.x, {made}] %}}{{% endfor %}}"
    )


MANY = "(['a' * 100000] * 90000)"

BOMBS: dict[str, str] = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a loop over too many": "{% for i in range(1000000000) %}{% endfor %}",
    "range": "{{ range(1000000000) | list }}",
    "a macro without an end": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "a recursive loop": "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
    "a recursive loop over many": (
        "{% for x in range(90000) recursive %}{{ loop(range(90000)) }}{% endfor %}"
    ),
    "output": "{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
    "output of a macro": (
        "{% set big = 'a' * 100000 %}"
        "{% macro m() %}{% for i in range(90000) %}{{ big }}{% endfor %}{% endmacro %}"
        "{% set y = m() %}"
    ),
    "output of a set block": (
        "{% set big = 'a' * 100000 %}"
        "{% set x %}{% for i in range(90000) %}{{ big }}{% endfor %}{% endset %}"
    ),
    "a text times": "{{ 'a' * 1000000000 }}",
    "times a text": "{{ 1000000000 * 'a' }}",
    "a list times": "{{ [1] * 1000000000 }}",
    "a user's text times": "{{ messages[0].content * 100000000 }}",
    "a power": "{{ 2 ** 99999999 }}",
    "powers": doubling("10", "ns.x ** 9"),
    "squares": doubling("10", "ns.x * ns.x"),
    "~ doubling": doubling("'ab'", "ns.x ~ ns.x"),
    "~ doubling wide characters": doubling("'\U0001f600'", "ns.x ~ ns.x"),
    "+ doubling": doubling("'ab'", "ns.x + ns.x"),
    "+ doubling a list": doubling("[1]", "ns.x + ns.x"),
    "a list in a list as text": doubling("['a']", "[ns.x, ns.x]", "{{ ns.x }}"),
    "a list in a list, joined": doubling("[]", "[ns.x, ns.x]", "{{ ns.x ~ '' }}"),
    "a list in a list as JSON": doubling("['a']", "[ns.x, ns.x]", "{{ ns.x | tojson }}"),
    "a namespace as text": doubling("['a']", "[ns.x, ns.x]", "{{ ns }}"),
    "join": f"{{{{ {MANY} | join }}}}",
    "join with a separator": "{{ range(90000) | join('x' * 100000) }}",
    "join, the method": "{{ ('a' * 100000).join([''] * 90000) }}",
    "join of a map": f"{{{{ {MANY} | map('upper') | join }}}}",
    "replace": "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "replace, the method": "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
    "replace, a filter block": (
        "{% filter replace('a', 'b' * 100000) %}{{ 'a' * 100000 }}{% endfilter %}"
    ),
    "center": "{{ 'a' | center(1000000000) }}",
    "center, the method": "{{ 'a'.center(1000000000) }}",
    "ljust": "{{ 'a'.ljust(1000000000) }}",
    "zfill": "{{ 'a'.zfill(1000000000) }}",
    "expandtabs": "{{ ('\\t' * 100000).expandtabs(100000) }}",
    "translate": "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
    "format": "{{ '{:1000000000}'.format('a') }}",
    "format with a width given": "{{ '{:{w}}'.format('a', w=1000000000) }}",
    "format of one many times": "{{ ('{0}' * 60000).format('a' * 100000) }}",
    "format_map": "{{ ('{a}' * 60000).format_map({'a': 'a' * 100000}) }}",
    "percent": "{{ '%1000000000d' % 5 }}",
    "percent with a width given": "{{ '%*d' % (1000000000, 5) }}",
    "percent by name": "{{ '%(a)1000000000s' % {'a': 1} }}",
    "percent of one many times": "{{ ('%(a)s' * 40000) % {'a': 'a' * 100000} }}",
    "percent, the filter": "{{ '%.1000000000f' | format(1.5) }}",
    "indent": "{{ ('\\n' * 100000) | indent(100000) }}",
    "indent of one line": "{{ 'a' | indent(1000000000000, true) }}",
    "indent with a text": "{{ ('\\n' * 100000) | indent('a' * 100000) }}",
    "JSON with an indent": "{{ [[1]] | tojson(indent=1000000000) }}",
    "JSON with separators": "{{ ([1] * 100000) | tojson(separators=('a' * 100000, ':')) }}",
    "batch": "{{ [1] | batch(1000000000, 'x') | list }}",
    "slice": "{{ [1] | slice(1000000000) | list }}",
    "round": "{{ 1.5 | round(1000000000, 'ceil') }}",
    "sum": "{{ ([[1] * 100000] * 100000) | sum(start=[]) }}",
    "lists of a map": "{{ ([range(90000)] * 100000) | map('list') | list }}",
    "slices kept": keeping("'a' * 100000", "big[1:]"),
    "slices of a list kept": keeping("[1] * 100000", "big[1:]"),
    "copies kept": keeping("[1] * 100000", "big.copy()"),
    "pieces kept": keeping("' a' * 50000", "big.split()"),
    "characters kept": keeping("'a' * 100000", "big | list"),
    "attributes": f"{{{{ {{'a': {MANY}}} | xmlattr }}}}",
} | {
    f"{name} of a list": f"{{{{ {MANY} | {name} | length }}}}"
    for name in (
        *("string", "upper", "lower", "title", "capitalize", "trim", "center", "truncate"),
        *("escape", "urlencode", "pprint", "indent", "format"),
    )
}
"""Templates that would take minutes, or gigabytes."""


@pytest.mark.parametrize("name", BOMBS)
@TRACED_AND_PLAIN
def test_a_bomb_ends_at_a_limit(name: str, *, traced: bool) -> None:
    assert failure(BOMBS[name], traced=traced) == "limit"


def test_bombs_take_little_memory() -> None:
    """All of them one after the other, in a process that says how large it ever was."""
    program = (
        "import json, resource, sys\n"
        "from service.core.chat import ChatTemplate\n"
        "from service.errors import ChatTemplateFailed\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "for source in json.load(sys.stdin):\n"
        "    try:\n"
        "        variables = {'messages': [{'content': 'Hello'}]}\n"
        "        ChatTemplate(source, {}).render(variables, None, 10**6)\n"
        "    except ChatTemplateFailed:\n"
        "        pass\n"
        "print(peak() - before)\n"
    )
    allowed = 4 * 1024**3
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(BOMBS.values())),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed)),
    )
    assert int(done.stdout) < 200 * 1024, "kibibytes"


def test_the_output_has_the_bound_that_the_caller_gives() -> None:
    source = "{{ messages[0].content }}"
    assert render(source, limit=5) == "Hello"
    assert failure(source, limit=4) == "limit"


@TRACED_AND_PLAIN
def test_what_is_large_and_honest_is_rendered(*, traced: bool) -> None:
    lines = "one line of a log, and another\n" * 20_000
    messages = [{"role": "user", "content": lines}] + [USER] * 4_000
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content.split('</think>')[-1] "
        "| replace('\n', ' ') | trim }}{% if loop.last %}{{ m.content.splitlines() | length }}"
        "{% endif %}{% endfor %}{{ messages | tojson | length }}"
    )
    result = render(source, {"messages": messages}, traced=traced)
    assert result.count("<|user|>") == 4_001


@TRACED_AND_PLAIN
def test_numbers_of_a_user_are_no_widths(*, traced: bool) -> None:
    """The limits of options are not limits of values."""
    source = (
        "{{ n | string }} {{ n | default(0) }} {{ n + 1 }} {{ n * 2 }} {{ n | tojson }} "
        "{{ '{}'.format(n) }} {{ '%d' % n }} {{ [n] | join }} {{ n | round }} {{ n | int }}"
    )
    n = 1_732_000_000
    expected = f"{n} {n} {n + 1} {n * 2} {n} {n} {n} {n} {n} {n}"
    assert render(source, {"n": n}, traced=traced) == expected


def test_a_failure_leaves_nothing_behind() -> None:
    """The counts of a rendering begin anew, also after one that ended at a limit."""
    good = ChatTemplate("{% for i in range(1000) %}{{ 'a' ~ i }}{% endfor %}", {})
    for bomb in ("loops", "~ doubling", "a macro without an end"):
        assert failure(BOMBS[bomb]) == "limit"
        assert len(good.render({}, None, 100_000)) == 3_890


def test_threads_do_not_count_for_one_another() -> None:
    source = (
        "{% set ns = namespace(x='') %}{% for m in messages %}{% set ns.x = ns.x ~ m %}"
        "{{ loop.index }}{{ m | upper }}{% endfor %}{{ ns.x }}"
    )
    template = ChatTemplate(source, {})
    bomb = ChatTemplate(BOMBS["loops"], {})

    def work(number: int) -> None:
        for turn in range(20):
            messages = [f"m{number}-{turn}-{place}" for place in range(50)]
            upper = "".join(f"{i}{m.upper()}" for i, m in enumerate(messages, 1))
            for traced in (False, True):
                result = template.render({"messages": messages}, None, 100_000, traced=traced)
                assert result == upper + "".join(messages)
        if number % 4 == 0:
            with pytest.raises(ChatTemplateFailed):
                bomb.render({}, None, 100)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [None] * 8


# ---- the sandbox ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ messages[0].__class__.__name__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ dict.__class__.__mro__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ namespace(_x=1) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{% include 'x' %}",
        "{{ nope() }}",
        "{{ strftime_now('%Y') }}",
        "{{ lipsum() }}",
        "{{ nope.nope }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages | first | tojson(nope=1) }}",
        "{{ {1: messages.append} | tojson }}",
    ],
)
@TRACED_AND_PLAIN
def test_what_may_not_be_is_an_error(source: str, *, traced: bool) -> None:
    assert failure(source, traced=traced) == "error"


@pytest.mark.parametrize(
    "source",
    ["{{ raise_exception.__globals__ }}", "{{ messages[0]['content'].format.__globals__ }}"],
)
@TRACED_AND_PLAIN
def test_an_attribute_that_may_not_be_read_is_undefined(source: str, *, traced: bool) -> None:
    assert render(source, traced=traced) == ""


@TRACED_AND_PLAIN
def test_raise_exception_is_told_from_other_failures(*, traced: bool) -> None:
    assert failure("{{ raise_exception('no: ' ~ messages[0].content) }}", traced=traced) == "raised"


@pytest.mark.parametrize("name", ["random", "striptags", "urlize", "wordwrap"])
def test_a_filter_that_is_not_offered_does_not_compile(name: str) -> None:
    with pytest.raises(jinja2.TemplateError, match=name):
        ChatTemplate(f"{{{{ messages | {name} }}}}", {})


@TRACED_AND_PLAIN
def test_what_is_set_inside_the_generation_tag_stays_there(*, traced: bool) -> None:
    """As in transformers, where the tag is a call block."""
    source = (
        "{% set a = 'out' %}{% for m in messages %}{% generation %}{% set a = 'in' %}"
        "{% set b = 'in' %}{{ a }}{{ b }}{% endgeneration %}{{ a }}{{ b }}{% endfor %}"
    )
    assert render(source, traced=traced) == "ininout"


@TRACED_AND_PLAIN
def test_blocks_are_trimmed_and_stripped(*, traced: bool) -> None:
    source = "a\n  {% if true %}\n  b\n  {% endif %}\n{#- c -#}\n  d  {{- 'e' -}}  f\n"
    assert render(source, traced=traced) == "a\n  b\ndef"


@TRACED_AND_PLAIN
def test_loops_know_their_place_and_their_neighbours(*, traced: bool) -> None:
    """Each loop runs over a generator here, which must not be seen."""
    source = (
        "{% for x in 'abc' %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.length }}"
        "{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}"
        "{{ loop.changed(x) }};"
        "{% else %}none{% endfor %}"
        "{% for x in nope %}x{% else %}none{% endfor %}"
        "{% for x in range(9) if x % 2 %}{% if x == 5 %}{% continue %}{% elif x > 6 %}{% break %}"
        "{% endif %}{{ x }}{{ loop.index }}{% endfor %}"
        "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"
    )
    other = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])  # noqa: S701 - no HTML
    assert render(source, traced=traced) == other.from_string(source).render()
