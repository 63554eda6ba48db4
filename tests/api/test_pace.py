"""When the event loop has time for a long text."""

from __future__ import annotations

import asyncio
from time import perf_counter

from service.api.pace import QUIET_SECONDS, TURN_SECONDS, Pace


def test_there_is_time_while_no_small_requests_come() -> None:
    pace = Pace()
    assert pace.has_time()
    pace.small_at = perf_counter()
    assert not pace.has_time()
    pace.small_at -= QUIET_SECONDS
    assert pace.has_time()


def test_long_texts_share_a_turn_of_the_loop() -> None:
    async def test() -> list[bool]:
        pace = Pace()
        pace.took(TURN_SECONDS / 2)
        found = [pace.has_time()]
        pace.took(TURN_SECONDS / 2)
        found.append(pace.has_time())
        await asyncio.sleep(0)
        found.append(pace.has_time())
        pace.took(TURN_SECONDS)
        return [*found, pace.has_time()]

    assert asyncio.run(test()) == [True, False, True, False]
