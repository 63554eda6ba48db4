"""docs/budgets.md: its commands answer what it prints, its recipe runs, its numbers are true."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.core import boundaries
from tests.examples import Example, check_example, examples_of, numbered, page
from tests.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.serving import Served

DOC = page("docs/budgets.md")
EXAMPLES = examples_of(DOC)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as service:
        yield service


def test_there_are_examples_of_every_kind() -> None:
    assert DOC.count("curl -s ") == len(EXAMPLES)
    commands = "".join(example.command for example in EXAMPLES)
    for sign in ("/count", "/chunk", "/truncate", "/decode", '"final": false', '"offsets"'):
        assert sign in commands, sign


@pytest.mark.parametrize("example", numbered(EXAMPLES))
def test_an_example_answers_what_is_printed(example: Example, served: Served) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the examples of docs/budgets.md are not run")
    check_example(example, served.url)


# ---- the recipe --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def token_counter() -> Any:
    """The class as it stands in the page."""
    (code,) = re.findall(
        r"^<!-- recipe: token counter -->\n\n```python\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {}
    exec(compile(code, "docs/budgets.md", "exec"), names)  # noqa: S102 - it is what is tested
    return names["TokenCounter"]


class Watched:
    """A counter whose requests are numbered."""

    def __init__(self, counter: Any) -> None:
        self.requests = 0
        counter._client.event_hooks = {"request": [self._note]}

    def _note(self, _: httpx.Request) -> None:
        self.requests += 1


def test_the_recipe_counts_as_the_service_does(token_counter: Any, served: Served) -> None:
    counter = token_counter(served.url, "all-minilm-l6-v2", add_special_tokens=True)
    texts = ["", "How large is a chunk?", "na\u00efve caf\u00e9 \U0001f9ea", "word " * 300]
    with httpx.Client(base_url=served.url) as client, counter._client:
        counter.learn(texts)
        for text in texts:
            body = {"tokenizer": "all-minilm-l6-v2", "text": text, "add_special_tokens": True}
            assert counter(text) == client.post("/count", json=body).json()["count"]
        assert counter("") == 2


def test_the_recipe_asks_for_many_at_once_and_for_none_twice(
    token_counter: Any, served: Served
) -> None:
    counter = token_counter(served.url, "cl100k_base", at_once=100)
    watched = Watched(counter)
    texts = [f"text {number}" for number in range(250)]
    with counter._client:
        counter.learn([*texts, *texts])
        assert watched.requests == 3
        counter.learn(texts)
        assert [counter(text) for text in texts[:3]] == [3, 3, 3]
        assert watched.requests == 3
        assert counter("another") == 1
        assert watched.requests == 4


def test_the_recipe_is_not_silent(token_counter: Any, served: Served) -> None:
    refusing = token_counter(served.url, "cl100k_base", special_policy="reject")
    unknown = token_counter(served.url, "no-such-tokenizer")
    with refusing._client, unknown._client:
        with pytest.raises(ValueError, match="special token"):
            refusing("a<|endoftext|>")
        with pytest.raises(httpx.HTTPStatusError):
            unknown("a")


# ---- what the page says of the code --------------------------------------------------------------

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}


def number_in(pattern: str) -> int:
    """The one number in a sentence of the page, in digits or as a word."""
    (found,) = re.findall(pattern, " ".join(DOC.split()))
    return NUMBERS.get(found) or int(found)


def test_the_numbers_of_the_boundary_rule() -> None:
    assert number_in(r"no more than (\w+) characters beyond the brim") == boundaries._LOOK_AHEAD
    paragraph, _, sentence, *_ = (level.pattern for level in boundaries._LEVELS)
    blanks = number_in(r"nothing but blanks \((\d+) at most")
    closers = number_in(r"up to (\d+) closing brackets and quotation")
    white = number_in(r"up to (\d+) characters of white space")
    assert f"{{0,{blanks}}}" in paragraph
    assert sentence.count(f"{{0,{closers}}}") == 2
    assert number_in(r"up to (\d+) closing brackets, where") == closers
    assert f"{{1,{white}}}" in sentence
    assert number_in(r"at most (\w+) cuts are tried") == boundaries._TRIES


def test_the_levels_of_the_boundary_rule() -> None:
    (levels,) = re.findall(r"The levels, from the highest:\n\n(.*?)\n\n", DOC, re.DOTALL)
    # The last is what is left where no rule finds anything.
    assert len(re.findall(r"^\d\. ", levels, re.MULTILINE)) == len(boundaries._LEVELS) + 1
    for character in ".!?\u2026\u3002\uff01\uff1f\uff61":
        assert f"`{character}`" in levels
