"""The values: documented one by one, refused when unknown, passed on when known."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator

import pytest
import yaml
from benchrun.decide.decision import GpuExporters
from benchrun.runtime.latest_results import MAX_RUNS
from benchrun.runtime.settings import Settings
from chart.rendering import CHART, DIGEST, EVERYTHING, REPOSITORY, Object, only, refusal, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_TEXT)
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
VERSION = METADATA["appVersion"]

KUBERNETES_OWN = {
    ("global",),
    ("extraEnv", "valueFrom"),
    ("affinity", "nodeAffinity"),
    ("affinity", "podAffinity"),
    ("affinity", "podAntiAffinity"),
    ("networkPolicy", "ingressFrom", "ipBlock"),
    ("networkPolicy", "ingressFrom", "namespaceSelector"),
    ("networkPolicy", "ingressFrom", "podSelector"),
    ("networkPolicy", "extraEgress", "to"),
    ("networkPolicy", "extraEgress", "ports"),
}
"""Where fragments of Kubernetes' own types stand; the API server checks those."""


def resolved(schema: Object) -> Object:
    """The schema itself, or the definition it refers to."""
    return SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def groups(
    schema: Object, values: Object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Object, Object]]:
    """Path, properties and defaults of every group of values, the root among them."""
    yield path, schema["properties"], values
    for key, entry in schema["properties"].items():
        if "properties" in resolved(entry) and values.get(key):
            yield from groups(resolved(entry), values[key], (*path, key))


GROUPS = list(groups(SCHEMA, VALUES))


def open_schemas(schema: Object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where the schema takes objects with any content."""
    schema = resolved(schema)
    if schema.get("type") == "object" and schema.get("additionalProperties", True) is True:
        yield path
    if "items" in schema:
        yield from open_schemas(schema["items"], path)
    for key, entry in schema.get("properties", {}).items():
        yield from open_schemas(entry, (*path, key))


def unexplained(text: str) -> Iterator[str]:
    """Values without a `# --` comment above them or above the group they are in."""
    explained = False
    above: list[tuple[int, bool]] = []
    for line in text.splitlines():
        body = line.lstrip()
        if body.startswith("#"):
            explained = explained or body.startswith("# -- ")
            continue
        if body:
            indentation = len(line) - len(body)
            above = [entry for entry in above if entry[0] < indentation]
            above.append((indentation, explained or any(covered for _, covered in above)))
            key, _, value = body.partition(":")
            if value and not above[-1][1]:
                yield key
        explained = False


@pytest.mark.parametrize("path", [path for path, _, _ in GROUPS], ids=lambda path: ".".join(path) or "root")
def test_an_unknown_value_is_refused_wherever_it_stands(path: tuple[str, ...]) -> None:
    values: Object = {"mistyped": True}
    for key in reversed(path):
        values = {key: values}
    assert "'mistyped' not allowed" in refusal(values)


def test_every_schema_is_closed() -> None:
    assert set(open_schemas(SCHEMA)) == KUBERNETES_OWN


@pytest.mark.parametrize(("path", "properties", "values"), GROUPS)
def test_schema_and_values_name_the_same_things(path: tuple[str, ...], properties: Object, values: Object) -> None:
    assert properties.keys() - {"global"} == values.keys(), path


def test_every_value_is_explained() -> None:
    assert list(unexplained(VALUES_TEXT)) == []
    assert list(unexplained("# -- Told.\na:\n  b: 1\nc: 2\n# Not told.\nd: 3\n")) == ["c", "d"]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"image": {"digest": "sha256:abc"}}, "digest"),
        ({"image": {"tag": "two words"}}, "tag"),
        ({"rbac": {"scope": "everything"}}, "scope"),
        ({"log": {"level": "loud"}}, "level"),
        ({"workers": 0}, "workers"),
        ({"resyncSeconds": "soon"}, "resyncSeconds"),
        ({"unschedulableGraceSeconds": -1}, "unschedulableGraceSeconds"),
        ({"podRoad": "Tunnel"}, "podRoad"),
        ({"metrics": {"resultRuns": -1}}, "resultRuns"),
        ({"commonLabels": {"a": "not a label"}}, "commonLabels"),
        ({"watchNamespaces": ["Upper"]}, "watchNamespaces"),
        ({"resources": {"limits": {"cpu": True}}}, "cpu"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: Object, complaint: str) -> None:
    assert complaint in refusal(values)


def test_watched_namespaces_without_namespace_scope_are_refused() -> None:
    assert "watchNamespaces needs rbac.scope=namespace" in refusal({"watchNamespaces": ["team-a"]})


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({}, "{name}:{version}"),
        ({"tag": "1.2.3"}, "{name}:1.2.3"),
        ({"repository": "mirror.example/x", "tag": "1.2.3"}, "mirror.example/x:1.2.3"),
        ({"digest": DIGEST}, "{name}@" + DIGEST),
        ({"tag": "1.2.3", "digest": DIGEST}, "{name}@" + DIGEST),
    ],
)
def test_a_digest_wins_over_a_tag_and_a_tag_over_the_charts_version(image: Object, reference: str) -> None:
    container = operator_container({"image": image, "clientImage": image})
    assert container["image"] == reference.format(name="benchrun/operator", version=VERSION)
    assert environment(container)["BENCHRUN_CLIENT_IMAGE"] == reference.format(name="benchrun/client", version=VERSION)


def test_the_operator_reads_from_its_environment_what_the_values_say() -> None:
    assert settings({}) == Settings(client_image=f"benchrun/client:{VERSION}")
    assert settings(EVERYTHING) == Settings(
        client_image=f"mirror.example/client@{DIGEST}",
        client_image_pull_policy="Always",
        log_level="DEBUG",
        log_format="plain",
        workers=4,
        resync_seconds=60,
        result_runs=5,
        pod_road="Proxy",
        gpu_exporters=GpuExporters("monitoring", "tier=gpu", 9401),
        unschedulable_grace_seconds=0,
    )


@pytest.mark.parametrize("level", SCHEMA["properties"]["log"]["properties"]["level"]["enum"])
@pytest.mark.parametrize("log_format", SCHEMA["properties"]["log"]["properties"]["format"]["enum"])
def test_the_operator_knows_every_way_to_log_that_the_chart_offers(level: str, log_format: str) -> None:
    read = settings({"log": {"level": level, "format": log_format}})
    assert (read.log_level, read.log_format) == (level.upper(), log_format)


def test_the_charts_limits_are_the_operators() -> None:
    most = SCHEMA["properties"]["workers"]["maximum"], SCHEMA["properties"]["resyncSeconds"]["maximum"]
    read = settings({"workers": most[0], "resyncSeconds": most[1], "metrics": {"resultRuns": MAX_RUNS}})
    assert (read.workers, read.resync_seconds, read.result_runs) == (*most, MAX_RUNS)
    assert SCHEMA["properties"]["metrics"]["properties"]["resultRuns"]["maximum"] == MAX_RUNS
    least = SCHEMA["properties"]["workers"]["minimum"], SCHEMA["properties"]["resyncSeconds"]["minimum"]
    read = settings({"workers": least[0], "resyncSeconds": least[1]})
    assert (read.workers, read.resync_seconds) == least


def test_further_variables_are_added_as_they_are() -> None:
    assert operator_container(EVERYTHING)["env"][-2:] == EVERYTHING["extraEnv"]


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({"rbac": {"scope": "namespace"}}, ("benchrun-system",)),
        ({"rbac": {"scope": "namespace"}, "watchNamespaces": ["b", "a"]}, ("b", "a")),
    ],
)
def test_the_operator_is_told_which_namespaces_to_watch(values: Object, namespaces: tuple[str, ...]) -> None:
    assert settings(values).namespaces == namespaces


def test_pod_options_reach_the_pod() -> None:
    deployment = only(render(EVERYTHING), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    for option in ("imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations", "affinity"):
        assert pod[option] == EVERYTHING[option]
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["annotations"].items() >= EVERYTHING["podAnnotations"].items()
    assert metadata["labels"].items() >= EVERYTHING["podLabels"].items()
    assert pod["containers"][0]["imagePullPolicy"] == "Always"


def test_chart_and_distribution_have_the_same_version() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert METADATA["version"] == METADATA["appVersion"] == project["version"]
    images = yaml.safe_load(METADATA["annotations"]["artifacthub.io/images"])
    assert [image["image"] for image in images] == [f"benchrun/operator:{VERSION}", f"benchrun/client:{VERSION}"]


def operator_container(values: Object) -> Object:
    """The operator's container with these values."""
    container: Object = only(render(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return container


def settings(values: Object) -> Settings:
    """What the operator makes of its environment."""
    return Settings.from_environment(environment(operator_container(values)))


def environment(container: Object) -> dict[str, str]:
    """Its environment variables that have a plain value."""
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
