"""The splitters that people use, timed in a process of their own, in the peers' environment.

A line on standard input asks: {"splitter", "file", "max_tokens", "chunks"}; a line on standard
output answers {"seconds"} of CPU time, or {"reason"} why not. `chunks`: a file to write them to.
Nothing is downloaded: tiktoken's registry is given the artifact's own ranks.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import rank_files
from tiktoken import registry

if TYPE_CHECKING:
    from collections.abc import Callable

    Split = Callable[[str], list[str]]

NAME = "cl100k_base"
ENCODING = rank_files.encoding(NAME)
registry.ENCODINGS[NAME] = ENCODING


def count(text: str) -> int:
    return len(ENCODING.encode_ordinary(text))


def langchain_token(max_tokens: int) -> Split:
    from langchain_text_splitters import TokenTextSplitter  # noqa: PLC0415 - one may be missing

    return TokenTextSplitter(
        encoding_name=NAME, chunk_size=max_tokens, chunk_overlap=0, disallowed_special=()
    ).split_text


def langchain_recursive(max_tokens: int) -> Split:
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415

    return RecursiveCharacterTextSplitter(
        chunk_size=max_tokens, chunk_overlap=0, length_function=count
    ).split_text


def chonkie_token(max_tokens: int) -> Split:
    from chonkie import TokenChunker  # noqa: PLC0415

    chunker = TokenChunker(tokenizer=ENCODING, chunk_size=max_tokens, chunk_overlap=0)
    return lambda text: [chunk.text for chunk in chunker.chunk(text)]


def chonkie_recursive(max_tokens: int) -> Split:
    from chonkie import RecursiveChunker  # noqa: PLC0415

    chunker = RecursiveChunker(tokenizer=ENCODING, chunk_size=max_tokens)
    return lambda text: [chunk.text for chunk in chunker.chunk(text)]


def semchunk(max_tokens: int) -> Split:
    from semchunk import chunkerify  # noqa: PLC0415

    def split(text: str) -> list[str]:
        # A counter of its own each time: what it remembers of the last round is no speed.
        chunks: list[str] = chunkerify(functools.partial(count), max_tokens)(text)
        return chunks

    return split


def llamaindex_sentence(max_tokens: int) -> Split:
    from llama_index.core.node_parser import SentenceSplitter  # noqa: PLC0415

    return SentenceSplitter(
        chunk_size=max_tokens, chunk_overlap=0, tokenizer=ENCODING.encode_ordinary
    ).split_text


def semantic_text_splitter(max_tokens: int) -> Split:
    from semantic_text_splitter import TextSplitter  # noqa: PLC0415

    # Its own copy of cl100k_base, compiled in.
    chunks: Split = TextSplitter.from_tiktoken_model("gpt-4", max_tokens, trim=False).chunks
    return chunks


SPLITTERS: dict[str, Callable[[int], Split]] = {
    "LangChain TokenTextSplitter": langchain_token,
    "chonkie TokenChunker": chonkie_token,
    "chonkie RecursiveChunker": chonkie_recursive,
    "semchunk": semchunk,
    "LangChain RecursiveCharacterTextSplitter": langchain_recursive,
    "LlamaIndex SentenceSplitter": llamaindex_sentence,
    "semantic-text-splitter, untrimmed": semantic_text_splitter,
}


def answer(splitter: str, file: str, max_tokens: int, chunks: str | None) -> dict[str, object]:
    text = Path(file).read_bytes().decode()
    try:
        # What a library prints while it loads is no answer.
        with contextlib.redirect_stdout(sys.stderr):
            split = SPLITTERS[splitter](max_tokens)
            started = time.process_time()
            found = split(text)
            seconds = time.process_time() - started
    except Exception as error:  # noqa: BLE001 - the others are worth having all the same
        return {
            "reason": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        }
    if chunks is not None:
        Path(chunks).write_text(json.dumps(found), encoding="utf-8")
    return {"seconds": seconds}


def main() -> None:
    """Answer until standard input ends."""
    print(json.dumps({"splitters": list(SPLITTERS)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
