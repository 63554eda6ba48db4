"""Loading by Python objects gives the tokenizer that the library reads of the same JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer

from service.formats import FormatError
from service.formats._definition import Definition, parse_definition
from service.formats._library import _load_bpe, load
from tests.locks import EMBEDDED

_ABC = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "<0x00>": 5, "<unk>": 6}


def _definition(model: dict[str, Any], **parts: object) -> Definition:
    whole = {"version": "1.0", "model": {"type": "BPE", "vocab": _ABC, "merges": []} | model}
    return parse_definition(json.dumps(whole | parts).encode())


def _token(content: str, token_id: int, **flags: bool) -> dict[str, object]:
    return {"id": token_id, "content": content, **flags}


DEFINITIONS = {
    "gpt2": parse_definition((EMBEDDED / "gpt2" / "tokenizer.json").read_bytes()),
    "merges as text": _definition({"merges": ["a b", "ab c"]}),
    "merges as pairs": _definition({"merges": [["a", "b"], ["ab", "c"]]}),
    "nothing to merge": _definition({}),
    "every option": _definition(
        {
            "dropout": 0.0,
            "unk_token": "<unk>",
            "continuing_subword_prefix": "##",
            "end_of_word_suffix": "</w>",
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": True,
        }
    ),
    "components": _definition(
        {"merges": ["a b"]},
        normalizer={"type": "Lowercase"},
        pre_tokenizer={"type": "Whitespace"},
        decoder={"type": "BPEDecoder", "suffix": "</w>"},
    ),
    "added tokens": _definition(
        {"merges": ["a b"]},
        normalizer={"type": "Lowercase"},
        added_tokens=[
            _token("<unk>", 6, special=True),
            _token("<x>", 7, special=True, lstrip=True),
            _token("Y", 8, normalized=True, single_word=True, rstrip=True),
        ],
    ),
    "ids that leave a hole": _definition({}, added_tokens=[_token("<x>", 7), _token("<y>", 12)]),
}
DEFINITIONS["no type"] = dict(DEFINITIONS["merges as text"])
DEFINITIONS["no type"]["model"] = {
    key: value for key, value in DEFINITIONS["no type"]["model"].items() if key != "type"
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_bpe_by_objects_is_that_of_its_json(name: str) -> None:
    definition = DEFINITIONS[name]
    read = Tokenizer.from_str(json.dumps(definition))
    built = _load_bpe(definition)
    assert json.loads(built.to_str()) == json.loads(read.to_str())
    assert built.get_vocab() == read.get_vocab()
    for text in ("abc", "<x> ab<y>", "Ya y", "cab<unk>\0", "##a b</w>"):
        (one,), (other,) = built.encode_batch([text]), read.encode_batch([text])
        assert (one.ids, one.offsets) == (other.ids, other.offsets)


REFUSED = {
    "a merge of one": {"merges": ["ab"]},
    "a merge of three": {"merges": ["a b c"]},
    "a merge of what is no piece": {"merges": ["a x"]},
    "a merge that makes no piece": {"merges": ["b c"]},
    "a merge of a number": {"merges": [1]},
    "a merge of an object": {"merges": [{"a": 1, "b": 2}]},
    "merges of two kinds": {"merges": ["a b", ["ab", "c"]]},
    "an option of another type": {"fuse_unk": "yes"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_library_refuses_is_refused_with_its_reason(name: str) -> None:
    definition = _definition(REFUSED[name])
    with pytest.raises(Exception) as reason:  # noqa: PT011 - the library raises bare Exception
        Tokenizer.from_str(json.dumps(definition))
    with pytest.raises(FormatError) as refused:
        load(definition)
    assert str(reason.value).split(" at line")[0] in refused.value.reason


def test_a_merge_that_the_reader_passes_over_is_passed_over() -> None:
    pieces = {**_ABC, "#version": 7, "#versiona": 8}
    definition = _definition({"vocab": pieces, "merges": ["#version a", "a b"]})
    read = Tokenizer.from_str(json.dumps(definition))
    assert load(definition).to_str() == read.to_str()
