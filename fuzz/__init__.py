"""Coverage-guided fuzzing: harnesses that need no fuzzer, and `python -m fuzz`, which has one.

A harness is an object of fuzz.harness.Harness: it takes any bytes and raises AssertionError, or
whatever else escapes, for a defect. `make fuzz-coverage` runs each under atheris; `make test` runs
each over its corpus, and needs no atheris for it.
"""
