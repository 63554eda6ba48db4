"""`python -m fuzz.seeds`: where fuzzing starts, cut out of the real artifacts; a few KB each.

What a run found worth keeping stands beside these under other names, and stays.
"""

from __future__ import annotations

import io
import itertools
import json
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from fuzz.formats import SEPARATOR
from fuzz.harness import CORPUS

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = CORPUS.parents[1]
ARTIFACTS = ROOT / "artifacts"
DATA = ROOT / "tests" / "data"

SHA256 = "0" * 64
WHOLE_LOCK = f"""version = 1
[[artifact]]
name = "a.b_c-9"
format = "wordpiece"
license = "MIT"
source = "s"
aliases = ["two", "three"]
fingerprint = "sha256:{SHA256}"
probes = "sha256:{SHA256}"
options = {{ lowercase = true, special_tokens = {{ "<|x|>" = 1 }} }}
[[artifact.file]]
role = "vocab"
path = "./a/..b"
sha256 = "{SHA256}"
bytes = 1_000
"""


def locks() -> dict[str, bytes]:
    """The real lock's first words and its shortest artifacts; one with every key."""
    head, *artifacts = (ARTIFACTS / "artifacts.lock").read_text("utf-8").split("[[artifact]]\n")
    shortest = sorted(artifacts, key=len)
    return {
        "real": "[[artifact]]\n".join((head, *shortest[:2])).encode(),
        "tiktoken": "[[artifact]]\n".join((head, shortest[5])).encode(),
        "whole": WHOLE_LOCK.encode(),
        "refused-name": WHOLE_LOCK.replace('"three"', '"two"').encode(),
        "refused-role": (WHOLE_LOCK + WHOLE_LOCK[WHOLE_LOCK.index("[[artifact.file]]") :]).encode(),
        "refused-path": WHOLE_LOCK.replace("./a/..b", "a/../../b").encode(),
        "refused-digits": f"version = {'1' * 4400}".encode(),
    }


def byte_level() -> dict[str, dict[str, bytes]]:
    """The three formats that begin with the 256 bytes, and BERT's."""
    ranks = (ARTIFACTS / "r50k_base" / "r50k_base.tiktoken").read_bytes().split(b"\n")
    model = (ARTIFACTS / "minbpe-service" / "minbpe-service.model").read_bytes().split(b"\n")
    merges = (ARTIFACTS / "clip-vit-large-patch14" / "merges.txt").read_bytes().split(b"\n")
    words = DATA / "word_bpe"
    pieces = (ARTIFACTS / "bert-base-uncased" / "vocab.txt").read_bytes().split(b"\n")
    named = [piece for piece in pieces if piece.startswith(b"[") and b"unused" not in piece]
    cut = [*named, b"a", b"b", b"c", b"##a", b"##b", *pieces[1996:2020], *pieces[4000:4010]]
    return {
        "tiktoken": {"real": b"\n".join((*ranks[:262], b""))},
        "minbpe": {
            "real": b"\n".join((*model[:30], b"")),
            "no-pattern": b"minbpe v1\n\n0\n97 98\n256 99\n",
        },
        "bpe_merges": {
            "real": b"\n".join((*merges[:25], b"")),
            "characters": SEPARATOR.join(
                (words / name).read_bytes() for name in ("merges.txt", "vocab.json")
            ),
        },
        "wordpiece": {"real": b"\n".join((*dict.fromkeys(cut), b""))},
    }


def definitions() -> dict[str, bytes]:
    """Small tokenizer.json files of every model."""
    found = {
        path.name.split(".")[0]: _compact(json.loads(path.read_bytes()))
        for path in sorted((DATA / "synthetic").glob("*.tokenizer.json"))
    }
    gpt2 = json.loads((ARTIFACTS / "gpt2" / "tokenizer.json").read_bytes())
    gpt2["model"]["merges"] = gpt2["model"]["merges"][:12]
    last = 256 + len(gpt2["model"]["merges"])
    gpt2["added_tokens"][0]["id"] = last
    vocab = sorted(gpt2["model"]["vocab"].items(), key=lambda item: int(item[1]))[:last]
    gpt2["model"]["vocab"] = {**dict(vocab), gpt2["added_tokens"][0]["content"]: last}
    found["gpt2"] = _compact(gpt2)
    minilm = ARTIFACTS / "all-minilm-l6-v2"
    bert = json.loads((minilm / "tokenizer.json").read_bytes())
    names = [token["content"] for token in bert["added_tokens"]]
    bert["model"]["vocab"] = dict(zip((*names, "a", "the", "##e"), itertools.count(), strict=False))
    for place, token in enumerate(bert["added_tokens"]):
        token["id"] = place
    for place, name in ((2, "[CLS]"), (3, "[SEP]")):
        bert["post_processor"]["special_tokens"][name]["ids"] = [place]
    config = {"cls_token": "[CLS]", "chat_template": "{% for m in messages %}{{ m }}{% endfor %}"}
    found["bert"] = SEPARATOR.join((_compact(bert), _compact(config)))
    found["unigram"] = _compact(_unigram())
    return found


def _unigram() -> dict[str, Any]:
    blank = "\u2581"
    pieces = ["<unk>", "</s>", blank, f"{blank}a", "a", "b", "th", "e"]
    return {
        "version": "1.0",
        "added_tokens": [{"id": 1, "content": "</s>", "special": True}],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "NFKC"}, {"type": "Prepend", "prepend": blank}],
        },
        "pre_tokenizer": {"type": "Metaspace", "replacement": blank, "prepend_scheme": "always"},
        "decoder": {"type": "Metaspace", "replacement": blank, "prepend_scheme": "always"},
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": False,
            "vocab": [[piece, -float(place)] for place, piece in enumerate(pieces)],
        },
    }


def models() -> dict[str, bytes]:
    """The two real models, cut, and one that was trained with a character map of its own."""
    proto: Any = sentencepiece_model_pb2.__dict__["ModelProto"]
    found: dict[str, bytes] = {}
    cuts = {"mistral-7b-v0.3/tokenizer.model": 1060, "t5-base/spiece.model": 40}
    for name, kept in cuts.items():
        model = proto.FromString((ARTIFACTS / name).read_bytes())
        pieces = [
            piece
            for place, piece in enumerate(model.pieces)
            if place < kept and not piece.piece.startswith("[control")
        ]
        del model.pieces[:]
        model.pieces.extend(pieces[:300])
        model.normalizer_spec.precompiled_charsmap = b""
        del model.trainer_spec.control_symbols[:]
        del model.trainer_spec.user_defined_symbols[:]
        found[name.split("-")[0]] = model.SerializeToString()
    trained = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("FF21\t41\n308\t\n")
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the cat sat on the mat", "a cat and a hat"] * 9),
            model_writer=trained,
            vocab_size=32,
            hard_vocab_limit=False,
            model_type="unigram",
            normalization_rule_tsv=rules.name,
            user_defined_symbols=["hat"],
            minloglevel=2,
        )
    model = proto.FromString(trained.getvalue())
    model.normalizer_spec.normalization_rule_tsv = ""
    found["charsmap"] = model.SerializeToString()
    return found


def bodies() -> dict[str, bytes]:
    """Requests of every route, in JSON and in MessagePack."""
    fingerprint = "sha256:" + SHA256
    policy = {"special_policy": "special", "allowed_special": ["<|x|>"], "add_special_tokens": True}
    message = {"role": "user", "content": "h\u00e9 \U0001f642", "n": [1, -1.5e3, None, {"a": True}]}
    requests: dict[str, Mapping[str, object]] = {
        "encode": {"tokenizer": "x", "text": "a\n", "text_pair": "b", **policy, "offsets": "byte"},
        "segments": {
            "tokenizer": "gpt2",
            "segments": [{"text": "a", "special_policy": "reject"}, {"text": "\u6771"}],
            "token_bytes": True,
        },
        "chat": {
            "tokenizer": "gpt2",
            "messages": [message],
            "tools": [{"type": "function"}],
            "template_arguments": {"x": 1},
            "now": "2026-01-01T00:00:00Z",
            "rendered": False,
        },
        "count": {
            "tokenizers": ["a", "b"],
            "texts": ["x", "y"],
            "budget": 5,
            "expected_fingerprint": {"a": fingerprint},
        },
        "decode": {"tokenizer": "gpt2", "ids": [0, 1, 50256], "mode": "replace", "output": "bytes"},
        "batch": {"tokenizer": "gpt2", "batch": [[1], []], "pieces": True, "final": False},
        "truncate": {"tokenizer": "gpt2", "text": "x", "max_tokens": 9, "keep": "end"},
        "chunk": {
            "tokenizer": "gpt2",
            "texts": ["x"],
            "max_tokens": 9,
            "overlap_tokens": 2,
            "boundary": "token",
            "unit": "utf16",
            "include_text": False,
            "expected_fingerprint": fingerprint,
        },
    }
    found = {f"{name}.json": _compact(request) for name, request in requests.items()}
    found |= {f"{name}.msgpack": msgspec.msgpack.encode(body) for name, body in requests.items()}
    found["surrogate.json"] = rb'{"tokenizer":"gpt2","text":"\ud83d \ud83d\ude42"}'
    found["latin1.json"] = b'{"tokenizer":"gpt2","text":"\xe9"}'
    found["latin1.msgpack"] = b"\x82\xa9tokenizer\xa4gpt2\xa4text\xa1\xe9"
    return found


def parts() -> dict[str, bytes]:
    """Bytes in parts: characters cut, and every kind of ill-formed part."""
    return {
        "cut": b"\x04\x01\x01\x02\x00a\xc3\xa9\xe6\x9d\xb1\xf0\x9f\x99\x82z",
        "ill-formed": b"\x03\x02\x05\x01\xed\xa0\x80\xc0\x80\xf4\x90\xef\xbf\xbd\xff\xe2\x82",
        "surrogate": b"\x01\x01a\xed\xa0",
        "truncated": b"\x01\x03abc\xf0\x9f\x99",
    }


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def main() -> None:
    """Write them."""
    every = {
        "lock": locks(),
        **byte_level(),
        "tokenizer_json": definitions(),
        "sentencepiece": models(),
        "bodies": bodies(),
        "utf8": parts(),
    }
    for name, inputs in every.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in inputs.items():
            (folder / file).write_bytes(data)


if __name__ == "__main__":
    main()
