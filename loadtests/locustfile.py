"""Paced load on a local service: every answer is compared with a known one.

`make load` starts a service and runs this. By hand, against one that runs on this machine:

    locust --headless -f loadtests/locustfile.py --host http://127.0.0.1:8000 -u 8 -r 8 -t 30s
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import gevent  # type: ignore[import-untyped] # has no stubs here
from known_answers import Known, first_difference, huge_answers, known_answers
from locust import FastHttpUser, constant_throughput, events, task
from loopback import refuse_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from locust.env import Environment

TASKS_PER_SECOND = 25
"""Of each user. Paced: a stall of the service shows as slow answers, not as fewer requests."""

BATCH_ITEMS = 16

# Filled before the first request.
KNOWN: dict[str, list[Known]] = {}
ALL: list[Known] = []
HUGE: list[Known] = []


class Caller(FastHttpUser):
    """One client that keeps its connection."""

    wait_time = constant_throughput(TASKS_PER_SECOND)

    @task(6)
    def count(self) -> None:
        self._count(random.choice(ALL), "/count")

    @task(1)
    def count_huge(self) -> None:
        self._count(random.choice(HUGE), "/count 200 KB")

    @task(4)
    def encode(self) -> None:
        known = random.choice(ALL)
        self._ask(
            "/encode",
            {"tokenizer": known.tokenizer, "text": known.text},
            {"ids": known.ids, "count": len(known.ids), "bytes": len(known.text.encode())},
        )

    @task(3)
    def decode(self) -> None:
        known = random.choice(ALL)
        self._ask(
            "/decode",
            {"tokenizer": known.tokenizer, "ids": known.ids},
            {"text": known.decoded, "replacements": 0},
        )

    @task(2)
    def encode_batch(self) -> None:
        chosen = self._of_one_tokenizer()
        self._ask(
            "/encode",
            {"tokenizer": chosen[0].tokenizer, "texts": [known.text for known in chosen]},
            {"results.ids": [known.ids for known in chosen]},
            name="/encode batch",
        )

    @task(1)
    def count_batch(self) -> None:
        chosen = self._of_one_tokenizer()
        counts = [len(known.ids) for known in chosen]
        self._ask(
            "/count",
            {"tokenizer": chosen[0].tokenizer, "texts": [known.text for known in chosen]},
            {"results.count": counts, "count": sum(counts)},
            name="/count batch",
        )

    @task(1)
    def decode_batch(self) -> None:
        chosen = self._of_one_tokenizer()
        self._ask(
            "/decode",
            {"tokenizer": chosen[0].tokenizer, "batch": [known.ids for known in chosen]},
            {"results.text": [known.decoded for known in chosen]},
            name="/decode batch",
        )

    @staticmethod
    def _of_one_tokenizer() -> list[Known]:
        return random.choices(random.choice(list(KNOWN.values())), k=BATCH_ITEMS)

    def _count(self, known: Known, name: str) -> None:
        self._ask(
            "/count",
            {"tokenizer": known.tokenizer, "text": known.text},
            {"count": len(known.ids), "bytes": len(known.text.encode())},
            name=name,
        )

    def _ask(
        self,
        path: str,
        body: Mapping[str, Any],
        expected: Mapping[str, Any],
        *,
        name: str | None = None,
    ) -> None:
        """Post `body` and compare the answer, as first_difference does."""
        with self.client.post(path, json=body, name=name or path, catch_response=True) as response:
            if response.status_code != 200:
                response.failure(f"status {response.status_code}")
                return
            wrong = first_difference(response.json(), expected)
            if wrong is not None:
                response.failure(f"wrong answer: {wrong} under {body['tokenizer']}")


@events.init.add_listener
def prepare(environment: Environment, **_: object) -> None:
    """Refuse to load another machine; get the known answers."""
    refuse_others(environment.host)
    KNOWN.update(known_answers())
    ALL.extend(known for of_tokenizer in KNOWN.values() for known in of_tokenizer)
    HUGE.extend(huge_answers())
    # Timers count from the time that the loop last saw, which was before the answers were made.
    gevent.get_hub().loop.update_now()


@events.quitting.add_listener
def fail_without_answers(environment: Environment, **_: object) -> None:
    """A run in which nothing was asked, or anything failed, has failed."""
    total = environment.stats.total
    if total.num_requests == 0 or total.num_failures:
        environment.process_exit_code = 1
