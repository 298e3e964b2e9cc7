"""Every manifest on the page of recipes is one that its API takes, and the page's table of GPUs is the code's."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunSpec, is_gpu
from benchrun.decide import Step, condition_table
from benchrun.names import API_VERSION, KIND, MAX_RUN_NAME

PAGE = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()
OBJECTS: list[dict[str, Any]] = [
    body
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for body in yaml.safe_load_all(block)
]
NESTED = [yaml.safe_load(body["data"]["run.yaml"]) for body in OBJECTS if body["kind"] == "ConfigMap"]
RUNS = [body for body in [*OBJECTS, *NESTED] if body["kind"] == KIND]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (body for body in OBJECTS if body["kind"] == kind)
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(next(iter(run["metadata"].values()))))
def test_its_runs_are_accepted(run: dict[str, Any]) -> None:
    assert run["apiVersion"] == API_VERSION
    assert BenchmarkRunSpec.model_validate(run["spec"]).workloads
    assert len(run["metadata"].get("name") or f"{run['metadata']['generateName']}a1b2c") <= MAX_RUN_NAME


def test_the_nightly_job_may_create_runs_and_nothing_else() -> None:
    account = of_kind("ServiceAccount")["metadata"]["name"]
    assert of_kind("Role")["rules"] == [
        {"apiGroups": ["benchrun.dev"], "resources": ["benchmarkruns"], "verbs": ["create"]}
    ]
    binding = of_kind("RoleBinding")
    assert binding["roleRef"]["name"] == of_kind("Role")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "lab"}]
    pod = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account
    assert pod["volumes"][0]["configMap"]["name"] == of_kind("ConfigMap")["metadata"]["name"]
    (run,) = NESTED
    assert "generateName" in run["metadata"]


def test_a_run_from_git_is_never_recreated_by_itself() -> None:
    (run,) = (run for run in RUNS if "annotations" in run["metadata"])
    assert "name" in run["metadata"]
    assert "ttlSecondsAfterFinished" not in run["spec"]


def test_its_table_of_gpus_is_what_counts_as_one() -> None:
    rows = re.findall(r"^\| (`[^|]*/[^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    described = {
        name: not counted.startswith("**no**")
        for names, counted in rows
        for name in re.findall(r"`(\S+\.\S+/\S+)`", names)
    }
    assert len(described) == 9
    assert {name: is_gpu(name) for name in described} == described


def test_argo_cd_health_checks_read_existing_conditions() -> None:
    (script,) = re.findall(r"^```lua\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    read = set(re.findall(r'is_true\("(\w+)"\)', script))
    run = condition_table.going_on(Step("Running", "Measuring", ""), has_objectives=False, gate=None)
    sweep = condition_table.sweep_going_on("Measuring", "", power="")
    assert read == {"Stalled", "Ready", "Reconciling"}
    for rows in (run, sweep):
        assert read <= {type_ for type_, *_ in rows}
