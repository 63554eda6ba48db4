"""The links of the OpenAPI document: which values of an answer make a good next request.

OpenAPI defines an expression as the whole body of the linked request and says nothing of one inside
a body. Ours stand inside, field by field, since no answer is a request as it is; tools that follow
links (schemathesis does in our tests) read them so.
"""

from __future__ import annotations

from typing import Any


def _request(operation_id: str, description: str, **fields: str) -> dict[str, Any]:
    """A link to a POST route; `fields` are expressions by field of its body."""
    return {"operationId": operation_id, "description": description, "requestBody": fields}


def _answered(**pointers: str) -> dict[str, str]:
    """Expressions for values of the answer."""
    return {field: f"$response.body#/{pointer}" for field, pointer in pointers.items()}


_DESCRIBE = {
    "operationId": "fingerprint",
    "description": "What the tokenizer is that answered.",
    "parameters": _answered(name="tokenizer"),
}

_READ_ALIKE = _answered(
    tokenizer="tokenizer",
    expected_fingerprint="fingerprint",
    special_policy="special_policy",
    add_special_tokens="add_special_tokens",
)
"""By the same tokenizer under the same policy, so that the counts agree."""

LINKS: dict[str, dict[str, dict[str, Any]]] = {
    "encode": {
        "decode": _request(
            "decode",
            "The text of these ids, by the tokenizer that gave them.",
            **_answered(tokenizer="tokenizer", ids="ids", expected_fingerprint="fingerprint"),
        ),
        "describe": _DESCRIBE,
    },
    "decode": {
        "encode": _request(
            "encode",
            "The ids of this text, which may be others than those that spelt it.",
            **_answered(tokenizer="tokenizer", text="text", expected_fingerprint="fingerprint"),
        ),
        "describe": _DESCRIBE,
    },
    "count": {
        "encode": _request(
            "encode", "The ids that were counted.", text="$request.body#/text", **_READ_ALIKE
        ),
        "describe": _DESCRIBE,
    },
    "truncate": {
        "encode": _request(
            "encode", "The ids of the text that is kept.", **_answered(text="text"), **_READ_ALIKE
        ),
        "describe": _DESCRIBE,
    },
    "chunk": {
        "encode": _request(
            "encode",
            "The ids of a chunk; here, of the first.",
            **_answered(text="chunks/0/text"),
            **_READ_ALIKE,
        ),
        "describe": _DESCRIBE,
    },
    "tokenizers": {
        "count": _request(
            "count",
            "The tokens of a text by one of them; here, by the first.",
            **_answered(tokenizer="tokenizers/0/name"),
        ),
        "describe": {**_DESCRIBE, "parameters": _answered(name="tokenizers/0/name")},
    },
    "fingerprint": {
        "encode": _request(
            "encode",
            "Ids by this tokenizer, and by no other that comes to have its name.",
            **_answered(tokenizer="tokenizer", expected_fingerprint="fingerprint"),
        ),
    },
}
"""Links by name, by the operationId whose 200 they start from. A link of which the answer lacks a
value (a batch has no `ids`) is none."""
