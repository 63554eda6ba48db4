"""Write the generated tables of README.md, between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.

python scripts/readme.py            write them
python scripts/readme.py --check    write nothing; exit 1 when one is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from service import errors
from service.api.app import metrics_for
from service.api.descriptions import list_catalog
from service.api.operations import operations
from service.api.pages import PAGES
from service.api.problems import STATUS_OF_CODE
from service.catalog.loading import load_catalog
from service.core.policy import SpecialPolicy
from service.settings import described_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from service.catalog.catalog import Catalog

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

ALIASES_SHOWN = 3
KIB = 1024

BECOMES = {
    SpecialPolicy.LITERAL: "ordinary pieces. Never a control id, whoever wrote the text",
    SpecialPolicy.SPECIAL: "its control id; `allowed_special` narrows which ones, "
    "the others stay literal",
    SpecialPolicy.REJECT: "an error, 422 `special_token_in_text`, with the token and its place",
}
"""What a control spelling inside a text becomes. A new policy has no entry and fails here."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(value: object) -> str:
    return f"`{value}`"


def artifacts(catalog: Catalog) -> str:
    licences = {entry.name: entry.artifact.license for entry in catalog}
    return table(
        ("name", "format", "aliases", "vocabulary", "round trip", "licence"),
        (
            (
                code(listed.name),
                code(listed.format),
                _shortened(listed.aliases),
                f"{listed.vocab_size:,}",
                listed.round_trip,
                licences[listed.name],
            )
            for listed in list_catalog(catalog).tokenizers
        ),
    )


def _shortened(aliases: Sequence[str]) -> str:
    shown = ", ".join(code(alias) for alias in aliases[:ALIASES_SHOWN])
    more = len(aliases) - ALIASES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def routes(_: Catalog) -> str:
    posts = [("POST", path, operation.summary) for path, operation in operations().items()]
    gets = [("GET", path, page.summary) for path, page in PAGES.items()]
    return table(
        ("method", "path", "what"),
        ((method, code(path), summary) for method, path, summary in [*posts, *gets]),
    )


def policies(_: Catalog) -> str:
    default = SpecialPolicy.LITERAL
    return table(
        ("`special_policy`", "a special token's spelling inside the text becomes"),
        (
            (code(policy.value) + (" (default)" if policy is default else ""), BECOMES[policy])
            for policy in SpecialPolicy
        ),
    )


def settings(_: Catalog) -> str:
    return table(
        ("variable", "default", "meaning"),
        (
            (code(variable), _default(variable, default), meaning)
            for variable, default, meaning in described_settings()
        ),
    )


def _default(variable: str, default: str) -> str:
    if not default:
        return "(empty)"
    if variable.endswith("_BYTES") and default.isdigit():
        size, unit = int(default), "B"
        for larger in ("KiB", "MiB", "GiB"):
            if size % KIB:
                break
            size, unit = size // KIB, larger
        return f"`{default}` ({size} {unit})"
    return code(default)


def metrics(catalog: Catalog) -> str:
    rows = []
    for family in metrics_for(catalog).collect():
        suffix = "_total" if family.type == "counter" else ""
        labels = ", ".join(
            code(label)
            for label in family._labelnames  # noqa: SLF001 - the library has no public name for it
        )
        rows.append((code(family.name + suffix), family.type, labels, family.documentation))
    return table(("series", "kind", "labels", "meaning"), rows)


def problems(_: Catalog) -> str:
    meanings = {
        error.code: (error.__doc__ or "").splitlines()[0]
        for error in vars(errors).values()
        if isinstance(error, type)
        and issubclass(error, errors.RequestError)
        and error is not errors.RequestError
    }
    return table(
        ("status", "code", "when"),
        (
            (str(status), code(name), meanings[name])
            for name, status in sorted(STATUS_OF_CODE.items(), key=lambda item: item[1])
        ),
    )


TABLES: dict[str, Callable[[Catalog], str]] = {
    "routes": routes,
    "artifacts": artifacts,
    "policies": policies,
    "settings": settings,
    "metrics": metrics,
    "errors": problems,
}


def with_tables(text: str, catalog: Catalog) -> str:
    """`text` with every table made anew. Raises ValueError when one has no place."""
    for name, make in TABLES.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        made = f"{begin}\n\n{make(catalog)}\n\n{end}"
        place = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text, places = place.subn(lambda _, made=made: made, text)
        if places != 1:
            raise ValueError(f"expected one place for the table {name!r}, found {places}")
    return text


def main() -> str | None:
    """Write or check; what is wrong, if anything is."""
    parser = argparse.ArgumentParser(description="Write the generated tables of README.md.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    made = with_tables(text, load_catalog(ROOT / "artifacts"))
    if not arguments.check:
        README.write_text(made, encoding="utf-8")
    elif made != text:
        return "README.md has a table that is out of date: run scripts/readme.py"
    return None


if __name__ == "__main__":
    # A message goes to stderr, with exit status 1.
    sys.exit(main())
