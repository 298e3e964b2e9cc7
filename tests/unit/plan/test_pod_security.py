"""Pods hold to the restricted Pod Security Standard, carry no token, and stay where they are."""

from collections.abc import Iterable

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Manifest
from unit.plan.cases import CASES
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, spec_body

RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
ALSO_HARMLESS = {"image"}
"""Read-only by nature and allowed under `restricted` since it exists."""

GROUPS = "LeaderWorkerSet"
PODS = [
    *((case, "Job") for case in CASES),
    *((case, "Deployment") for case, body in CASES.items() if "server" in body and case != "many-nodes"),
    *(("many-nodes", f"{GROUPS} {pod}") for pod in ("leader", "worker")),
]


def template(body: Json, what: str) -> Manifest:
    kind, _, pod = what.partition(" ")
    spec = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(body)), kind)["spec"]
    found = spec["leaderWorkerTemplate"][f"{pod}Template"] if kind == GROUPS else spec["template"]
    assert isinstance(found, dict)
    return found


def breaches(pod: Manifest) -> Iterable[str]:
    """What the restricted standard would refuse, in its own order."""
    security = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    if security.get("runAsNonRoot") is not True or security.get("runAsUser") == 0:
        yield "runAsNonRoot"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "seccompProfile"
    for volume in pod["volumes"]:
        if not (set(volume) - {"name"}) <= RESTRICTED_VOLUMES | ALSO_HARMLESS:
            yield f"volume {volume['name']}"
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        own = container["securityContext"]
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if own["capabilities"] != {"drop": ["ALL"]}:
            yield "capabilities"
        if any("hostPort" in port for port in container.get("ports", ())):
            yield "hostPort"


@pytest.mark.parametrize(("case", "kind"), PODS)
def test_pod_keeps_the_restricted_standard(case: str, kind: str) -> None:
    assert list(breaches(template(CASES[case], kind)["spec"])) == []


@pytest.mark.parametrize(("case", "kind"), PODS)
def test_pod_holds_no_token_and_learns_no_neighbours(case: str, kind: str) -> None:
    pod = template(CASES[case], kind)["spec"]
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)


@pytest.mark.parametrize(("case", "kind"), PODS)
def test_no_autoscaler_moves_the_pod(case: str, kind: str) -> None:
    assert template(CASES[case], kind)["metadata"]["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_client_cannot_write_to_its_image() -> None:
    (container,) = template(spec_body(), "Job")["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_given_pod_security_context_replaces_the_default_whole() -> None:
    given = {"runAsUser": 0, "fsGroup": 3000}
    pod = template(spec_body(server={"image": "v", "pod": {"securityContext": given}}), "Deployment")["spec"]
    assert pod["securityContext"] == given


def test_secrets_are_only_ever_references() -> None:
    manifests = objects(OWNER, BenchmarkRunSpec.model_validate(CASES["endpoint-url"]))
    (container,) = of_kind(manifests, "Job")["spec"]["template"]["spec"]["containers"]
    assert [v for v in container["env"] if v["name"] == "OPENAI_API_KEY"] == [
        {"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "llm", "key": "api-key"}}}
    ]
