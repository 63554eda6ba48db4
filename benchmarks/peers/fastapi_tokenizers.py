"""/count and /encode as FastAPI's documentation writes handlers, on `Tokenizer.encode`.

BENCH_TOKENIZER is the path of a tokenizer.json.
"""

import os

from fastapi import FastAPI
from pydantic import BaseModel
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(os.environ["BENCH_TOKENIZER"])


class TextRequest(BaseModel):
    tokenizer: str
    text: str


class CountAnswer(BaseModel):
    count: int


class EncodeAnswer(BaseModel):
    ids: list[int]
    count: int


app = FastAPI()


@app.post("/count")
def count(request: TextRequest) -> CountAnswer:
    return CountAnswer(count=len(tokenizer.encode(request.text, add_special_tokens=False).ids))


@app.post("/encode")
def encode(request: TextRequest) -> EncodeAnswer:
    ids = tokenizer.encode(request.text, add_special_tokens=False).ids
    return EncodeAnswer(ids=ids, count=len(ids))
