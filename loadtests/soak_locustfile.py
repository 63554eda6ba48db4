"""The load of the soak (`make soak`): paced, of every kind, and each answer is compared.

Each user has a timetable. When an answer comes late, the next request starts late, too, and its
latency still counts from when it was due: a stall shows in the latency of all that had to wait.
(locust's constant_throughput forgets the starts that it missed.)
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import gevent  # type: ignore[import-untyped] # has no stubs here
from bad_requests import BAD_REQUESTS
from locust import FastHttpUser, User, events, task
from loopback import refuse_others
from questions import Question, draw, everything
from soak_notes import Notes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from locust.argument_parser import LocustArgumentParser
    from locust.env import Environment

ASKERS, ASKS_PER_SECOND = 24, 3.0
SPOILERS, SPOILS_PER_SECOND = 4, 1.0

WEIGHTS = {
    "count": 25.0,
    "encode": 25.0,
    "decode": 12.0,
    "truncate": 6.0,
    "chunk": 6.0,
    "encode batch": 5.0,
    "count batch": 5.0,
    "decode batch": 5.0,
    "count 200 KB": 0.7,
    "encode 200 KB": 0.3,
    "count hostile": 1.0,
    "count 1 MB": 0.15,
    "encode 1 MB": 0.15,
}

NOTES = Notes()
QUESTIONS: list[Iterator[Question]] = []
"""One; there is none before the deck is made."""


class Paced(User):
    """One who does a thing so often in a second, on the whole."""

    abstract = True
    per_second = 1.0

    def on_start(self) -> None:
        self.due = time.monotonic() + random.random() / self.per_second
        gevent.sleep(self.due - time.monotonic())

    def wait_time(self) -> float:
        self.due += 1 / self.per_second
        return max(0.0, self.due - time.monotonic())


class Asker(Paced, FastHttpUser):
    """Asks what has an answer."""

    fixed_count = ASKERS
    per_second = ASKS_PER_SECOND

    @task
    def ask(self) -> None:
        question = next(QUESTIONS[0])
        began = time.monotonic()
        response = self.client.post(
            question.path,
            data=question.body,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # bytes are sent as they are
            headers={"content-type": "application/json"},
            name=question.kind,
        )
        arrived = time.monotonic()
        NOTES.note(question.kind, self.due, began, arrived, _wrong(question, response))


class Spoiler(Paced):
    """Sends what is no request, or a bad one."""

    fixed_count = SPOILERS
    per_second = SPOILS_PER_SECOND

    @task
    def spoil(self) -> None:
        kind, spoil = random.choice(list(BAD_REQUESTS.items()))
        target = urlsplit(self.host or "")
        began = time.monotonic()
        try:
            what = spoil((target.hostname or "", target.port or 80))
        except OSError as error:
            what = type(error).__name__
        NOTES.note(kind, began, began, time.monotonic(), what)


def _wrong(question: Question, response: Any) -> str | None:
    """What is not as it has to be."""
    if response.status_code == 0:
        return type(response.error).__name__
    if response.status_code != 200:
        try:
            code = json.loads(response.content).get("code")
        except (ValueError, AttributeError):
            code = None
        return f"status {response.status_code} {code}"
    wrong = question.wrong(json.loads(response.content))
    return None if wrong is None else f"wrong {wrong}"


@events.init_command_line_parser.add_listener
def add_arguments(parser: LocustArgumentParser) -> None:
    parser.add_argument("--notes", required=True, help="file to write what happened to")


@events.init.add_listener
def prepare(environment: Environment, **_: object) -> None:
    """Refuse to load another machine; get the answers."""
    refuse_others(environment.host)
    QUESTIONS.append(iter(draw(everything(), WEIGHTS)))
    # Timers count from the time that the loop last saw, which was before the deck was made.
    gevent.get_hub().loop.update_now()


@events.test_start.add_listener
def say_that_it_began(environment: Environment, **_: object) -> None:
    _notes_of(environment).with_suffix(".began").touch()


@events.quitting.add_listener
def write_notes(environment: Environment, **_: object) -> None:
    """What it means is said by soak.py, who knows which workers were killed, and when."""
    NOTES.write(_notes_of(environment))
    environment.process_exit_code = 0


def _notes_of(environment: Environment) -> Path:
    assert environment.parsed_options is not None
    return Path(environment.parsed_options.notes)
