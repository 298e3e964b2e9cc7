"""The CustomResourceDefinition travels in the chart, unchanged but for labels and the policy that keeps it."""

from __future__ import annotations

import pytest
import yaml
from benchrun.api.base import API_VERSION, KIND
from benchrun.api.spec import BenchmarkRunSpec
from chart.rendering import CHART, REPOSITORY, Object, notes, only, render

NAME = "benchmarkruns.benchrun.dev"
SOURCE = REPOSITORY / "crds" / f"{NAME}.yaml"
COPY = CHART / "files" / SOURCE.name


def test_the_charts_copy_is_the_generated_file_byte_for_byte() -> None:
    assert COPY.read_bytes() == SOURCE.read_bytes()


def test_the_rendered_definition_is_the_charts_copy_with_labels_and_annotations() -> None:
    rendered = only(render(), "CustomResourceDefinition")
    assert rendered["metadata"].pop("labels").keys() > {"app.kubernetes.io/name"}
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert rendered == yaml.safe_load(COPY.read_text())


def test_it_is_given_up_on_uninstall_only_when_asked_for() -> None:
    assert "annotations" not in only(render({"crds": {"keep": False}}), "CustomResourceDefinition")["metadata"]


@pytest.mark.parametrize("values", [{"crds": {"enabled": False}}, {"crds": {"enabled": False, "keep": False}}])
def test_it_can_be_left_to_someone_else(values: Object) -> None:
    assert "CustomResourceDefinition" not in {entry["kind"] for entry in render(values)}


def test_the_examples_people_are_shown_are_valid_runs() -> None:
    shown = notes().partition("<<'END'\n")[2].partition("END\n")[0]
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    for example in [yaml.safe_load(shown), *yaml.safe_load(annotations["artifacthub.io/crdsExamples"])]:
        assert (example["apiVersion"], example["kind"]) == (API_VERSION, KIND)
        assert BenchmarkRunSpec.model_validate(example["spec"]).workloads[0].requests == 400
