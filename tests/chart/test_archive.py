"""The CronJob that archives ended runs: off by default, with the rights that it needs and no more."""

from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
from chart.rendering import (
    EVERYTHING,
    NAMESPACE,
    NAMESPACED,
    Object,
    only,
    refusal,
    render as rendered,
)
from chart.test_permissions import granted
from chart.test_release import RESTRICTED

NAME = "bench-benchrun-archive"
RIGHTS = {
    "benchrun.dev/benchmarkruns": {"get", "list"},
    "benchrun.dev/benchmarkruns/status": {"patch"},
    "/configmaps": {"get", "list"},
}
"""Verbs by group and resource, where runs are."""
S3: Object = {"archive": {"enabled": True, "place": "s3://results/benchrun"}}
CLAIM: Object = {"archive": {"enabled": True, "claim": "results"}}
MODES = {
    "s3": S3,
    "claim": CLAIM,
    "namespaced": NAMESPACED | CLAIM,
    "everything": EVERYTHING,
}


def render(values: Mapping[str, Any]) -> list[Object]:
    """Every object of the archive."""
    return rendered(values, component="archive")


def pod(values: Mapping[str, Any]) -> Object:
    """The template of its pods."""
    job = only(render(values), "CronJob")["spec"]["jobTemplate"]["spec"]
    found: Object = job["template"]
    return found


def container(values: Mapping[str, Any]) -> Object:
    [found] = pod(values)["spec"]["containers"]
    assert found["args"] == ["archive"]
    return dict(found)


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """What the process is told."""
    return {each["name"]: each["value"] for each in container(values)["env"]}


def told(values: Mapping[str, Any]) -> str:
    """What the operator is told of it."""
    [operator] = only(rendered(values), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    env = {each["name"]: each.get("value", "") for each in operator["env"]}
    return str(env["BENCHRUN_ARCHIVE"])


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("mode", MODES)
def test_every_object_fits_the_schema_of_its_kind(mode: str, version: str) -> None:
    objects = render(MODES[mode])
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)
    assert {"CronJob", "ServiceAccount"} <= {each["kind"] for each in objects}


def test_it_is_off_by_default_and_the_operator_then_waits_for_nobody() -> None:
    assert render({}) == []
    assert render({"archive": None}) == []
    assert told({}) == "false"


def test_where_it_is_on_the_operator_deletes_only_what_is_archived() -> None:
    assert told(S3) == "true"


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (S3, "s3://results/benchrun"),
        (CLAIM, "/archive"),
        ({"archive": CLAIM["archive"] | {"subPath": "a/b"}}, "/archive/a/b"),
    ],
)
def test_it_is_told_where_to_write(values: Object, place: str) -> None:
    assert environment(values) == {
        "BENCHRUN_NAMESPACES": "",
        "BENCHRUN_ARCHIVE_PLACE": place,
    }


def test_credentials_come_from_a_secret_and_never_as_values() -> None:
    assert container(EVERYTHING)["envFrom"] == [{"secretRef": {"name": "storage"}}]
    assert "envFrom" not in container(S3)
    account = only(render(EVERYTHING), "ServiceAccount")["metadata"]
    assert account["annotations"] == {"eks.amazonaws.com/role-arn": "arn"}


def test_a_claim_is_mounted_for_the_images_user() -> None:
    spec = pod(CLAIM)["spec"]
    assert spec["volumes"] == [
        {"name": "archive", "persistentVolumeClaim": {"claimName": "results"}}
    ]
    assert container(CLAIM)["volumeMounts"] == [
        {"name": "archive", "mountPath": "/archive"}
    ]
    assert spec["securityContext"]["fsGroup"] == 65532
    assert "volumes" not in pod(S3)["spec"]


@pytest.mark.parametrize("mode", MODES)
def test_its_pod_is_restricted(mode: str) -> None:
    spec = pod(MODES[mode])["spec"]
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(MODES[mode])["securityContext"] == RESTRICTED
    account = only(render(MODES[mode]), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def test_one_works_at_a_time_and_not_for_ever() -> None:
    spec = only(render(EVERYTHING), "CronJob")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("0 3 * * *", "Forbid")
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 1800


def test_in_cluster_scope_it_reads_runs_and_records_and_marks_runs() -> None:
    objects = render(S3)
    assert granted(only(objects, "ClusterRole")["rules"]) == RIGHTS
    binding = only(objects, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == NAME
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    ]


def test_in_namespace_scope_it_sees_those_namespaces_only() -> None:
    objects = render(NAMESPACED | S3)
    roles = [each for each in objects if each["kind"] == "Role"]
    assert [each["metadata"]["namespace"] for each in roles] == ["team-a", "team-b"]
    assert [granted(each["rules"]) for each in roles] == [RIGHTS] * 2
    assert not {"ClusterRole", "ClusterRoleBinding"} & {e["kind"] for e in objects}
    assert environment(NAMESPACED | S3)["BENCHRUN_NAMESPACES"] == "team-a,team-b"


def test_rights_can_be_left_to_the_cluster_administrator() -> None:
    kinds = {each["kind"] for each in render(S3 | {"rbac": {"create": False}})}
    assert kinds == {"CronJob", "ServiceAccount"}


def test_a_fenced_one_reaches_the_api_server_and_the_storage() -> None:
    policy = only(render(EVERYTHING), "NetworkPolicy")["spec"]
    labels = pod(EVERYTHING)["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    dns, api_server, storage = policy["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert api_server["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert storage == {"ports": [{"port": 443}]}


@pytest.mark.parametrize(
    "archive",
    [{}, {"place": "s3://bucket", "claim": "results"}],
    ids=["none", "both"],
)
def test_exactly_one_place_is_named(archive: Object) -> None:
    said = refusal({"archive": {"enabled": True} | archive})
    assert "archive.place" in said
    assert "archive.claim" in said


def test_values_of_an_older_release_lack_its_schedule() -> None:
    said = refusal({"archive": S3["archive"] | {"schedule": None}})
    assert "archive.schedule" in said
    assert "--reset-then-reuse-values" in said


@pytest.mark.parametrize("name", ["bench-benchrun", "bench-benchrun-release"])
def test_its_account_is_nobody_elses(name: str) -> None:
    archive = S3["archive"] | {"serviceAccount": {"name": name}}
    assert "archive.serviceAccount.name" in refusal({"archive": archive})


def test_a_long_name_still_fits() -> None:
    objects = render(S3 | {"fullnameOverride": "x" * 63})
    assert len(only(objects, "CronJob")["metadata"]["name"]) <= 52
