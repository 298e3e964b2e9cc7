"""Where model and dataset come from: what must be the same, what can be told by digests, and what is only said."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.judge.comparison.comparability import MeasuredRun
from unit.judge.comparison.sides import compared, row, run
from unit.plan.specs import spec, workload

FILE = {"shareGPT": {"file": {"configMap": {"name": "rows", "key": "rows.json"}}}}
SAID = "It is not known whether the dataset's file is the same on both sides"


def dataset_run(
    name: str, traffic: str | None = "t", *, run_spec: BenchmarkRunSpec | None = None, **changes: Any
) -> MeasuredRun:
    """A run whose prompts are rows of a file."""
    run_spec = run_spec or spec(workloads=[workload(dataset=FILE)], **changes)
    return run(name, [row(repeats=5, cv=1, traffic=traffic)], run_spec=run_spec)


def test_another_tokenizer_writes_other_prompts() -> None:
    model = {"name": "Qwen/Qwen3-4B", "tokenizer": "/tokenizers/other"}
    found = compared(run("a"), run("b", run_spec=spec(model=model)))
    assert found.message == "not comparable: tokenizer: the model's own in a, /tokenizers/other in b"


@pytest.mark.parametrize(
    ("words", "source"),
    [
        pytest.param("claim weights/qwen in b", {"pvc": {"claimName": "weights", "path": "qwen"}}, id="claim"),
        pytest.param("artifact models:1 in b", {"imageVolume": {"reference": "models:1"}}, id="artifact"),
        pytest.param("path /models/qwen in b", {"path": {"path": "/models/qwen"}}, id="path"),
    ],
)
def test_models_of_one_name_from_different_sources_are_compared_with_a_remark(
    words: str, source: dict[str, Any]
) -> None:
    other = spec(model={"name": "Qwen/Qwen3-4B", "source": source})
    found = compared(run("a", repeats=5, cv=1), run("b", repeats=5, cv=1, run_spec=other))
    assert found.outcome == "NoDetectableDifference"
    assert f"The model comes from the hub in a and from {words}" in found.message


def test_equal_questions_with_different_prompts_read_different_files() -> None:
    found = compared(dataset_run("a"), dataset_run("b", "another"))
    assert (found.outcome, found.cells[0].reason) == (
        "NotComparable",
        "the dataset's file does not hold the same in a and b",
    )


def test_equal_prompts_prove_equal_files() -> None:
    found = compared(dataset_run("a"), dataset_run("b"))
    assert (found.cells[0].reason, found.cells[0].paired, SAID in found.message) == (None, True, False)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(dataset_run("b", "another", measurement={"seed": 2}), id="another seed"),
        pytest.param(
            dataset_run("b", "another", run_spec=spec(workloads=[workload(dataset=FILE), workload("more")])),
            id="other workloads",
        ),
        pytest.param(dataset_run("b", "another", repeats=2), id="other repeats"),
    ],
)
def test_prompts_that_may_differ_are_not_compared_with_a_remark(other: MeasuredRun) -> None:
    found = compared(dataset_run("a"), other)
    assert found.cells[0].reason is None
    assert SAID in found.message


@pytest.mark.parametrize(("policy", "reason"), [("Share", "the dataset's file"), ("Isolate", None)])
def test_at_an_endpoint_only_shared_prompts_tell(policy: str, reason: str | None) -> None:
    run_spec = spec(
        server=None,
        endpoint={"url": "http://llm"},
        workloads=[workload(dataset=FILE)],
        measurement={"cachePolicy": policy},
    )
    found = compared(dataset_run("a", run_spec=run_spec), dataset_run("b", "another", run_spec=run_spec))
    assert (found.cells[0].reason or "").startswith(reason or "")
    assert (found.cells[0].reason is None) == (reason is None)
    assert (SAID in found.message) == (reason is None)


def test_random_prompts_come_from_no_file() -> None:
    found = compared(run("a", repeats=5, cv=1, traffic="one"), run("b", repeats=5, cv=1, traffic="another"))
    assert (found.cells[0].reason, SAID in found.message) == (None, False)
