"""service.core.fingerprint: digests that anybody can compute again, here by hand and hashlib.

tests/property/test_fingerprint.py says when they change.
"""

from __future__ import annotations

import hashlib

from service.core.fingerprint import (
    canonical_json,
    digest,
    fingerprint,
    probe_digest,
    vocabulary_digest,
)


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_canonical_json() -> None:
    value = {"b": [1, -2, None, True], "a": {"\u6771": '\u00e9"\\\n\x7f', "Z": 0.5}}
    written = '{"a":{"Z":0.5,"\u6771":"\u00e9\\"\\\\\\n\x7f"},"b":[1,-2,null,true]}'
    assert canonical_json(value) == written.encode()
    assert digest(b"abc") == sha256(b"abc")


def test_the_description_that_is_hashed() -> None:
    found = fingerprint(
        artifact_format="tiktoken",
        files=[("ranks", "b" * 64), ("config", "a" * 64)],
        options={"pattern": "\\w+", "n": 1},
        controls={"<|b|>": 2, "<|a|>": 3},
        before=(5, 4),
        after=iter([6]),
        chat_template=None,
    )
    files = f'[["config","{"a" * 64}"],["ranks","{"b" * 64}"]]'
    assert found == sha256(
        (
            f'{{"chat_template":null,"files":{files},"format":"tiktoken",'
            '"options":{"n":1,"pattern":"\\\\w+"},"policy_rules":1,'
            '"special_tokens":{"<|a|>":3,"<|b|>":2},'
            '"template":{"after":[6],"before":[5,4]},"version":1}'
        ).encode()
    )


def test_the_vocabulary_is_hashed_by_id_with_lengths() -> None:
    pairs = (
        *(b"\0" * 7 + b"\x01", b"\0" * 7 + b"\x02", b"ab"),
        *(b"\0" * 6 + b"\x01\x00", b"\0" * 8, b""),
    )
    assert vocabulary_digest({256: b"", 1: b"ab"}) == sha256(b"".join(pairs))
    assert vocabulary_digest({}) == sha256(b"")


def test_the_probes_are_hashed_in_their_order() -> None:
    assert probe_digest([[1, 2], [], [3]]) == sha256(b"[[1,2],[],[3]]")
    assert probe_digest(iter([[3], [1, 2]])) == sha256(b"[[3],[1,2]]")
