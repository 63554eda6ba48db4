"""docs/fingerprint.md is enough to compute every hash again without `service.core.fingerprint`."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import tiktoken
import tiktoken.load

from service.catalog.probes import PROBES
from tests.locks import EMBEDDED, EMBEDDED_LOCK

if TYPE_CHECKING:
    from service.catalog.catalog import Catalog

DOC = (EMBEDDED.parent / "docs" / "fingerprint.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n\n```json\n(.*?)\n```\n", DOC))


def canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_there_are_two_examples() -> None:
    assert set(EXAMPLES) == {"minbpe-service", "bert-base-uncased"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_hashes_to_the_pinned_fingerprint(name: str) -> None:
    line = EXAMPLES[name]
    assert canonical(json.loads(line)) == line.encode()
    assert "sha256:" + sha256(line.encode()) == EMBEDDED_LOCK[name]["fingerprint"]
    assert f"`{sha256(line.encode())}`" in DOC


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_describes_what_the_lock_pins(name: str) -> None:
    description, locked = json.loads(EXAMPLES[name]), EMBEDDED_LOCK[name]
    assert description["format"] == locked["format"]
    assert description["files"] == [[file["role"], file["sha256"]] for file in locked["file"]]
    for file in locked["file"]:
        assert sha256((EMBEDDED / file["path"]).read_bytes()) == file["sha256"]
    assert description["options"] == locked.get("options", {}), "no option has its default here"
    spellings = description["options"].get("template", {"before": [], "after": []}).items()
    ids = description["special_tokens"]
    assert description["template"] == {side: [ids[s] for s in names] for side, names in spellings}


def test_the_members_are_those_of_the_table() -> None:
    (table,) = re.findall(r"^\| member \| value \|\n(.*?)\n\n", DOC, re.DOTALL | re.MULTILINE)
    members = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    for line in EXAMPLES.values():
        assert set(json.loads(line)) == members


def test_the_vocabulary_digest_of_a_file_by_hand(catalog: Catalog) -> None:
    data = (EMBEDDED / "bert-base-uncased" / "vocab.txt").read_bytes()
    state = hashlib.sha256()
    hashed = b""
    for token_id, piece in enumerate(data.removesuffix(b"\n").split(b"\n")):
        pair = token_id.to_bytes(8, "big") + len(piece).to_bytes(8, "big") + piece
        hashed = hashed or pair
        state.update(pair)
    assert hashed.hex() == "".join(re.findall(r"`([0-9a-f]{32})` and `([0-9a-f]+)`", DOC)[0])
    assert f"`sha256:{state.hexdigest()}`" in DOC
    for name in ("bert-base-uncased", "all-minilm-l6-v2"):
        assert catalog.resolve(name).vocabulary_sha256 == "sha256:" + state.hexdigest()


def test_the_probes_of_an_artifact_by_its_library_alone() -> None:
    locked = EMBEDDED_LOCK["p50k_edit"]
    specials: dict[str, int] = locked["options"]["special_tokens"]
    library = tiktoken.Encoding(
        name="p50k_edit",
        pat_str=locked["options"]["pattern"],
        mergeable_ranks=tiktoken.load.load_tiktoken_bpe(str(EMBEDDED / locked["file"][0]["path"])),
        special_tokens=specials,
    )
    literal = [library.encode_ordinary(text) for text in PROBES]
    spellings = sorted(specials)
    spelling_probe = "a" + "b".join(spellings) + " c " + spellings[0] * 2
    special = [library.encode(text, allowed_special="all") for text in (*PROBES, spelling_probe)]
    # This artifact has no template, so framed ids are the bare ones.
    lists = literal + literal[:3] + special
    assert "sha256:" + sha256(canonical(lists)) == locked["probes"]
