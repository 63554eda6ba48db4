"""The sandbox of chat templates: transformers' environment, with steps counted and texts traced."""

from __future__ import annotations

import json
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from service.core.provenance import TEMPLATE, Traced, join, traced_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jinja2.compiler import Frame
    from jinja2.parser import Parser
    from jinja2.runtime import Context

MAX_STEPS = 200_000
"""Turns of loops and calls in one rendering; a long chat of 1,000 messages takes some 20,000."""

MAX_SECONDS = 1.0
"""Time of one rendering: for work that steps do not count."""


class _Run(threading.local):
    """What the rendering of this thread has used."""

    steps = 0
    deadline = 0.0


_RUN = _Run()


class LimitError(Exception):
    """A rendering used more than it may."""


def begin_run() -> None:
    """Begin to count the steps of a rendering in this thread."""
    _RUN.steps, _RUN.deadline = 0, perf_counter() + MAX_SECONDS


def _step() -> None:
    _RUN.steps += 1
    if _RUN.steps > MAX_STEPS or perf_counter() > _RUN.deadline:
        raise LimitError


def _stepping(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _step()
        yield value


class _TracingGenerator(CodeGenerator):
    """Makes the template's own texts Traced, and keeps the writers where texts are joined."""

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        if isinstance(node.value, str):
            self.write(f"environment.own({node.value!r})")
        else:
            super().visit_Const(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return f"environment.own({super()._output_const_repr(group)})"


class _Generation(jinja2.ext.Extension):
    """The `generation` tag, which marks an assistant's turn and renders its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The content alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class PlainEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of one template."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
        )
        self.filters["tojson"] = _tojson
        self.filters["_stepping"] = _stepping
        self.globals["raise_exception"] = _raise_exception
        self.globals["dict"] = _Dict()
        self.globals["namespace"] = _Namespace

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Makes each turn of a loop a step."""
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_stepping", [], [], None, None, lineno=loop.lineno)
        template.set_environment(self)
        return template

    def call(self, context: Context, function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Jinja's
        """Each call is a step: a macro can call itself."""
        _step()
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - Jinja's
        """A product must not be a way to fill the memory."""
        _step()
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            sizes = [len(side) if hasattr(side, "__len__") else side for side in (left, right)]
            if sizes[0] * sizes[1] > MAX_STEPS:
                raise LimitError
        elif operator == "**" and abs(right) > _MAX_EXPONENT:
            raise LimitError
        return super().call_binop(context, operator, left, right)


_MAX_EXPONENT = 64


class TracingEnvironment(PlainEnvironment):
    """The sandbox of a template whose texts remember who wrote them."""

    code_generator_class = _TracingGenerator
    concat = staticmethod(join)

    def __init__(self) -> None:
        super().__init__()
        self.own = own
        self.filters["tojson"] = _traced_tojson
        self.filters["join"] = _traced_join


def own(text: str) -> Traced:
    """A text that the template wrote."""
    return Traced(text, TEMPLATE * len(text))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _traced_tojson(
    value: Any,  # noqa: ANN401 - any JSON value
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - transformers' signature
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return traced_json(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


@jinja2.pass_environment
def _traced_join(
    environment: jinja2.Environment,
    value: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    if attribute is not None:
        value = map(jinja2.filters.make_attrgetter(environment, attribute), value)
    return join(value, d)


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
