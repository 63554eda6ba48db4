"""The sandbox of chat templates: transformers' environment, within limits, its texts traced."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from service.core import chat_filters, chat_limits, provenance
from service.core.provenance import UNKNOWN, Traced, own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jinja2.compiler import Frame
    from jinja2.parser import Parser
    from jinja2.runtime import Context

_NOT_OFFERED = ("random", "striptags", "urlize", "wordwrap")
"""Filters that give another answer each time, or may take more than linear time.

A template that names one does not compile, and so refuses the start.
"""


class _Generator(CodeGenerator):
    """Puts the limits where texts are made."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self.write("environment.concat_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        is_slice = isinstance(node.arg, nodes.Slice)
        self.write("environment.made(" * is_slice)
        super().visit_Getitem(node, frame)
        self.write(")" * is_slice)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:  # noqa: ANN401 - Jinja's
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("environment.text(")


class _TracingGenerator(_Generator):
    """Makes the template's own texts Traced."""

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        if isinstance(node.value, str | list | tuple | dict):
            self.write(_traced_source(node.value))
        else:
            super().visit_Const(node, frame)

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return _traced_source("".join(group))


def _traced_source(value: Any) -> str:  # noqa: ANN401 - any constant
    """Source of a constant in which every text is the template's own."""
    if isinstance(value, str):
        return f"environment.own({value!r})"
    if isinstance(value, dict):
        pairs = (f"{_traced_source(key)}: {_traced_source(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        inner = "".join(f"{_traced_source(item)}, " for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)


class _Generation(jinja2.ext.Extension):
    """The `generation` tag, which marks an assistant's turn and renders its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The content alone, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class PlainEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of one template."""

    code_generator_class = _Generator
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
        )
        for name in _NOT_OFFERED:
            del self.filters[name]
        del self.globals["lipsum"]  # random, too
        own_filters = {
            "join": chat_filters.join,
            "sum": chat_filters.stepping_sum,
            "tojson": chat_filters.tojson,
            **self._further_filters(),
        }
        for name, function in {**self.filters, **own_filters}.items():
            self.filters[name] = self._bounded(function, chat_limits.OF_FILTER.get(name))
        self.filters["_stepping"] = chat_limits.stepping
        self.globals["raise_exception"] = _raise_exception
        self.globals["dict"] = _Dict()
        self.globals["namespace"] = _Namespace

    made = staticmethod(chat_limits.made)

    def _further_filters(self) -> dict[str, Callable[..., Any]]:
        return {}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Makes each turn of a loop a step."""
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_stepping", [], [], None, None, lineno=loop.lineno)
        template.set_environment(self)
        return template

    text = staticmethod(chat_filters.text)

    def concat(self, texts: Iterable[str]) -> str:
        """The texts as one: what macros and blocks put out."""
        texts = list(texts)
        chat_limits.expect(sum(map(len, texts)))
        joined: str = chat_limits.made(self.text("").join(texts))
        return joined

    def concat_values(self, values: Iterable[object]) -> str:
        """What `~` makes."""
        return self.concat(map(self.text, values))

    def _bounded(
        self, function: Callable[..., Any], estimate: Callable[..., object] | None
    ) -> Callable[..., Any]:
        """A filter that is a step, whose result is estimated before and counted after."""
        given_first = 1 if hasattr(function, "jinja_pass_arg") else 0

        @functools.wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a filter's
            chat_limits.step()
            if estimate is not None:
                estimate(*args[given_first:], **kwargs)
            result = chat_limits.made(function(*args, **kwargs))
            return self.of(result, *args[given_first:], *kwargs.values())

        return bounded

    @staticmethod
    def of(result: Any, *_: object) -> Any:  # noqa: ANN401 - any value
        """The result of an operation on these values."""
        return result

    def call(self, context: Context, function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Jinja's
        """Each call is a step: a macro can call itself."""
        chat_limits.step()
        method = getattr(function, "__wrapped__", function)  # Jinja wraps `format`
        text = getattr(method, "__self__", None)
        if not isinstance(text, str):
            return chat_limits.made(super().call(context, function, *args, **kwargs))
        args = chat_limits.before_method(method.__name__, text, args, kwargs)
        result = super().call(context, function, *args, **kwargs)
        chat_limits.made(result, chat_limits.PIECE_BYTES)
        return self.of(result, text, *args, *kwargs.values())

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - Jinja's
        """A product must not be a way to fill the memory."""
        chat_limits.before_operator(operator, left, right)
        result = chat_limits.made(super().call_binop(context, operator, left, right), 8)
        return self.of(result, left, right)


class TracingEnvironment(PlainEnvironment):
    """The sandbox of a template whose texts remember who wrote them."""

    code_generator_class = _TracingGenerator
    text = staticmethod(chat_filters.traced_text)

    own = staticmethod(functools.lru_cache(maxsize=4096)(own))
    """For the constants of templates, which are few."""

    @staticmethod
    def of(result: Any, *values: object) -> Any:  # noqa: ANN401 - any value
        """The result, with a writer if it is a text without one.

        Sandboxed `format` makes a Traced of what it put together.
        """
        untraced = type(result) is str or (
            isinstance(result, Traced) and not result.writers.strip(UNKNOWN)
        )
        return provenance.made_of(result, *values) if untraced else result

    def _further_filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "indent": chat_filters.traced_indent,
            "safe": chat_filters.traced_text,
            "string": chat_filters.traced_text,
            "title": chat_filters.traced_title,
            "tojson": chat_filters.traced_tojson,
        }


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


class _Dict:
    """`dict` without the class, through whose attributes a template could leave the sandbox."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:  # noqa: ANN401 - dict's
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:  # noqa: ANN401 - dict's
        """`dict.fromkeys`."""
        return dict.fromkeys(*args)


class _Namespace(jinja2.utils.Namespace):
    """`namespace` that keeps underscores, and so Python's internals, out of reach."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Jinja's own trick
        self, values = args[0], args[1:]
        attributes = dict(*values, **kwargs)
        for name in attributes:
            _check_namespace_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401 - any value
        _check_namespace_name(name)
        super().__setitem__(name, value)


def _check_namespace_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError("an attribute of a namespace may not begin with an underscore")
