"""Filters of chat templates that are transformers' own, bounded, or traced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import filters

from service.core import chat_limits, provenance
from service.core.provenance import Traced, own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def text(value: object) -> str:
    """`str(value)`, as the output has it."""
    if isinstance(value, str):
        return value
    chat_limits.weigh(value)
    return str(value)


def traced_text(value: object) -> Traced:
    """The same, with writers."""
    if isinstance(value, Traced):
        return value
    chat_limits.weigh(value)
    return provenance.text_of(value)


def tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """`json.dumps`."""
    encoder = _Encoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if indent is None and separators is None:
        chat_limits.weigh(value)
        return encoder.encode(value)
    return "".join(encoder.chunks(value))


def traced_tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """The same, with writers."""
    encoder = _Encoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    chunks = encoder.chunks(value)
    if any(isinstance(option, str) and '"' in option for option in (indent, *(separators or ()))):
        return provenance.made_of("".join(chunks), value, indent, separators)
    return provenance.traced_json(value, chunks, sort_keys=sort_keys)


class _Encoder(json.JSONEncoder):
    """Writes JSON in chunks, which options can make much larger than the value."""

    def chunks(self, value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
        """The text in chunks of at most one string each. Raises LimitError."""
        chat_limits.weigh(value)
        indent: Any = self.indent or 0
        width = len(indent) if isinstance(indent, str) else indent
        chat_limits.expect(width * _MAX_JSON_DEPTH)
        size = 0
        for chunk in self.iterencode(value):
            size += len(chunk)
            chat_limits.expect(size)
            yield chunk


_MAX_JSON_DEPTH = 1000
"""Deeper ones Python does not write."""


def traced_indent(
    value: Any,  # noqa: ANN401 - what a filter is given
    width: int | str = 4,
    first: bool = False,  # noqa: FBT001, FBT002 - Jinja's signature
    blank: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Jinja's `indent`."""
    indention = width if isinstance(width, str) else own(" " * width)
    lines = (traced_text(value) + "\n").splitlines()
    for number, line in enumerate(lines):
        if first if number == 0 else line or blank:
            lines[number] = indention + line
    return own("\n").join(lines)


def traced_title(value: Any) -> str:  # noqa: ANN401 - what a filter is given
    """Jinja's `title`."""
    written = traced_text(value)
    return written.recased(filters.do_title(written))
