"""The probe corpus: fixed texts whose ids a pinned artifact must give with any library version.

Changing a text here changes every `probes` value of every lock: never edit one, and add texts
only together with new `probes` values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.core.fingerprint import probe_digest
from service.errors import ChatTemplateFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.catalog.chat import ChatTemplates
    from service.core.tokenizer import Tokenizer

PROBES: tuple[str, ...] = (
    "Hello world",
    " leading blank, trailing blank ",
    "two  blanks   three    four\ttab\n\nlines\r\nCRLF\rCR",
    "The quick brown fox jumps over the lazy dog; it's 3:45 p.m. and we'll see they've gone.",
    "DON'T SHOUT: I'M, YOU'LL, HE'D, WE'RE 'tis ’curly’ \u017fong \u2019s'\u017f",
    "def f(x: int) -> list[int]:\n    return [x ** 2 for _ in range(10)]  # squares\n",
    '{"id": 12345, "ok": true, "items": [1.5, -2e10, null], "text": "a\\u00e9"}',
    "camelCase snake_case SCREAMING_CASE kebab-case HTTPServer2Error __init__ a.b.c",
    "0 1 12 123 1234 12345 3.14159 1,000,000 0xFF 1e-9 \u0662\u0663 \u00bd \u2167 \u2460",
    "https://example.org/path?q=1&r=%20#frag user@example.org +49 (0)30 1234-567",
    "Fran\u00e7ois caf\u00e9 na\u00efve Stra\u00dfe \u0130stanbul \u01c5 \ufb01 \ufb03 \u00e5ngstr\u00f6m",
    "Cafe\u0301 nai\u0308ve A\u030a \u1e69 s\u0323\u0307 q\u0307\u0323 Z\u0351\u036b\u0343",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430 \u0439 \u0438\u0306",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5 \u03a3\u03c3\u03c2",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f \u0967\u0968\u0969",
    "\u0c24\u0c46\u0c32\u0c41\u0c17\u0c41 \u0c2d\u0c3e\u0c37 \u0c95\u0ca8\u0ccd\u0ca8\u0ca1 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e07\u0e48\u0e32\u0e22\u0e44\u0e2b\u0e21 \u0ea5\u0eb2\u0ea7",
    "\u0627\u0644\u0644\u063a\u0629 \u0627\u0644\u0639\u0631\u0628\u064a\u0629\u064e \u06f1\u06f2\u06f3 \u05e9\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6771\u4eac\u90fd \u3072\u3089\u304c\u306a\u30ab\u30bf\u30ab\u30ca \uff76\uff85 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\uff26\uff35\uff2c\uff2c \uff57\uff49\uff44\uff54\uff48 \uff11\uff12 \ufe30 \u2026 \u2122 \u33a5 \u0132",
    "\U0001f389 \U0001f9ea\U0001f9ec \U0001f469\u200d\U0001f52c\u2764\ufe0f \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2603",
    "\U0001d4d0\U0001d4d1 \U00020000\U0002a6d6 \U00010348 \U000e0041 \U0010fffd \ue000 \ufdd0 \u0378",
    "zero\u200bwidth \u200cnon\u200djoiner\ufeffbom \u00adsoft \u2028line\u2029para \u0085nel",
    "nul\0byte \x01\x02\x1b[0m\x7f \x80\x9f \u00a0nbsp \u2003em \u3000ideographic",
    "\ufffd replacement \ufffe \uffff \u2581 \u2581\u2581lower block <0x41> \u0120\u010a letters",
    "a" * 300,
    "=" * 200 + " " * 150 + "\n" * 120 + "." * 90,
    "antidisestablishmentarianism" * 5 + " pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 101 + " " + "y" * 100,
    "<|endoftext|> <s> </s> <unk> <pad> [CLS] [SEP] [MASK] [INST] <|im_start|> <think>",
    "\u00e9" * 40 + "\u4e00" * 40 + "\U0001f600" * 20,
    "tab\tsep\tvalues\n1\t2\t3\n\n\n   indented\n\t\ttwice\n",
    "if (a<b && c>=d || !e) { return a?.b ?? c; } // \u65e5\u672c\u8a9e comment",
    "Mixed\u6df7\u5408text\u0442\u0435\u043a\u0441\u0442\u0e1c\u0e2a\u0e21 w1th2 numb3rs4 \u0967a\u0661b",
)
"""Texts over the scripts, blanks, digits, marks and controls on which tokenizers differ."""

CHAT_PROBES: tuple[tuple[dict[str, str], ...], ...] = (
    ({"role": "user", "content": "Hello"},),
    (
        {"role": "system", "content": "Answer in one short sentence."},
        {"role": "user", "content": "How many chunks fit?"},
        {"role": "assistant", "content": " Three.\n"},
        {"role": "user", "content": "And now?"},
    ),
)
"""Chats that a template may refuse: an empty list stands for one that does."""

_MAX_CHAT_CHARACTERS = 65_536

_SPELLINGS_AT_ONCE = 64
"""How many control spellings one probe text strings together."""


def probe_ids(tokenizer: Tokenizer, chat: ChatTemplates | None) -> list[list[int]]:
    """The ids of every probe: literal, framed, control spellings recognised, chats rendered."""
    literal = [tokenizer.encode(text) for text in PROBES]
    before, after = tokenizer.frame
    framed = [[*before, *ids, *after] for ids in literal[:3]]
    special = [
        tokenizer.encode_special(text) for text in (*PROBES, *spelling_probes(tokenizer.controls))
    ]
    return literal + framed + special + _chat_ids(tokenizer, chat)


def _chat_ids(tokenizer: Tokenizer, chat: ChatTemplates | None) -> list[list[int]]:
    """The ids of the chat probes' renderings; none where the template refuses the chat."""
    template = None if chat is None else chat.choose(tools=False)
    if template is None:
        return []
    ids: list[list[int]] = []
    for messages in CHAT_PROBES:
        variables = {"messages": list(messages), "tools": None, "add_generation_prompt": True}
        try:
            text = template.render(variables, None, _MAX_CHAT_CHARACTERS)
        except ChatTemplateFailed:
            ids.append([])
        else:
            ids.append(tokenizer.encode_special(text))
    return ids


def spelling_probes(controls: Mapping[str, int]) -> list[str]:
    """Texts in which every control spelling stands between letters, blanks and another one."""
    spellings = sorted(controls)
    return [
        "a" + "b".join(spellings[start : start + _SPELLINGS_AT_ONCE]) + " c " + spellings[start] * 2
        for start in range(0, len(spellings), _SPELLINGS_AT_ONCE)
    ]


def probes_digest(tokenizer: Tokenizer, chat: ChatTemplates | None) -> str:
    """The value that the lock pins as `probes`."""
    return probe_digest(probe_ids(tokenizer, chat))


def probe_count(tokenizer: Tokenizer, chat: ChatTemplates | None) -> int:
    """How many lists of ids the digest covers."""
    chats = 0 if chat is None else len(CHAT_PROBES)
    return 2 * len(PROBES) + 3 + len(spelling_probes(tokenizer.controls)) + chats
