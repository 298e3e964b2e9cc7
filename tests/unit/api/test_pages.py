"""Every manifest on the pages of recipes and GitOps is one that its API takes, and the table of GPUs
is the code's."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benchrun.api import BenchmarkRunSpec, Dataset, DatasetFile, Workload, is_gpu
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.names import API_VERSION, KIND, MAX_RUN_NAME
from pydantic import BaseModel

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "recipes.md").read_text()
GITOPS = (DOCS / "gitops.md").read_text()
OBJECTS: list[dict[str, Any]] = [
    body
    for block in re.findall(
        r"^```yaml\n(.*?)^```", PAGE + GITOPS, re.MULTILINE | re.DOTALL
    )
    for body in yaml.load_all(block, yaml.CSafeLoader)
]
NESTED = [
    yaml.safe_load(body["data"]["run.yaml"])
    for body in OBJECTS
    if body["kind"] == "ConfigMap"
]
RUNS = [body for body in [*OBJECTS, *NESTED] if body["kind"] == KIND]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (body for body in OBJECTS if body["kind"] == kind)
    return found


@pytest.mark.parametrize(
    "run", RUNS, ids=lambda run: str(next(iter(run["metadata"].values())))
)
def test_its_runs_are_accepted(run: dict[str, Any]) -> None:
    assert run["apiVersion"] == API_VERSION
    assert BenchmarkRunSpec.model_validate(run["spec"]).workloads
    assert (
        len(
            run["metadata"].get("name") or f"{run['metadata']['generateName']}a1b2c"
        )
        <= MAX_RUN_NAME
    )


def test_the_nightly_job_may_create_runs_and_nothing_else() -> None:
    account = of_kind("ServiceAccount")["metadata"]["name"]
    assert of_kind("Role")["rules"] == [
        {
            "apiGroups": ["benchrun.dev"],
            "resources": ["benchmarkruns"],
            "verbs": ["create"],
        }
    ]
    binding = of_kind("RoleBinding")
    assert binding["roleRef"]["name"] == of_kind("Role")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": "lab"}
    ]
    pod = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account
    assert (
        pod["volumes"][0]["configMap"]["name"]
        == of_kind("ConfigMap")["metadata"]["name"]
    )
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


# Every manifest on the page of datasets is one that the operator takes, and every dataset has one.

DATASETS = (DOCS / "datasets.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", DATASETS, re.MULTILINE | re.DOTALL)
WORKLOADS = [
    entry
    for block in BLOCKS
    if block.startswith("- name")
    for entry in yaml.load(block, yaml.CSafeLoader)
]


@pytest.mark.parametrize(
    "workload", WORKLOADS, ids=lambda workload: str(workload["name"])
)
def test_its_workloads_are_accepted(workload: dict[str, object]) -> None:
    assert Workload.model_validate(workload).name == workload["name"]


def test_each_dataset_has_a_manifest_and_a_heading() -> None:
    members = {str(field.alias) for field in Dataset.model_fields.values()}
    assert {
        name for workload in WORKLOADS for name in workload["dataset"]
    } == members
    assert {name for name in members if f"\n## {name}\n" not in DATASETS} == set()


def test_its_files_are_accepted() -> None:
    (block,) = (block for block in BLOCKS if block.startswith("file:"))
    places = [
        yaml.safe_load(f"file:{text}")["file"] for text in block.split("file:")[1:]
    ]
    assert {next(iter(place)) for place in places} == {
        str(f.alias) for f in DatasetFile.model_fields.values()
    }
    assert all(DatasetFile.model_validate(place) for place in places)


# Every whole object of ours that a page spells out is one that the API takes.

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^```yaml\n(.*?)^```|<<'?YAML'?\n(.*?)^YAML$", re.MULTILINE | re.DOTALL
)
OURS: Mapping[str, type[BaseModel]] = {
    KIND: BenchmarkRunSpec,
    SWEEP: BenchmarkSweepSpec,
}


def objects(page: Path) -> Iterator[dict[str, Any]]:
    """Every Kubernetes object on the page; a function's parameters stand for a number."""
    for match in BLOCK.finditer(page.read_text()):
        text = re.sub(r"\$\d", "64", match[1] or match[2])
        if re.search(r"^apiVersion:", text, re.MULTILINE):
            yield from yaml.load_all(text, yaml.CSafeLoader)


def named(page: Path, body: dict[str, Any]) -> str:
    return f"{page.relative_to(ROOT)}:{body['kind']}:{next(iter(body['metadata'].values()))}"


FOUND = {named(page, body): body for page in PAGES for body in objects(page)}
OF_US = {
    name: body
    for name, body in FOUND.items()
    if str(body["apiVersion"]).startswith("benchrun.dev/")
}
OF_KUBERNETES = {name: body for name, body in FOUND.items() if name not in OF_US}


@pytest.mark.parametrize("body", OF_US.values(), ids=OF_US)
def test_every_inline_manifest_is_valid(body: dict[str, Any]) -> None:
    assert body["apiVersion"] == API_VERSION
    assert OURS[body["kind"]].model_validate(body["spec"])


@pytest.mark.parametrize("body", OF_KUBERNETES.values(), ids=OF_KUBERNETES)
def test_other_objects_are_kubernetes_own(body: dict[str, Any]) -> None:
    kubernetes_validate.validate(
        body, kubernetes_validate.latest_version(), strict=True
    )


def test_the_pages_that_spell_out_runs_are_read() -> None:
    pages = {name.partition(":")[0] for name in OF_US}
    assert {"README.md", "docs/tutorial.md", "docs/gitops.md"} <= pages
