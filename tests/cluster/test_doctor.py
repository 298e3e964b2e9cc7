"""`benchrun doctor` against a real API server: what would be refused is told before anything is
created, and nothing is left behind."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from kit.kubectl import Namespace, Object, command
from kit.polling import polling
from kit.refusing_cluster import MOST_CPUS, MOST_SLOTS, SLOT
from unit.plan.specs import spec_body

KINDS = (
    "pods,deployments,jobs,services,configmaps,networkpolicies,"
    "benchmarkruns.benchrun.dev"
)
ABSENT = "no-such-thing"
Capture = pytest.CaptureFixture[str]
Found = dict[tuple[str, str], Object]
SERVER = ("pod", "pod of server")


@pytest.fixture(scope="module")
def lab(definition: str) -> Iterator[Namespace]:
    """A namespace that is strict: a LimitRange, a quota, and Pod Security."""
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    command("kubectl", "create", "namespace", name)
    label = "pod-security.kubernetes.io/enforce=restricted"
    command("kubectl", "label", "namespace", name, label)
    namespace = Namespace(name)
    most = {"type": "Container", "max": {"cpu": str(MOST_CPUS)}}
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "cpus"},
            "spec": {"limits": [most]},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "slots"},
            "spec": {"hard": {f"requests.{SLOT}": str(MOST_SLOTS)}},
        },
    )
    for _ in polling("the quota is known", seconds=60):
        (quota,) = namespace.list("resourcequotas")
        if quota.get("status", {}).get("used"):
            break
    yield namespace
    command("kubectl", "delete", "namespace", name, "--wait=false")


def doctor(
    lab: Namespace, folder: Path, capsys: Capture, *options: str, **spec: Any
) -> tuple[int, Found]:
    """Return the exit code, and each line by name and subject."""
    body = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "chat"},
        "spec": spec_body(**spec),
    }
    path = folder / "run.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    before = lab.kubectl("get", KINDS, "--output=name")
    code = main(["doctor", "-f", str(path), "-n", lab.name, "-o", "json", *options])
    assert lab.kubectl("get", KINDS, "--output=name") == before
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, {(each["name"], each["subject"]): each for each in checks}


def server(**changes: Any) -> Object:
    return {"image": "vllm/vllm-openai:v0.32.0", **changes}


NODE_FILES = {"name": "node", "hostPath": {"path": "/"}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "limit-range": (
        {"resources": {"limits": {"cpu": str(MOST_CPUS + 1)}}},
        "spec.server.resources",
    ),
    "quota-that-can-never-fit": (
        {"resources": {"limits": {SLOT: str(MOST_SLOTS + 1)}}},
        "spec.server.resources",
    ),
    "pod-security": ({"pod": {"volumes": [NODE_FILES]}}, "spec.server.pod.volumes"),
    "priority-class": (
        {"pod": {"priorityClassName": ABSENT}},
        "spec.server.pod.priorityClassName",
    ),
    "runtime-class": (
        {"pod": {"runtimeClassName": ABSENT}},
        "spec.server.pod.runtimeClassName",
    ),
    "service-account": (
        {"pod": {"serviceAccountName": ABSENT}},
        "spec.server.pod.serviceAccountName",
    ),
}


@pytest.mark.parametrize(
    ("changes", "field"),
    [pytest.param(*case, id=name) for name, case in REFUSED.items()],
)
def test_what_the_api_server_would_refuse_is_told_with_the_field(
    changes: dict[str, Any],
    field: str,
    lab: Namespace,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    code, found = doctor(lab, tmp_path, capsys, server=server(**changes))
    assert code == 7
    assert found[SERVER]["state"] == "Problem", found[SERVER]
    assert field in found[SERVER]["remedy"]
    assert found["pod", "pod of client"]["state"] == "Ok"


def test_what_would_be_admitted_is_told(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    _, found = doctor(lab, tmp_path, capsys, server=server())
    assert found[SERVER]["state"] == "Ok", found[SERVER]
    assert found["object", "objects of the run"]["state"] == "Ok"
    assert found["manifest", "BenchmarkRun chat"]["state"] == "Ok"
    assert found["rights", "your rights"]["state"] == "Ok"
    assert found["kinds", "kinds of benchrun.dev/v1alpha1"]["state"] == "Ok"
    for kind in ("BenchmarkRun", "BenchmarkSweep"):
        line = found["schema", f"fields of {kind}"]
        assert line["state"] == "Ok", line


def test_all_replicas_together_are_held_against_a_quota(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    asks = {"limits": {SLOT: "1"}}
    several = server(resources=asks, replicas=MOST_SLOTS + 1)
    code, found = doctor(lab, tmp_path, capsys, server=several)
    assert code == 7
    assert found[SERVER]["state"] == "Ok"
    assert found["quota", "ResourceQuota slots"]["state"] == "Problem"


def test_a_secret_a_key_and_a_claim_that_are_missing(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": ABSENT}}
    from_hub = {"hub": {"tokenSecretRef": {"name": "hf", "key": "token"}}}
    spec = {
        "model": {"name": "m", "source": from_hub},
        "server": server(pod={"volumes": [volume]}),
    }
    _, found = doctor(lab, tmp_path, capsys, **spec)
    assert found["secret", "Secret hf"]["state"] == "Problem"
    claim = found["persistentvolumeclaim", f"PersistentVolumeClaim {ABSENT}"]
    assert claim["state"] == "Problem"
    secret = "never-to-be-printed"
    lab.kubectl(
        "create", "secret", "generic", "hf", f"--from-literal=other={secret}"
    )
    _, found = doctor(lab, tmp_path, capsys, **spec)
    assert "token" in found["secret", "Secret hf"]["sentence"]
    assert secret not in str(found)


def test_a_spec_that_is_refused_is_told_at_its_field(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    code, found = doctor(lab, tmp_path, capsys, server=server(), repeats=0)
    assert code == 7
    assert "spec.repeats" in found["spec", "BenchmarkRun chat"]["sentence"]
    assert "spec.repeats" in found["manifest", "BenchmarkRun chat"]["sentence"]


def test_a_kind_that_the_cluster_lacks_is_told(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    groups = server(nodesPerReplica=2)
    _, found = doctor(lab, tmp_path, capsys, server=groups)
    line = found.get(("object", "LeaderWorkerSet of server"))
    served = "leaderworkerset.x-k8s.io" in command("kubectl", "api-versions")
    assert (line is None) == served
    assert line is None or "lws.sigs.k8s.io" in line["remedy"]


@pytest.fixture
def viewer(lab: Namespace, tmp_path: Path) -> Iterator[str]:
    """Log in as an account that may do nothing but read runs."""
    lab.kubectl("create", "serviceaccount", "viewer")
    lab.kubectl(
        "create",
        "role",
        "viewer",
        "--verb=get,list",
        "--resource=benchmarkruns.benchrun.dev",
    )
    account = f"--serviceaccount={lab.name}:viewer"
    lab.kubectl("create", "rolebinding", "viewer", "--role=viewer", account)
    config = json.loads(
        command(
            "kubectl", "config", "view", "--minify", "--flatten", "--raw", "-o=json"
        )
    )
    token = lab.kubectl("create", "token", "viewer").strip()
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "viewer.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    yield str(path)
    for kind in ("rolebinding", "role", "serviceaccount"):
        lab.delete(kind, "viewer")


def test_without_rights_nothing_is_fine_and_each_right_is_named(
    viewer: str,
    lab: Namespace,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "own.json"
    body = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "chat"},
        "spec": spec_body(server=server()),
    }
    path.write_text(json.dumps(body), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", viewer)
    assert main(["doctor", "-f", str(path), "-n", lab.name, "-o", "json"]) == 7
    checks = json.loads(capsys.readouterr().out)["checks"]
    found = {(each["name"], each["subject"]): each for each in checks}
    assert found["rights", "your rights"]["state"] == "Problem"
    for name, subject, right in (
        ("operator", "operator", "list deployments"),
        ("nodes", "nodes", "list nodes"),
        ("quota", "quotas", "list resourcequotas"),
        ("network", "NetworkPolicies", "list networkpolicies"),
        (*SERVER, "create pods"),
    ):
        line = found[name, subject]
        assert (line["state"], right in line["remedy"]) == ("NotChecked", True), (
            line
        )


def test_as_operator_needs_the_right_to_impersonate(
    viewer: str,
    lab: Namespace,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", viewer)
    options = ["-n", lab.name, "-o", "json", "--as-operator"]
    assert main(["doctor", *options]) == 7
    checks = json.loads(capsys.readouterr().out)["checks"]
    (line,) = [each for each in checks if each["name"] == "pod"]
    assert line["state"] == "NotChecked"
    assert "--as-operator" in line["remedy"]


def test_as_operator_pods_are_admitted_in_the_name_of_their_controllers(
    lab: Namespace, tmp_path: Path, capsys: Capture
) -> None:
    _, found = doctor(lab, tmp_path, capsys, "--as-operator", server=server())
    assert found[SERVER]["state"] == "Ok", found[SERVER]
