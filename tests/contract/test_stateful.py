"""Chains of requests along the links of the OpenAPI document, each made of an earlier answer."""

from __future__ import annotations

import collections
import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.api.links import LINKS
from service.settings import Settings
from tests.contract.generated import new_schema, sensible, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    import schemathesis
    from schemathesis.generation.stateful.state_machine import StepInput, StepOutput

    from service.catalog.catalog import Catalog

OK = 200

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

CHAT_FIELDS = ("messages", "tools", "template_arguments", "now", "rendered")
RIVALS = {
    "text": ("texts", "segments", "text_pair", *CHAT_FIELDS),
    "ids": ("batch",),
    "tokenizer": ("tokenizers",),
}
"""What can't stand beside a field, or would make it mean another thing."""


class Answered(NamedTuple):
    """A request and its answer."""

    path: str
    asked: dict[str, Any]
    status: int
    got: dict[str, Any]

    @property
    def plain(self) -> bool:
        """Whether it is about one text, read literally by one tokenizer."""
        return (
            "text" in self.asked
            and not {"text_pair", "tokenizers"} & set(self.asked)
            and self.asked.get("special_policy", "literal") == "literal"
        )

    def decodes(self, first: Answered) -> bool:
        """Whether it asks for the whole text of the ids that were answered."""
        whole = {"tokenizer": first.got["tokenizer"], "ids": first.got["ids"]}
        defaults = {
            "output": "text",
            "final": True,
            "expected_fingerprint": first.got["fingerprint"],
        }
        return (
            self.path == "/decode"
            and "batch" not in self.asked
            and {name: self.asked.get(name) for name in whole} == whole
            and {name: self.asked.get(name, defaults[name]) for name in defaults} == defaults
        )


def answered(case: schemathesis.Case, response: Any) -> Answered:
    asked = case.body if isinstance(case.body, dict) else {}
    return Answered(case.path, asked, response.status_code, response.json())


def operation_id(case: schemathesis.Case) -> str:
    return str(case.operation.definition.raw["operationId"])


class Chains:
    """What has to hold between an answer and the next, and how often each thing was seen to."""

    def __init__(self, exact: set[str]) -> None:
        self._exact = exact
        """The tokenizers that promise to give every text back."""
        self.seen: collections.Counter[str] = collections.Counter()

    def check(self, first: Answered, then: Answered) -> None:
        """Whatever applies to the two."""
        self._check_fingerprint(first, then)
        self._check_text(first, then)
        self._check_count(first, then)

    def _check_fingerprint(self, first: Answered, then: Answered) -> None:
        """A tokenizer has the same one in both answers."""
        if then.status == OK and first.got.get("tokenizer", "") == then.got.get("tokenizer"):
            assert then.got["fingerprint"] == first.got["fingerprint"]
            self.seen["one fingerprint"] += 1

    def _check_text(self, first: Answered, then: Answered) -> None:
        """The ids of a text are decoded to it."""
        if first.path != "/encode" or not first.plain or first.got["special_tokens_added"]:
            return
        if first.got["tokenizer"] in self._exact and then.decodes(first):
            assert then.status == OK
            assert then.got["text"] == first.asked["text"]
            assert then.got["replacements"] == 0
            self.seen["text came back"] += 1

    def _check_count(self, first: Answered, then: Answered) -> None:
        """A text that was counted, or cut to a budget, has as many ids as was said."""
        if not (first.plain and then.plain and then.status == OK) or then.path != "/encode":
            return
        counted = first.got if first.path != "/chunk" else (first.got["chunks"] or [{}])[0]
        source = counted if first.path in ("/chunk", "/truncate") else first.asked
        said = {"text": source.get("text")}
        said |= {name: first.got[name] for name in ("tokenizer", "add_special_tokens")}
        if {**then.asked, **then.got}.items() >= said.items():
            assert len(then.got["ids"]) == counted["count"]
            self.seen["count held"] += 1


def around_linked(path: str, body: dict[str, Any], linked: dict[str, Any]) -> dict[str, Any]:
    """A sensible body around the fields that an earlier answer gave, which stay as they are."""
    left_out = {*linked, "allowed_special"}  # which would make most policies special
    free = {name: value for name, value in copy.deepcopy(body).items() if name not in left_out}
    made = sensible(path, free) | linked
    rivals = {rival for name in made for rival in RIVALS.get(name, ())}
    return {name: value for name, value in made.items() if name not in rivals}


def linked_fields(step: StepInput) -> dict[str, Any]:
    """The fields of a body as the link has them: schemathesis mixes lists with random ones."""
    if step.transition is None or step.transition.request_body is None:
        return {}
    names = [name for place, name in step.applied_parameters if place is ParameterLocation.BODY]
    return {name: step.transition.request_body.value.ok()[name] for name in names}


@pytest.fixture(scope="module")
def app(catalog: Catalog) -> Iterator[Any]:
    """An application with limits that random data can reach, and the ids of its texts can not."""
    with started(catalog, Settings(max_batch_items=8, max_ids=80, max_text_bytes=64)) as app:
        yield app


def machine_of(schema: Any, app: Any, chains: Chains) -> Any:
    """The state machine of a schema's links, which sends its requests to `app`."""

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def step(self, input: StepInput) -> StepOutput:  # noqa: A002 - it is passed by name
            case = input.case
            if isinstance(case.body, dict) and case.meta.generation.mode.is_positive:
                case.body = around_linked(case.path, case.body, linked_fields(input))
            output = super().step(input)
            then = answered(case, output.response)
            chains.seen["bad data"] += case.meta.generation.mode.is_negative
            if input.transition is not None and input.is_applied:
                parent = self.recorder.cases[input.transition.parent_id].value
                response = self.recorder.find_response(case_id=parent.id)
                if then.status == OK:
                    chains.seen[f"{operation_id(parent)} to {operation_id(case)}"] += 1
                if case.meta.generation.mode.is_positive:
                    chains.check(answered(parent, response), then)
            return output

        def _repr_step(self, rule: Any, data: dict[str, str], _: Any) -> str:
            # Hypothesis looks up what a step was stored as. schemathesis stores no answer that no
            # link starts from, and the look-up's own error would stand in the place of the failure.
            return f"{rule.function.__name__}: {data['input']}"

        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, Any]:  # noqa: ARG002
            return {"app": app}

        def validate_response(
            self, response: Any, case: schemathesis.Case, *_: Any, **arguments: Any
        ) -> None:
            case.validate_response(
                response, checks=CHECKS, transport_kwargs=arguments, recorder=self.recorder
            )

    return Machine


# A few operations at a time: among all of them too few chains are those that matter.
GROUPS = {
    "round trips": (
        ["encode", "decode"],
        15,
        ["encode to decode", "decode to encode", "text came back", "bad data"],
    ),
    "counts": (
        ["count", "truncate", "chunk", "encode"],
        30,
        ["count to encode", "truncate to encode", "chunk to encode", "count held", "bad data"],
    ),
    "pages": (
        ["tokenizers", "count", "fingerprint"],
        8,
        ["tokenizers to count", "tokenizers to fingerprint", "count to fingerprint"],
    ),
    "descriptions": (
        ["truncate", "chunk", "decode", "fingerprint"],
        10,
        ["truncate to fingerprint", "chunk to fingerprint", "decode to fingerprint"],
    ),
    "pins": (
        ["encode", "fingerprint"],
        8,
        ["encode to fingerprint", "fingerprint to encode", "one fingerprint"],
    ),
}
"""By name: the operations, how many chains, and what has to be seen, lest they prove nothing."""


def test_every_link_is_in_a_group() -> None:
    links = {
        f"{source} to {link['operationId']}" for source in LINKS for link in LINKS[source].values()
    }
    assert links == {
        thing for _, _, wanted in GROUPS.values() for thing in wanted if " to " in thing
    }


@pytest.mark.parametrize(("operations", "number", "wanted"), GROUPS.values(), ids=GROUPS)
def test_any_chain_of_requests(
    app: Any, catalog: Catalog, operations: list[str], number: int, wanted: list[str]
) -> None:
    facts = {entry.name: entry.tokenizer.facts for entry in catalog}
    chains = Chains({name for name, known in facts.items() if known.round_trip == "exact"})
    machine_of(new_schema().include(operation_id=operations), app, chains).run(
        settings=settings(
            max_examples=number,
            stateful_step_count=14,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )
    assert {thing for thing in wanted if not chains.seen[thing]} == set()
