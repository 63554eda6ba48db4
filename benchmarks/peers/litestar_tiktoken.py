"""/count as Litestar's documentation writes a handler, with tiktoken."""

from __future__ import annotations

import msgspec
from litestar import Litestar, post
from rank_files import encoding

ENCODINGS = {"cl100k_base": encoding("cl100k_base")}


class CountRequest(msgspec.Struct):
    tokenizer: str
    text: str


class CountAnswer(msgspec.Struct):
    count: int


@post("/count", status_code=200)
async def count(data: CountRequest) -> CountAnswer:
    return CountAnswer(len(ENCODINGS[data.tokenizer].encode(data.text, disallowed_special=())))


app = Litestar([count])
