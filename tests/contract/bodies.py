"""A body for each operation that it answers with 200: what tests of all of them start from."""

from __future__ import annotations

from typing import Any

TOKENIZER = "cl100k_base"

MINIMAL: dict[str, dict[str, Any]] = {
    "/encode": {"tokenizer": TOKENIZER, "text": "a"},
    "/count": {"tokenizer": TOKENIZER, "text": "a"},
    "/decode": {"tokenizer": TOKENIZER, "ids": [64]},
    "/truncate": {"tokenizer": TOKENIZER, "text": "a", "max_tokens": 4},
    "/chunk": {"tokenizer": TOKENIZER, "text": "a", "max_tokens": 4},
}
