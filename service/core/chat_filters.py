"""Filters of chat templates that are transformers' own, bounded, or traced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import filters

from service.core import chat_limits, provenance
from service.core.provenance import own

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.core.chat_environment import PlainEnvironment


@jinja2.pass_environment
def join(
    environment: PlainEnvironment,
    value: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    """Jinja's `join`, its size known before."""
    if attribute is not None:
        value = map(filters.make_attrgetter(environment, attribute), value)
    texts = [environment.text(part) for part in value]
    separator = environment.text(d)
    chat_limits.expect(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


@jinja2.pass_environment
def stepping_sum(
    environment: PlainEnvironment,
    iterable: Iterable[Any],
    attribute: str | int | None = None,
    start: Any = 0,  # noqa: ANN401 - Jinja's
) -> Any:  # noqa: ANN401 - Jinja's
    """Jinja's `sum`, each item a step: of lists it takes quadratic time."""
    return filters.do_sum(environment, chat_limits.stepping(iterable), attribute, start)


def tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """`json.dumps`, in chunks where the options can make much of little."""
    options: dict[str, Any] = {
        "ensure_ascii": ensure_ascii,
        "indent": indent,
        "separators": separators,
        "sort_keys": sort_keys,
    }
    chat_limits.weigh(value)
    if indent is None and separators is None:
        return json.dumps(value, **options)
    chat_limits.expect((len(indent) if isinstance(indent, str) else indent or 0) * _MAX_JSON_DEPTH)
    chunks: list[str] = []
    size = 0
    for chunk in json.JSONEncoder(**options).iterencode(value):
        size += len(chunk)
        chat_limits.expect(size)
        chunks.append(chunk)
    return "".join(chunks)


_MAX_JSON_DEPTH = 1000
"""Deeper ones Python does not write."""


def traced_tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """The same, with writers; the plain rendering went first, so its size is known."""
    return provenance.traced_json(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def traced_indent(
    value: Any,  # noqa: ANN401 - what a filter is given
    width: int | str = 4,
    first: bool = False,  # noqa: FBT001, FBT002 - Jinja's signature
    blank: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Jinja's `indent`."""
    indention = width if isinstance(width, str) else own(" " * width)
    lines = (provenance.text_of(value) + "\n").splitlines()
    for number, line in enumerate(lines):
        if first if number == 0 else line or blank:
            lines[number] = indention + line
    return own("\n").join(lines)


def traced_title(value: Any) -> str:  # noqa: ANN401 - what a filter is given
    """Jinja's `title`."""
    text = provenance.text_of(value)
    return text.recased(filters.do_title(text))
