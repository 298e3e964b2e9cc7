"""The values: documented one by one, refused when unknown, passed on when known."""

import json
from collections.abc import Iterator

import pytest
import yaml
from benchrun.runtime.memory import MAX_RUNS
from benchrun.runtime.settings import OperatorSettings
from chart.rendering import (
    CHART,
    DIGEST,
    EVERYTHING,
    IMAGES,
    PROMETHEUS,
    Object,
    only,
    refusal,
    render,
)

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_TEXT)
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
VERSION = METADATA["appVersion"]

PEERS = [("networkPolicies", "serverPeers"), ("networkPolicies", "metricsPeers")]
KUBERNETES_OWN = {
    ("global",),
    ("extraEnv", "valueFrom"),
    ("affinity", "nodeAffinity"),
    ("affinity", "podAffinity"),
    ("affinity", "podAntiAffinity"),
    ("topologySpreadConstraints", "labelSelector"),
    *(
        (name, peers, part)
        for name, peers in PEERS
        for part in ("ipBlock", "namespaceSelector", "podSelector")
    ),
    *(
        ("runs", role, *fragment)
        for role in ("server", "offline", "client", "proxy")
        for fragment in (
            ("affinity", "nodeAffinity"),
            ("affinity", "podAffinity"),
            ("affinity", "podAntiAffinity"),
            ("topologySpreadConstraints", "labelSelector"),
            ("securityContext",),
            ("env", "valueFrom"),
            ("preparationEnv", "valueFrom"),
            ("volumes",),
            ("volumeMounts",),
        )
    ),
    ("networkPolicies", "egress", "extra", "to"),
    ("networkPolicies", "egress", "extra", "ports"),
    ("archive", "egress", "to"),
    ("archive", "egress", "ports"),
}
"""Where fragments of Kubernetes' own types stand; the API server checks those."""


def resolved(schema: Object) -> Object:
    """The schema itself, or the definition it refers to."""
    return (
        SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
        if "$ref" in schema
        else schema
    )


def groups(
    schema: Object, values: Object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Object, Object]]:
    """Path, properties and defaults of every group of values, the root among them."""
    yield path, schema["properties"], values
    for key, entry in schema["properties"].items():
        if "properties" in resolved(entry) and values.get(key):
            yield from groups(resolved(entry), values[key], (*path, key))


GROUPS = list(groups(SCHEMA, VALUES))


def open_schemas(
    schema: Object, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Where the schema takes objects with any content."""
    schema = resolved(schema)
    if (
        schema.get("type") == "object"
        and schema.get("additionalProperties", True) is True
    ):
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
            above.append(
                (indentation, explained or any(covered for _, covered in above))
            )
            key, _, value = body.partition(":")
            if value and not above[-1][1]:
                yield key
        explained = False


@pytest.mark.parametrize(
    "path",
    [path for path, _, _ in GROUPS],
    ids=lambda path: ".".join(path) or "root",
)
def test_an_unknown_value_is_refused_wherever_it_stands(
    path: tuple[str, ...],
) -> None:
    values: Object = {"mistyped": True}
    for key in reversed(path):
        values = {key: values}
    assert "'mistyped' not allowed" in refusal(values)


def test_every_schema_is_closed() -> None:
    assert set(open_schemas(SCHEMA)) == KUBERNETES_OWN


@pytest.mark.parametrize(("path", "properties", "values"), GROUPS)
def test_schema_and_values_name_the_same_things(
    path: tuple[str, ...], properties: Object, values: Object
) -> None:
    assert properties.keys() - {"global"} == values.keys(), path


def test_every_value_is_explained() -> None:
    assert list(unexplained(VALUES_TEXT)) == []
    assert list(
        unexplained("# -- Told.\na:\n  b: 1\nc: 2\n# Not told.\nd: 3\n")
    ) == ["c", "d"]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"image": {"digest": "sha256:abc"}}, "digest"),
        ({"image": {"repository": "two words"}}, "repository"),
        ({"replicaCount": 0}, "replicaCount"),
        ({"networkPolicies": {"serverPeers": [{}]}}, "serverPeers"),
        (
            {"admissionPolicy": {"forbiddenNamespaces": ["Upper"]}},
            "forbiddenNamespaces",
        ),
        ({"image": {"tag": "two words"}}, "tag"),
        ({"rbac": {"scope": "everything"}}, "scope"),
        ({"log": {"level": "loud"}}, "level"),
        ({"workers": 0}, "workers"),
        ({"resyncSeconds": "soon"}, "resyncSeconds"),
        ({"unschedulableGraceSeconds": -1}, "unschedulableGraceSeconds"),
        ({"podRoad": "Tunnel"}, "podRoad"),
        ({"archive": {"place": "http://bucket"}}, "place"),
        ({"archive": {"place": "s3://key:secret@bucket/prefix"}}, "place"),
        ({"archive": {"schedule": "often"}}, "schedule"),
        ({"archive": {"subPath": "../etc"}}, "subPath"),
        ({"archive": {"envFrom": [{"secretRef": {}}]}}, "envFrom"),
        ({"metrics": {"resultRuns": -1}}, "resultRuns"),
        ({"commonLabels": {"a": "not a label"}}, "commonLabels"),
        ({"watchNamespaces": ["Upper"]}, "watchNamespaces"),
        ({"resources": {"limits": {"cpu": True}}}, "cpu"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologyKey"),
        (
            {"metrics": {"serviceMonitor": {"scrapeTimeout": "soon"}}},
            "scrapeTimeout",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: Object, complaint: str) -> None:
    assert complaint in refusal(values)


def test_queues_in_namespace_scope_are_refused() -> None:
    assert "kueue.enabled needs rbac.scope=cluster" in refusal(
        {"rbac": {"scope": "namespace"}, "kueue": {"enabled": True}}
    )


def test_watched_namespaces_without_namespace_scope_are_refused() -> None:
    assert "watchNamespaces needs rbac.scope=namespace" in refusal(
        {"watchNamespaces": ["team-a"]}
    )


@pytest.mark.parametrize("value", ["image", "clientImage"])
@pytest.mark.parametrize(
    "given",
    [{"repository": ""}, {"repository": None, "digest": DIGEST}],
    ids=["none", "digest"],
)
def test_an_image_without_a_repository_is_refused_in_plain_words(
    value: str, given: Object
) -> None:
    assert VALUES[value]["repository"] == ""
    assert f"{value}.repository is required" in refusal({value: given})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"podRoad": "Proxy"}, "networkPolicies.runs=false"),
        (
            {"metrics": {"serviceMonitor": {"enabled": True}}},
            "networkPolicies.metricsPeers",
        ),
        (
            {"networkPolicies": {"operator": False, "egress": {"enabled": True}}},
            "networkPolicies.operator=true",
        ),
        (
            {"metrics": {"prometheusRule": {"enabled": True}}},
            "metrics.serviceMonitor.enabled=true",
        ),
        (
            {
                "serviceAccount": {"create": False, "name": "a"},
                "release": {"serviceAccount": {"create": False, "name": "a"}},
            },
            "release.serviceAccount.name",
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused_with_the_way_out(
    values: Object, named: str
) -> None:
    assert named in refusal(values)


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({}, "{name}:{version}"),
        ({"tag": "1.2.3"}, "{name}:1.2.3"),
        (
            {"repository": "mirror.example/x", "tag": "1.2.3"},
            "mirror.example/x:1.2.3",
        ),
        ({"digest": DIGEST}, "{name}@" + DIGEST),
        ({"tag": "1.2.3", "digest": DIGEST}, "{name}@" + DIGEST),
    ],
)
def test_a_digest_wins_over_a_tag_and_a_tag_over_the_charts_version(
    image: Object, reference: str
) -> None:
    container = operator_container({"image": image, "clientImage": image})
    assert container["image"] == reference.format(
        name=IMAGES["image"], version=VERSION
    )
    client = reference.format(name=IMAGES["clientImage"], version=VERSION)
    assert environment(container)["BENCHRUN_CLIENT_IMAGE"] == client


def test_the_operator_reads_from_its_environment_what_the_values_say() -> None:
    plain = OperatorSettings(
        client_image=f"{IMAGES['clientImage']}:{VERSION}",
        leader_election=True,
        network_policies=True,
    )
    assert settings({}) == plain
    assert settings(EVERYTHING) == OperatorSettings(
        client_image=f"mirror.example/client@{DIGEST}",
        client_image_pull_policy="Always",
        log_level="DEBUG",
        log_format="plain",
        workers=4,
        resync_seconds=60,
        result_runs=5,
        pod_road="Proxy",
        gpu_exporter_namespace="monitoring",
        gpu_exporter_selector="tier=gpu",
        gpu_exporter_port=9401,
        cpu_exporter_namespace="node-stats",
        cpu_exporter_selector="tier=cpu",
        cpu_exporter_port=8081,
        unschedulable_grace_seconds=0,
        run_metrics=True,
        archive=True,
        leader_election=True,
        network_policies=False,
        network_policy_peers=(PROMETHEUS,),
    )


@pytest.mark.parametrize(
    "level", SCHEMA["properties"]["log"]["properties"]["level"]["enum"]
)
@pytest.mark.parametrize(
    "log_format", SCHEMA["properties"]["log"]["properties"]["format"]["enum"]
)
def test_the_operator_knows_every_way_to_log_that_the_chart_offers(
    level: str, log_format: str
) -> None:
    read = settings({"log": {"level": level, "format": log_format}})
    assert (read.log_level, read.log_format) == (level.upper(), log_format)


def test_the_charts_limits_are_the_operators() -> None:
    most = (
        SCHEMA["properties"]["workers"]["maximum"],
        SCHEMA["properties"]["resyncSeconds"]["maximum"],
    )
    read = settings(
        {
            "workers": most[0],
            "resyncSeconds": most[1],
            "metrics": {"resultRuns": MAX_RUNS},
        }
    )
    assert (read.workers, read.resync_seconds, read.result_runs) == (
        *most,
        MAX_RUNS,
    )
    assert (
        SCHEMA["properties"]["metrics"]["properties"]["resultRuns"]["maximum"]
        == MAX_RUNS
    )
    least = (
        SCHEMA["properties"]["workers"]["minimum"],
        SCHEMA["properties"]["resyncSeconds"]["minimum"],
    )
    read = settings({"workers": least[0], "resyncSeconds": least[1]})
    assert (read.workers, read.resync_seconds) == least


@pytest.mark.parametrize(("values", "told"), [({}, "false"), (EVERYTHING, "true")])
def test_single_runs_are_on_the_metrics_page_only_when_asked_for(
    values: Object, told: str
) -> None:
    assert environment(operator_container(values))["BENCHRUN_RUN_METRICS"] == told


def test_the_operator_learns_who_and_where_it_is() -> None:
    env = {entry["name"]: entry for entry in operator_container({})["env"]}
    assert env["BENCHRUN_NAMESPACE"]["valueFrom"] == {
        "fieldRef": {"fieldPath": "metadata.namespace"}
    }
    assert env["BENCHRUN_POD_NAME"]["valueFrom"] == {
        "fieldRef": {"fieldPath": "metadata.name"}
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("true", "true", "[]", "86400")),
        ({"networkPolicies": {"runs": False}}, ("true", "false", "[]", "86400")),
        (
            {"networkPolicies": {"serverPeers": [PROMETHEUS]}},
            (
                "true",
                "true",
                json.dumps([PROMETHEUS], separators=(",", ":")),
                "86400",
            ),
        ),
    ],
)
def test_the_operator_is_told_of_its_lease_and_of_runs_policies(
    values: Object, expected: tuple[str, ...]
) -> None:
    env = environment(operator_container(values))
    names = (
        "LEADER_ELECTION",
        "NETWORK_POLICIES",
        "NETWORK_POLICY_PEERS",
        "MAX_HOLD_SECONDS",
    )
    assert tuple(env[f"BENCHRUN_{name}"] for name in names) == expected


def test_further_variables_are_added_as_they_are() -> None:
    assert operator_container(EVERYTHING)["env"][-2:] == EVERYTHING["extraEnv"]


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({"rbac": {"scope": "namespace"}}, ("benchrun-system",)),
        (
            {"rbac": {"scope": "namespace"}, "watchNamespaces": ["b", "a"]},
            ("b", "a"),
        ),
    ],
)
def test_the_operator_is_told_which_namespaces_to_watch(
    values: Object, namespaces: tuple[str, ...]
) -> None:
    assert settings(values).namespaces == namespaces


def test_pod_options_reach_the_pod() -> None:
    deployment = only(render(EVERYTHING), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    for option in (
        "imagePullSecrets",
        "priorityClassName",
        "nodeSelector",
        "tolerations",
        "affinity",
    ):
        assert pod[option] == EVERYTHING[option]
    assert (
        deployment["metadata"]["annotations"] == EVERYTHING["deploymentAnnotations"]
    )
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["annotations"].items() >= EVERYTHING["podAnnotations"].items()
    assert metadata["labels"].items() >= EVERYTHING["podLabels"].items()
    assert pod["containers"][0]["imagePullPolicy"] == "Always"


@pytest.mark.parametrize("cpu", [0.5, 2, "500m"])
def test_quantities_are_numbers_or_text(cpu: object) -> None:
    assert (
        operator_container({"resources": {"requests": {"cpu": cpu}}})["resources"][
            "requests"
        ]["cpu"]
        == cpu
    )


def operator_container(values: Object) -> Object:
    """The operator's container with these values."""
    container: Object = only(render(values), "Deployment")["spec"]["template"][
        "spec"
    ]["containers"][0]
    return container


def settings(values: Object) -> OperatorSettings:
    """What the operator makes of its environment."""
    return OperatorSettings.from_environment(
        environment(operator_container(values))
    )


def environment(container: Object) -> dict[str, str]:
    """Its environment variables that have a plain value."""
    return {
        entry["name"]: entry["value"]
        for entry in container["env"]
        if "value" in entry
    }
