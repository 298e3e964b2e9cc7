"""Runs that are to be tried, and clusters that answer, for the tests of `benchrun doctor`."""

from collections.abc import Mapping
from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.doctor.asking import Answer, Answers, Check, Checked, Query
from benchrun.doctor.operators import Operator
from benchrun.doctor.target import Target, target_of
from unit.plan.specs import Json, spec_body

NAMESPACE = "lab"
OPERATOR = Operator(
    namespace="benchrun-system",
    name="benchrun",
    account="benchrun",
    version="0.1.0",
    client_image="client:1",
    network_policies=True,
    available=1,
)
SERVER = "pod of server"


def a_target(operator: Operator = OPERATOR, **changes: Any) -> Target:
    """Build the target of a run with one server; `changes` replace fields of its spec."""
    spec = BenchmarkRunSpec.model_validate(spec_body(**changes))
    return target_of(NAMESPACE, "chat", spec, operator)


def a_server(**changes: Any) -> Json:
    """Return the server of a spec, with one GPU."""
    return {
        "image": "vllm/vllm-openai:v0.32.0",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        **changes,
    }


def listed(*items: Json) -> Answer:
    return Answer({"kind": "List", "metadata": {}, "items": list(items)})


def read(check: Check, answers: Mapping[Query, Answer]) -> list[Checked]:
    """Return what a check finds; it was answered all that it asks."""
    given = Answers({query: Answer(trouble="NotFound") for query in check.queries})
    given.update(answers)
    return list(check.read(given))


def of(lines: list[Checked], name: str, subject: str = "") -> Checked:
    """Return the one line of that check and subject."""
    (found,) = [
        line
        for line in lines
        if line.name == name and subject in ("", line.subject)
    ]
    return found
