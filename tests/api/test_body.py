"""A body in parts of any size is what was sent, and parts of a byte don't take forty times it."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from service.api.body import Body


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_joined(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - parts, no secrets
    sizes = chance.choices([0, 1, 2, 100, 16_383, 16_384, 16_385, 70_000], k=60)
    parts = [chance.randbytes(size) for size in sizes]
    body = Body()
    for number, part in enumerate(parts, 1):
        body.add(part)
        assert body.size == sum(sizes[:number])
    assert body.whole() == b"".join(parts)
    assert body.whole() == b"".join(parts), "looking changes nothing"


def test_one_part_is_not_copied() -> None:
    part = bytes(100_000)
    body = Body()
    body.add(part)
    assert body.whole() == part
    assert Body().whole() == b""


def test_parts_of_one_byte() -> None:
    tracemalloc.start()
    body = Body()
    for number in range(200_000):
        body.add(b"%c" % (number % 200))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 3 * body.size
