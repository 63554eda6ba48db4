"""When the event loop has time for a long text."""

from __future__ import annotations

import asyncio
from time import perf_counter

from service.api.pace import QUIET_SECONDS, TURN_SECONDS, VAIN_SECONDS, Pace


def test_there_is_time_while_no_small_requests_come() -> None:
    pace = Pace()
    assert pace.has_time()
    pace.busy_at = perf_counter()
    assert not pace.has_time()
    pace.busy_at -= QUIET_SECONDS
    assert pace.has_time()


def test_long_texts_share_a_turn_of_the_loop() -> None:
    async def test() -> list[bool]:
        pace = Pace()
        pace.took(TURN_SECONDS / 2, in_vain=False)
        found = [pace.has_time()]
        pace.took(TURN_SECONDS / 2, in_vain=False)
        found.append(pace.has_time())
        await asyncio.sleep(0)
        found.append(pace.has_time())
        pace.took(TURN_SECONDS, in_vain=False)
        return [*found, pace.has_time()]

    assert asyncio.run(test()) == [True, False, True, False]


def test_after_a_text_that_proved_slow_others_are_left_to_the_thread() -> None:
    async def test() -> list[bool]:
        pace = Pace()
        found = []
        for seconds in (VAIN_SECONDS, 2 * VAIN_SECONDS):
            pace.took(seconds, in_vain=True)
            await asyncio.sleep(0)
            found.append(pace.has_time())
        pace.busy_at -= QUIET_SECONDS
        return [*found, pace.has_time()]

    assert asyncio.run(test()) == [True, False, True]
