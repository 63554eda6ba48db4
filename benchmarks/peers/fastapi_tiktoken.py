"""/count as FastAPI's documentation writes a handler, with tiktoken; /sync/count is a plain def."""

import tiktoken
from fastapi import FastAPI
from pydantic import BaseModel
from rank_files import encoding

ENCODINGS: dict[str, tiktoken.Encoding] = {
    name: encoding(name) for name in ("cl100k_base", "o200k_base")
}


class CountRequest(BaseModel):
    tokenizer: str
    text: str


class CountAnswer(BaseModel):
    count: int


app = FastAPI()


@app.post("/count")
async def count(request: CountRequest) -> CountAnswer:
    ids = ENCODINGS[request.tokenizer].encode(request.text, disallowed_special=())
    return CountAnswer(count=len(ids))


@app.post("/sync/count")
def count_in_thread(request: CountRequest) -> CountAnswer:
    ids = ENCODINGS[request.tokenizer].encode(request.text, disallowed_special=())
    return CountAnswer(count=len(ids))
