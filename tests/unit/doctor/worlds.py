"""Runs that are to be tried, and clusters that answer, for the tests of `benchrun doctor`."""

from collections.abc import Mapping
from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.doctor.asking import ApiAnswer, ApiAnswers, ApiQuery, Check, CheckLine
from benchrun.doctor.operators import FoundOperator
from benchrun.doctor.target import RunTarget, target_of
from unit.plan.specs import Json, spec_body

NAMESPACE = "lab"
OPERATOR = FoundOperator(
    namespace="benchrun-system",
    name="benchrun",
    account="benchrun",
    version="0.1.0",
    client_image="client:1",
    network_policies=True,
    available=1,
)
SERVER = "pod of server"


def a_target(operator: FoundOperator = OPERATOR, **changes: Any) -> RunTarget:
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


def listed(*items: Json) -> ApiAnswer:
    return ApiAnswer({"kind": "List", "metadata": {}, "items": list(items)})


def read(check: Check, answers: Mapping[ApiQuery, ApiAnswer]) -> list[CheckLine]:
    """Return what a check finds; it was answered all that it asks."""
    given = ApiAnswers(
        {query: ApiAnswer(trouble="NotFound") for query in check.queries}
    )
    given.update(answers)
    return list(check.read(given))


def of(lines: list[CheckLine], name: str, subject: str = "") -> CheckLine:
    """Return the one line of that check and subject."""
    (found,) = [
        line
        for line in lines
        if line.name == name and subject in ("", line.subject)
    ]
    return found
