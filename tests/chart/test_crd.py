"""The CustomResourceDefinitions travel in the chart, unchanged but for labels and the policy that
keeps them."""

import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.names import API_VERSION, KIND
from chart.rendering import CHART, REPOSITORY, Object, notes, render

NAMES = ["benchmarkruns.benchrun.dev", "benchmarksweeps.benchrun.dev"]


def definitions(values: Object | None = None, *arguments: str) -> dict[str, Object]:
    """What is rendered of them, by name."""
    rendered = [
        entry
        for entry in render(values or {}, *arguments)
        if entry["kind"] == "CustomResourceDefinition"
    ]
    return {entry["metadata"]["name"]: entry for entry in rendered}


def test_there_are_just_those_that_the_repository_has() -> None:
    assert (
        sorted(definitions())
        == NAMES
        == sorted(path.stem for path in (REPOSITORY / "crds").glob("*.yaml"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_charts_copy_is_the_generated_file_byte_for_byte(name: str) -> None:
    file = f"{name}.yaml"
    assert (CHART / "files" / file).read_bytes() == (
        REPOSITORY / "crds" / file
    ).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_rendered_definition_is_the_charts_copy_with_labels_and_annotations(
    name: str,
) -> None:
    rendered = definitions()[name]
    assert rendered["metadata"].pop("labels").keys() > {"app.kubernetes.io/name"}
    assert rendered["metadata"].pop("annotations") == {
        "helm.sh/resource-policy": "keep"
    }
    assert rendered == yaml.safe_load(
        (CHART / "files" / f"{name}.yaml").read_text()
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kubernetes", "known"),
    [
        ("1.29.15", False),
        ("1.30.4-eks-036c24b", False),
        ("1.31.0", True),
        ("1.31.2-gke.1115000", True),
    ],
)
def test_an_api_server_gets_only_fields_that_it_knows(
    name: str, kubernetes: str, known: bool
) -> None:
    """Selectable fields came with 1.30, where they are dropped unless a feature gate is on, so that
    a second sync finds a difference for ever."""
    [here] = definitions()[name]["spec"]["versions"]
    [there] = definitions({}, f"--kube-version={kubernetes}")[name]["spec"][
        "versions"
    ]
    assert ("selectableFields" in there) == known
    assert there | {"selectableFields": here["selectableFields"]} == here


@pytest.mark.parametrize("name", NAMES)
def test_it_is_given_up_on_uninstall_only_when_asked_for(name: str) -> None:
    assert (
        "annotations"
        not in definitions({"crds": {"keep": False}})[name]["metadata"]
    )


@pytest.mark.parametrize(
    "values",
    [{"crds": {"enabled": False}}, {"crds": {"enabled": False, "keep": False}}],
)
def test_they_can_be_left_to_someone_else(values: Object) -> None:
    assert "CustomResourceDefinition" not in {
        entry["kind"] for entry in render(values)
    }


def test_the_examples_people_are_shown_are_valid_runs() -> None:
    shown = notes().partition("<<'END'\n")[2].partition("END\n")[0]
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    for example in [
        yaml.safe_load(shown),
        *yaml.safe_load(annotations["artifacthub.io/crdsExamples"]),
    ]:
        assert (example["apiVersion"], example["kind"]) == (API_VERSION, KIND)
        assert (
            BenchmarkRunSpec.model_validate(example["spec"]).workloads[0].requests
            == 400
        )
