"""A sweep, checked variant by variant."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.preflight.manifests import Checked, Known, check_sweep
from benchrun.sizing.config_json import model_shape
from unit.api.spec_cases import minimal
from unit.preflight.checks import said
from unit.sizing.configs import LLAMA_8B

ARGS = "spec.template.server.args"
SHORT_MODEL = Known(shape=model_shape(LLAMA_8B | {"max_position_embeddings": 1000}))


def checked(
    *variants: dict[str, Any], known: Known | None = None, template: dict[str, Any] | None = None, **spec: Any
) -> Checked:
    whole = {"template": minimal(template), "matrix": {"variants": list(variants) or [{"name": "base"}]}, **spec}
    body = {"apiVersion": "benchrun.dev/v1alpha1", "kind": "BenchmarkSweep", "metadata": {"name": "s"}, "spec": whole}
    return check_sweep(body, known or Known())


BASE, WRONG = {"name": "base"}, {"name": "wrong", "args": ["--no-such-flag"]}


def test_a_flag_of_a_variant_is_named_with_it() -> None:
    errors = said(checked(BASE, WRONG), "Error")
    assert errors == {"spec.matrix": "wrong: vLLM 0.32.0 has no flag --no-such-flag"}


def test_what_holds_for_all_variants_is_said_once_and_of_the_template() -> None:
    found = checked(BASE, {"name": "other", "args": ["--enforce-eager"]}, template={"server.args": ["--no-such-flag"]})
    assert said(found, "Error") == {f"{ARGS}[0]": "vLLM 0.32.0 has no flag --no-such-flag"}


def test_of_many_variants_a_few_are_named() -> None:
    wrong = [{**WRONG, "name": f"v{n}"} for n in range(6)]
    assert "v0, v1, v2 and 3 more: vLLM" in said(checked(BASE, *wrong), "Error")["spec.matrix"]


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        ({"baseline": "none"}, "spec.baseline", "no variant of the matrix is called none"),
        ({"replicatons": 3}, "spec.replicatons", "did you mean replications?"),
        ({"template": minimal({"repeats": 0})}, "spec.template.repeats", "greater than or equal to 1"),
        ({"template": minimal({"server.tensorParallel": 4})}, "spec.template.server.tensorParallel", "unknown field"),
        ({"matrix": {}}, "spec.matrix", "exactly one of grid, zip and variants"),
    ],
)
def test_what_the_api_server_would_refuse(spec: dict[str, Any], path: str, text: str) -> None:
    assert text in said(checked(**spec), "Error")[path]


def test_two_axes_that_set_the_same_are_an_error() -> None:
    axes = [{"name": name, "values": [{"name": "1", "args": ["--max-num-seqs=1"]}]} for name in ("a", "b")]
    assert "two axes set --max-num-seqs" in said(checked(matrix={"grid": axes}), "Error")["spec.matrix"]


def test_all_runs_are_counted_together() -> None:
    template = {"workloads.0.requests": 100, "server.resources": {"limits": {"nvidia.com/gpu": 2}}}
    volume = checked(BASE, {"name": "b"}, {"name": "c"}, template=template, replications=3).volume
    assert volume is not None
    assert (volume.runs, volume.stages, volume.requests) == (9, 18, 1800)
    assert volume.least_seconds == 9 * 125
    assert volume.gpu_seconds == 9 * 250


def test_a_budget_below_the_least_is_a_warning() -> None:
    template = {"server.resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert "takes 125" in said(checked(template=template, gpuSecondsBudget=124), "Warning")["spec.gpuSecondsBudget"]
    assert "spec.gpuSecondsBudget" not in said(checked(template=template, gpuSecondsBudget=125), "Warning")


def test_a_variant_of_another_model_is_not_held_against_this_ones_config() -> None:
    found = checked(BASE, {"name": "large", "model": {"name": "another"}}, known=SHORT_MODEL)
    assert "base: 1,024 tokens of prompt" in said(found, "Error")["spec.template.workloads[0].dataset"]
    assert "large: whether its requests fit" in said(found, "NotChecked")["spec.template.workloads[0].dataset"]


def test_one_replication_is_within_one_server() -> None:
    assert "spec.replications" in said(checked(), "Note")
    assert "spec.replications" not in said(checked(replications=3), "Note")
