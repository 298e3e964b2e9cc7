"""Every manifest on the page of datasets is one that the operator takes, and every dataset has one."""

import re
from pathlib import Path

import pytest
import yaml
from benchrun.api import Dataset, DatasetFile, Workload

PAGE = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
WORKLOADS = [entry for block in BLOCKS if block.startswith("- name") for entry in yaml.safe_load(block)]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: str(workload["name"]))
def test_its_workloads_are_accepted(workload: dict[str, object]) -> None:
    assert Workload.model_validate(workload).name == workload["name"]


def test_each_dataset_has_a_manifest_and_a_heading() -> None:
    members = {str(field.alias) for field in Dataset.model_fields.values()}
    assert {name for workload in WORKLOADS for name in workload["dataset"]} == members
    assert {name for name in members if f"\n## {name}\n" not in PAGE} == set()


def test_its_files_are_accepted() -> None:
    (block,) = (block for block in BLOCKS if block.startswith("file:"))
    places = [yaml.safe_load(f"file:{text}")["file"] for text in block.split("file:")[1:]]
    assert {next(iter(place)) for place in places} == {str(f.alias) for f in DatasetFile.model_fields.values()}
    assert all(DatasetFile.model_validate(place) for place in places)
