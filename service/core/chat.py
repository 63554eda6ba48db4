"""Rendering a pinned chat template as transformers' `apply_chat_template` does, within bounds.

Same environment (transformers 5.23, utils/chat_template_utils.py): a sandbox, `trim_blocks`,
`lstrip_blocks`, loop controls, the `generation` tag, `tojson` without HTML escaping,
`raise_exception`; messages lose their null members and know reasoning under its three names.
Differences, on purpose: `strftime_now` exists only when the caller gives the time, so that the
same request has the same ids; steps, seconds and output are bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2

from service.core.chat_environment import PlainEnvironment, TracingEnvironment
from service.core.chat_limits import LimitError, begin_run
from service.core.provenance import join, made_of, own
from service.core.tokenizer import ROLES
from service.errors import ChatTemplateFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""The names under which a message's reasoning is passed; templates read the first or second."""

RESERVED_NAMES = frozenset(
    {
        "messages",
        "tools",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
        "namespace",
        "dict",
        "range",
        "lipsum",
        "cycler",
        "joiner",
        "loop",
        "self",
        "caller",
        *(f"{role}_token" for role in ROLES),
    }
)
"""What a caller's arguments may not be called."""


class ChatTemplate:
    """A template, compiled once; rendering it changes nothing and may happen in any thread."""

    def __init__(self, source: str, token_names: Mapping[str, str]) -> None:
        """`token_names` are variables such as `bos_token`. Raises jinja2.TemplateError."""
        self._token_names = dict(token_names)
        self._plain = PlainEnvironment().from_string(source)
        self._tracing = TracingEnvironment().from_string(source)

    def render(
        self,
        variables: Mapping[str, Any],
        now: datetime | None,
        max_characters: int,
        *,
        traced: bool = False,
    ) -> str:
        """The rendering; with `traced`, a Traced whose writers are those of `variables`' texts.

        Raises ChatTemplateFailed.
        """
        template = self._tracing if traced else self._plain
        names: Mapping[str, Any] = self._token_names
        if traced:
            names = {name: own(token) for name, token in names.items()}
        context = template.new_context({**names, **variables})
        if now is not None:
            told = now.strftime
            context.vars["strftime_now"] = (
                (lambda form: made_of(told(form), form)) if traced else told
            )
        begin_run()
        pieces: list[str] = []
        size = 0
        try:
            for piece in template.root_render_func(context):
                size += len(piece)
                if size > max_characters:
                    raise LimitError  # noqa: TRY301 - one place tells all failures apart
                pieces.append(piece)
        except (LimitError, MemoryError, OverflowError, RecursionError):
            raise ChatTemplateFailed("limit") from None
        except Exception as error:  # noqa: BLE001 - a template can raise whatever its data makes it
            # Not the message: it is the template's, but may quote what the caller wrote.
            raised = isinstance(error, jinja2.TemplateError) and not isinstance(
                error, jinja2.TemplateRuntimeError
            )
            raise ChatTemplateFailed("raised" if raised else "error") from None
        return join(pieces) if traced else "".join(pieces)


def prepared_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as transformers gives them to a template."""
    prepared: list[dict[str, Any]] = []
    for message in messages:
        kept = {name: value for name, value in message.items() if value is not None}
        reasoning = next((kept[name] for name in _REASONING if name in kept), None)
        if reasoning is not None:
            kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
        prepared.append(kept)
    return prepared
