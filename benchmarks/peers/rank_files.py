"""tiktoken's encodings from the artifacts' rank files; tiktoken itself would download them."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path

import tiktoken

_ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts"


def encoding(name: str) -> tiktoken.Encoding:
    """An encoding with the pattern and the special tokens that the lock pins."""
    lock = tomllib.loads((_ARTIFACTS / "artifacts.lock").read_text(encoding="utf-8"))
    (locked,) = (artifact for artifact in lock["artifact"] if artifact["name"] == name)
    lines = (_ARTIFACTS / locked["file"][0]["path"]).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    return tiktoken.Encoding(
        name,
        pat_str=locked["options"]["pattern"],
        mergeable_ranks=ranks,
        special_tokens=locked["options"]["special_tokens"],
    )
