"""`runs`: what the operator is given of it, what is refused before it is installed, and that no pod
of the chart or of a run breaks OpenShift's restricted-v2."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import MAX_DEFAULTS_BYTES, Applied, RunDefaults
from benchrun.plan.run_defaults import ServerDefaults
from benchrun.runtime.settings import OperatorSettings
from cel_expr_python import cel
from chart.rendering import (
    CHART,
    EVERYTHING,
    MODES,
    REPOSITORY,
    Object,
    notes,
    only,
    refusal,
    render,
)
from kit.restricted_scc import pods_of, violations
from kit.strict_namespace import problems
from unit.api.examples import EXAMPLES
from unit.plan.objects import objects
from unit.plan.specs import OWNER

VALUES = sorted((REPOSITORY / "examples" / "values").glob("*.yaml"))
FOR_GPUS = [each for each in EXAMPLES if each.file == "quickstart-gpu.yaml"]
OPENSHIFT = ("--api-versions", "config.openshift.io/v1")
ROLES = ("server", "offline", "client", "proxy")


def given(values: Object, *arguments: str) -> RunDefaults:
    """Read `runs` as the operator does."""
    deployment = only(render(values, *arguments), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {
        each["name"]: each["value"] for each in container["env"] if "value" in each
    }
    return OperatorSettings.from_environment(environment).run_defaults


def test_without_values_runs_get_nothing() -> None:
    assert given({}) == RunDefaults()


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_an_example_reaches_the_operator_whole(file: Path) -> None:
    values = yaml.safe_load(file.read_text())
    assert given(values) == RunDefaults.model_validate(values["runs"])


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_with_an_example_pods_of_the_quickstart_are_admitted_by_a_strict_namespace(
    file: Path,
) -> None:
    defaults = given(yaml.safe_load(file.read_text()))
    (example,) = FOR_GPUS
    spec = BenchmarkRunSpec.model_validate(example.body["spec"])
    made = objects(OWNER, spec, applied=Applied(defaults))
    server, client = sorted(
        (pod for each in made for pod in pods_of(each)),
        key=lambda pod: "nvidia.com/gpu" not in str(pod["containers"]),
    )
    allowed = {
        f"{role}.capabilities.add"
        for role, of_role in (
            ("server", defaults.server),
            ("client", defaults.client),
        )
        if of_role.capabilities
    }
    assert set(problems(server) + problems(client)) <= allowed
    for name in ("nodeSelector", "runtimeClassName", "tolerations"):
        expected = defaults.server.model_dump(by_alias=True, exclude_none=True)
        assert server.get(name) == (expected.get(name) or None)
    if defaults.user_from_namespace:
        assert violations(server) + violations(client) == []


def test_the_pages_name_every_example() -> None:
    both = (REPOSITORY / "docs/clusters.md").read_text()
    both += (REPOSITORY / "docs/install.md").read_text()
    assert [
        each.name for each in VALUES if f"examples/values/{each.name})" not in both
    ] == []


@pytest.mark.parametrize(
    ("value", "arguments", "expected"),
    [
        (None, (), False),
        (None, OPENSHIFT, True),
        (False, OPENSHIFT, False),
        (True, (), True),
    ],
)
def test_the_user_comes_from_the_namespace_on_openshift_or_where_that_is_said(
    value: bool | None, arguments: tuple[str, ...], expected: bool
) -> None:
    values = {"runs": {"userFromNamespace": value}}
    assert given(values, *arguments).user_from_namespace is expected


@pytest.mark.parametrize("mode", MODES)
def test_no_pod_of_the_chart_breaks_restricted_v2(mode: str) -> None:
    made = [
        (each["metadata"]["name"], pod)
        for component in ("operator", "release", "uninstall")
        for each in render(MODES[mode], *OPENSHIFT, component=component)
        for pod in pods_of(each)
    ]
    assert len(made) == 3
    assert {name: violations(pod) for name, pod in made} == {
        name: [] for name, _ in made
    }


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("benchrun's own", {"copyLabels": ["benchrun.dev/run"]}),
        ("benchrun's own", {"server": {"labels": {"x.benchrun.dev/y": "z"}}}),
        ("benchrun's own", {"proxy": {"annotations": {"benchrun.dev/y": "z"}}}),
        (
            "/runs/copyLabels/0",
            {"copyLabels": ["not a label"]},
        ),
        (
            "runs.client.preparationEnv",
            {"server": {"preparationEnv": [{"name": "A", "value": "b"}]}},
        ),
        (
            "has a password",
            {"client": {"env": [{"name": "A", "value": "http://me:word@proxy"}]}},
        ),
        (
            "is given twice",
            {
                "client": {
                    "env": [{"name": "A", "value": "1"}],
                    "preparationEnv": [{"name": "A", "value": "2"}],
                }
            },
        ),
        (
            "admissionPolicy.allowHostPath",
            {"client": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
        ),
        ("/runs/modelCacheClaim", {"modelCacheClaim": "Models"}),
        ("/runs/compileCacheClaim", {"compileCacheClaim": "-"}),
        ("/runs/server", {"server": {"nodeSelectors": {}}}),
        ("/runs/server/capabilities/0", {"server": {"capabilities": ["x"]}}),
        (
            "/runs/client/resources/limits/cpu",
            {"client": {"resources": {"limits": {"cpu": 0.5}}}},
        ),
        (
            "/runs/server/env/0",
            {"server": {"env": [{"name": "A", "value": "b", "valueFrom": {}}]}},
        ),
        (
            "48 KiB",
            {
                role: {"annotations": {f"a{n}": "x" * 4096 for n in range(4)}}
                for role in ROLES
            },
        ),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_installed(
    words: str, runs: dict[str, Any]
) -> None:
    assert words in refusal({"runs": runs})


def test_the_notes_name_fields_for_nodes_with_gpus() -> None:
    named = set(re.findall(r"runs\.server\.(\w+)", notes()))
    assert named == {"tolerations", "runtimeClassName"}
    assert named <= ServerDefaults.model_json_schema()["properties"].keys()


def test_chart_and_operator_know_the_same_fields() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    role = set(schema["definitions"]["role"]["properties"])
    model = RunDefaults.model_json_schema()["$defs"]
    assert role == set(model["ClientDefaults"]["properties"])
    assert role - {"preparationEnv"} == set(model["ServerDefaults"]["properties"])
    assert set(schema["properties"]["runs"]["properties"]) == set(
        RunDefaults.model_json_schema()["properties"]
    )
    assert MAX_DEFAULTS_BYTES == 48 * 1024


def test_the_policy_allows_the_capabilities_and_priorities_that_runs_get() -> None:
    runs = {
        "server": {"capabilities": ["IPC_LOCK"], "priorityClassName": "bench"},
        "client": {"capabilities": ["SYS_PTRACE"]},
    }
    policies = [
        each
        for each in render({"runs": runs})
        if each["kind"] == "ValidatingAdmissionPolicy"
        and any(
            "capabilities" in rule["message"]
            for rule in each["spec"]["validations"]
        )
    ]
    assert len(policies) == 2
    for policy in policies:
        text = json.dumps(policy["spec"]["validations"])
        assert "added in ['IPC_LOCK', 'SYS_PTRACE']" in text
        assert "in ['', 'bench']" in text


def test_everything_else_is_as_without_runs() -> None:
    with_runs = render({**EVERYTHING, "runs": {}})
    assert with_runs == render(EVERYTHING)


@pytest.mark.parametrize(
    ("security", "admitted"),
    [
        ({}, True),
        ({"capabilities": {"drop": ["ALL"]}}, True),
        ({"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}}, True),
        ({"capabilities": {"add": ["IPC_LOCK", "SYS_ADMIN"]}}, False),
        ({"privileged": True}, False),
    ],
)
def test_the_policy_refuses_capabilities_that_no_value_names(
    security: Object, admitted: bool
) -> None:
    found = render({"runs": {"server": {"capabilities": ["IPC_LOCK"]}}})
    rules = [
        rule["expression"]
        for each in found
        if each["kind"] == "ValidatingAdmissionPolicy"
        for rule in each["spec"]["validations"]
        if "capabilities" in rule["message"]
    ]
    environment = cel.NewEnv(variables={"variables": cel.Type.DYN})
    for field in ("containers", "initContainers"):
        pod = {"containers": [], field: [{"securityContext": security}]}
        for rule in rules:
            program = environment.compile(rule)
            data = {"variables": {"pods": [pod]}}
            assert program.eval(data=data).value() is admitted
