"""`python -m fuzz NAME [option of libFuzzer ...]`: fuzz one harness under atheris.

FUZZ_SECONDS (600) is how long. Starts from the corpus that is kept, and from what earlier runs
found in `.fuzz/NAME` of the working directory, where new inputs go and what fails is put.
"""

from __future__ import annotations

import os
import pathlib
import random
import sys
import tempfile

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(  # pyright: ignore[reportAttributeAccessIssue] - it has no types
    include=["service", "fuzz", "tomllib"]
):
    from fuzz.harness import CORPUS, harnesses

    EVERY = harnesses()

FOUND = pathlib.Path(".fuzz")
LIMITS = ("-timeout=60", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1")
"""A hang and a memory that grows are defects, too."""


def main() -> None:
    """Run one harness; the exit status is not 0 when it failed."""
    name, *options = sys.argv[1:]
    harness = EVERY[name]
    found = FOUND / name
    (found / "corpus").mkdir(parents=True, exist_ok=True)
    words = tempfile.NamedTemporaryFile("w", suffix=".dict", delete=False)  # noqa: SIM115 - libFuzzer reads it
    with words:
        for word in harness.dictionary:
            words.write('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n')

    def run(data: bytes) -> None:
        harness.run(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        assert harness.mutator is not None
        changed = harness.mutator(
            data,
            lambda part: atheris.Mutate(part, max_size),
            random.Random(seed),  # noqa: S311
        )
        if changed is None or len(changed) > max_size:
            changed = atheris.Mutate(data, max_size)
        return bytes(changed)

    seconds = os.environ.get("FUZZ_SECONDS", "600")
    arguments = [
        sys.argv[0],
        *LIMITS,
        f"-max_total_time={seconds}",
        f"-dict={words.name}",
        f"-artifact_prefix={found}/",
        *options,
        str(found / "corpus"),
        str(CORPUS / name),
    ]
    if harness.mutator is None:
        atheris.Setup(arguments, run)
    else:
        atheris.Setup(arguments, run, custom_mutator=mutate)
    atheris.Fuzz()


main()
