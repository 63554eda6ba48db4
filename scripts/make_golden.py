"""Make tests/golden/<artifact>.json anew, with the reference libraries and nothing of the service.

Run by a person (`make golden`), who then reads the difference: an id that moved is a change of
the contract and belongs in the changelog. Arguments: artifacts to make; all when there are none.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golden_texts import TEXTS, spelling_texts
from reference import NAMES, NOTHING, reference, version_of

if TYPE_CHECKING:
    from reference import Reference

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"


def case(oracle: Reference, name: str, text: str) -> dict[str, Any]:
    """What the reference says of one text."""
    literal = oracle.encode(text, NOTHING)
    return {
        "id": name,
        "text": text,
        "literal": literal,
        "special": oracle.encode(text, None),
        "framed_literal": oracle.encode(text, NOTHING, framed=True),
        "framed_special": oracle.encode(text, None, framed=True),
        "decoded": oracle.decode(literal),
    }


def golden(artifact: str) -> dict[str, Any]:
    """The content of one artifact's golden file."""
    oracle = reference(artifact)
    controls = sorted(oracle.controls, key=oracle.controls.__getitem__)
    texts = TEXTS | dict(spelling_texts(controls))
    return {
        "artifact": artifact,
        "library": oracle.library,
        "version": version_of(oracle.library),
        "python": platform.python_version(),
        "generator": "scripts/make_golden.py",
        "cases": [case(oracle, name, text) for name, text in texts.items()],
    }


def written(content: dict[str, Any]) -> str:
    """The content as JSON in ASCII, one case a line, so that a difference can be read."""
    head = {key: value for key, value in content.items() if key != "cases"}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    cases = (json.dumps(entry, separators=(",", ":")) for entry in content["cases"])
    return "{\n" + ",\n".join([*lines, '"cases": [\n' + ",\n".join(cases) + "\n]"]) + "\n}\n"


def main(names: list[str]) -> None:
    """Write the files and say how large they are."""
    for name in names or NAMES:
        content = golden(name)
        path = GOLDEN / f"{name}.json"
        path.write_text(written(content), encoding="ascii", newline="\n")
        made = f"{content['library']} {content['version']}"
        print(f"{name}: {len(content['cases'])} texts, {path.stat().st_size} bytes, {made}")


if __name__ == "__main__":
    main(sys.argv[1:])
