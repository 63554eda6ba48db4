"""Conversations, and a tokenizer, for the golden renderings of chat templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "tests" / "data" / "chat"
"""The templates that this project wrote for its tests."""

BOS, EOS = "<s>", "</s>"
ROLE_TOKENS = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
MARKERS = ("<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
NOT_SPECIAL = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Added tokens that the file marks `special: false`, as Qwen's does."""

CONFIG = {"bos_token": BOS, "eos_token": {"__type": "AddedToken", "content": EOS}}

NOW = "2026-01-02T03:04:05Z"
"""What strftime_now tells in all golden renderings."""


def chat_tokenizer() -> dict[str, Any]:
    """gpt2's tokenizer.json with the markers of the templates as added tokens."""
    path = ROOT / "artifacts" / "gpt2" / "tokenizer.json"
    definition: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    first = 1 + max(definition["model"]["vocab"].values())
    for place, spelling in enumerate((BOS, EOS, *ROLE_TOKENS, *MARKERS, *NOT_SPECIAL)):
        definition["added_tokens"].append(
            {
                "id": first + place,
                "content": spelling,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": spelling not in NOT_SPECIAL,
            }
        )
    return definition


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather at a place.\nNow, not later.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City & <country>"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": None},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Die Uhrzeit \u2013 12 \u00bd",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
}
ARGUMENTS = {
    "place": 'K\u00f6ln "am Rhein"',
    "days": 3,
    "exact": True,
    "limit": None,
    "at": {"z": [1, 2.5, -1e-7], "a": []},
}

SYSTEM = {"role": "system", "content": "Answer in one short sentence."}
ASK = {"role": "user", "content": "How warm is it?"}
REPLY = {"role": "assistant", "content": "It is 21 degrees."}


def _call(arguments: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }
    return {"role": "assistant", "tool_calls": [call], **more}


RESULT = {
    "role": "tool",
    "name": "get_weather",
    "tool_call_id": "call00001",
    "content": "21 \u00b0C",
}


def _chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"messages": list(messages), **more}


def _user(content: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"role": "user", "content": content}


def _with_assistant(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return _chat(ASK, {"role": "assistant", **fields}, _user("And now?"))


CHATS: dict[str, dict[str, Any]] = {
    "user": _chat(ASK),
    "system": _chat(SYSTEM, ASK),
    "turns": _chat(SYSTEM, ASK, REPLY, _user("And tomorrow?"), REPLY, _user("Thanks.")),
    "no prompt": _chat(ASK, add_generation_prompt=False),
    "ends with the assistant": _chat(SYSTEM, ASK, REPLY, add_generation_prompt=False),
    "tools": _chat(SYSTEM, ASK, tools=[WEATHER, CLOCK]),
    "tools without system": _chat(ASK, tools=[WEATHER]),
    "no tools": _chat(ASK, tools=[]),
    "call": _chat(ASK, _call(ARGUMENTS, content=""), RESULT, tools=[WEATHER]),
    "call with text": _chat(ASK, _call(ARGUMENTS, content="I look."), RESULT, REPLY, ASK),
    "call without content": _chat(ASK, _call(ARGUMENTS), RESULT, tools=[WEATHER]),
    "call with null": _chat(ASK, _call(ARGUMENTS, content=None, refusal=None), RESULT),
    "call with JSON text": _chat(ASK, _call('{"place": "K\\u00f6ln"}', content=""), RESULT),
    "reasoning_content": _with_assistant(content="21.", reasoning_content="Let me see.\nYes."),
    "thinking": _with_assistant(content="21.", thinking="Let me see."),
    "reasoning": _with_assistant(content="21.", reasoning="Let me see.", thinking=None),
    "reasoning at the end": _chat(
        ASK,
        {"role": "assistant", "content": "21.", "reasoning_content": "\n\nSo. "},
        add_generation_prompt=False,
    ),
    "think in content": _with_assistant(content="<think>\nLet me see.\n</think>\n\n21."),
    "think in a question": _chat(_user("What does </think> mean, and <think>?")),
    "unicode": _chat(
        _user("\U0001f469\u200d\U0001f52c \u4eca\u5929 e\u0301 \u2028 \ufeff \u0130 \ufb01")
    ),
    "markup": _chat(_user("<b>&amp; \"x\" 'y' {{ 1 + 1 }} {% if %} {# c #} \\n </b>")),
    "empty": _chat({"role": "system", "content": ""}, _user("")),
    "blanks": _chat({"role": "system", "content": " \n a \n"}, _user("\n\n  b \t\r\n"), REPLY, ASK),
    "parts": _chat(_user([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])),
    "image": _chat(_user([{"type": "image"}, {"type": "text", "text": "What is this?"}])),
    "name": _chat({"role": "user", "name": "ana", "content": "Hi"}, {**REPLY, "name": "bot"}, ASK),
    "no thinking": _chat(ASK, arguments={"enable_thinking": False}),
    "arguments": _chat(
        ASK,
        REPLY,
        ASK,
        arguments={
            "documents": [
                {"title": "the first page", "text": "one\n\ntwo"},
                {"title": "B", "text": ""},
            ],
            "default_system": "  Be brief. ",
            "max_turns": 2,
            "enable_thinking": True,
        },
    ),
    "two questions": _chat(ASK, ASK),
    "assistant first": _chat(REPLY, ASK),
    "system late": _chat(ASK, SYSTEM, ASK),
    "developer": _chat({"role": "developer", "content": "Be brief."}, ASK),
    "spellings": _chat(_user("a<|im_end|>\n<|im_start|>system\nb</s>[/INST]<|end|><|user|>")),
    "no content": _chat({"role": "user"}),
    "a number": _chat(_user(5)),
}
"""What is rendered with every template, by a name."""
