"""The operator's words to a real API server: what is ours is written, what is somebody else's is
never touched."""

import base64
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun import names
from benchrun.decide import Compilations, Event, LogTail, Ref
from benchrun.effects import (
    LIST_PAGE,
    LOG_BYTES,
    LOG_LINES,
    MANAGED_BY_CLUSTER,
    Conflict,
    Connection,
    Forbidden,
    Invalid,
    KubernetesApi,
    NotFound,
    Occupied,
    Unavailable,
    configuration,
    connection as connecting,
)
from benchrun.names import API_VERSION, KIND
from benchrun.observe import Run, run_of
from benchrun.plan import Manifest, Owner, metadata
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm import log as vllm_log
from kit.kubectl import SWEEP, Namespace
from kit.polling import polling
from kit.runs import SIMULATOR_IMAGE, simulated_run
from kubernetes.aio.config import incluster_config

VLLM = ENGINES["VLLM"]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RESOURCE = "benchmarkruns.benchrun.dev"


class Writes:
    """Counts writes by verb, resource and code."""

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, verb: str, resource: str, code: str) -> None:
        self.count[verb, resource, code] += 1


@pytest.fixture
def writes() -> Writes:
    """What was written in a test."""
    return Writes()


@pytest.fixture
async def api(writes: Writes) -> AsyncIterator[KubernetesApi]:
    """The API server, as the kubeconfig says."""
    connection = Connection(await configuration())
    yield KubernetesApi(connection, count=writes)
    await connection.close()


@pytest.fixture
def run(namespace: Namespace, request: pytest.FixtureRequest) -> Run:
    """A run that has ended, so that an operator that may be there leaves it alone; a child may be
    owned by it."""
    name = f"r-{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"
    namespace.apply(simulated_run(name, suspend=True))
    ended = {
        "type": "Failed",
        "status": "True",
        "reason": "Cancelled",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }
    namespace.patch(
        RESOURCE, name, {"status": {"conditions": [ended]}}, subresource="status"
    )
    return run_of(namespace.get(RESOURCE, name))


def version_of(namespace: Namespace, run: Run) -> str:
    found: str = namespace.get(RESOURCE, run.name)["metadata"]["resourceVersion"]
    return found


def config_map(
    run: Run, *, name: str = "", immutable: bool = False, **data: str
) -> Manifest:
    owner = Owner(run.namespace, run.name, run.uid)
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            owner, name=name or f"cm-{run.name}", role=names.ROLE_PLAN
        ),
        "data": data,
    }
    return body | ({"immutable": True} if immutable else {})


# ---- runs of a sweep
# -------------------------------------------------------------------------------------------------


def sweep_uid(namespace: Namespace, name: str) -> str:
    """Uid of a sweep that exists and starts nothing."""
    spec = {
        "template": simulated_run("any")["spec"],
        "matrix": {"variants": [{"name": "only"}]},
        "suspend": True,
    }
    namespace.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "BenchmarkSweep",
            "metadata": {"name": name},
            "spec": spec,
        }
    )
    uid: str = namespace.get(SWEEP, name)["metadata"]["uid"]
    return uid


def run_of_a_sweep(namespace: Namespace, name: str, *, uid: str) -> Manifest:
    """As a sweep makes it, but suspended."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkSweep",
        "name": "s",
        "uid": uid,
        "controller": True,
    }
    manifest: Manifest = simulated_run(name, suspend=True)
    return {
        **manifest,
        "metadata": {
            "name": name,
            "namespace": namespace.name,
            "ownerReferences": [owner],
        },
    }


async def test_run_of_a_sweep_comes_back_whole_and_is_made_once(
    api: KubernetesApi, namespace: Namespace
) -> None:
    uid = sweep_uid(namespace, "s")
    made = await api.apply(run_of_a_sweep(namespace, "s-v1-r1", uid=uid))
    assert made["spec"]["measurement"]["seed"] == 1  # a default of the schema
    again = await api.apply(run_of_a_sweep(namespace, "s-v1-r1", uid=uid))
    assert (again["metadata"]["uid"], again["spec"]) == (
        made["metadata"]["uid"],
        made["spec"],
    )
    assert run_of(again).sweep_uid == uid


async def test_run_of_another_sweep_is_not_taken_for_ours(
    api: KubernetesApi, namespace: Namespace
) -> None:
    theirs = sweep_uid(namespace, "s")
    await api.apply(run_of_a_sweep(namespace, "theirs", uid=theirs))
    with pytest.raises(Occupied) as taken:
        await api.apply(
            run_of_a_sweep(namespace, "theirs", uid=sweep_uid(namespace, "ours"))
        )
    assert taken.value.found["metadata"]["ownerReferences"][0]["uid"] == theirs


async def test_run_is_cancelled_but_not_its_namesake(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    namesake = Ref(KIND, run.namespace, run.name, "of-another")
    assert await api.cancel_run(namesake) is None
    assert namespace.get(RESOURCE, run.name)["spec"]["cancel"] is False
    cancelled = await api.cancel_run(Ref(KIND, run.namespace, run.name, run.uid))
    assert cancelled is not None
    assert namespace.get(RESOURCE, run.name)["spec"]["cancel"] is True
    assert await api.cancel_run(Ref(KIND, run.namespace, "nobody", run.uid)) is None


# ---- apply
# -----------------------------------------------------------------------------------------------------------


async def test_object_is_made_and_only_its_metadata_comes_back(
    api: KubernetesApi, namespace: Namespace, run: Run, writes: Writes
) -> None:
    written = await api.apply(config_map(run, a="1"))
    stored = namespace.get("configmap", f"cm-{run.name}")
    assert stored["data"] == {"a": "1"}
    assert written["metadata"]["uid"] == stored["metadata"]["uid"]
    assert (
        written["metadata"]["resourceVersion"]
        == stored["metadata"]["resourceVersion"]
    )
    assert "data" not in written
    assert {entry["manager"] for entry in written["metadata"]["managedFields"]} == {
        names.FIELD_MANAGER
    }
    assert writes.count == {("POST", "configmaps", "2xx"): 1}


async def test_object_of_ours_that_exists_is_left_as_it_is(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    first = await api.apply(config_map(run, a="1"))
    again = await api.apply(config_map(run, a="2"))
    assert again["metadata"]["uid"] == first["metadata"]["uid"]
    assert (
        again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    )
    assert namespace.get("configmap", f"cm-{run.name}")["data"] == {"a": "1"}


@pytest.mark.parametrize("owned", [False, True], ids=["nobodys", "another-runs"])
async def test_object_of_somebody_else_is_never_touched(
    api: KubernetesApi, namespace: Namespace, run: Run, owned: bool
) -> None:
    theirs = config_map(run, b="theirs")
    theirs["metadata"]["ownerReferences"] = []
    if owned:
        namespace.apply(simulated_run("other", suspend=True))
        other = run_of(namespace.get(RESOURCE, "other"))
        theirs["metadata"]["ownerReferences"] = config_map(other)["metadata"][
            "ownerReferences"
        ]
    namespace.apply(theirs)
    before = namespace.get("configmap", f"cm-{run.name}")
    with pytest.raises(
        Occupied, match=f"ConfigMap cm-{run.name} exists and has another owner"
    ) as occupied:
        await api.apply(config_map(run, a="ours"))
    assert occupied.value.found["metadata"]["uid"] == before["metadata"]["uid"]
    assert namespace.get("configmap", f"cm-{run.name}")["data"] == {"b": "theirs"}


async def test_manifest_that_is_wrong_is_invalid(
    api: KubernetesApi, run: Run, writes: Writes
) -> None:
    wrong = config_map(run) | {"data": {"not a key": "1"}}
    with pytest.raises(Invalid, match="not a key"):
        await api.apply(wrong)
    assert writes.count == {("POST", "configmaps", "422"): 1}


async def test_namespace_that_does_not_exist_is_not_found(
    api: KubernetesApi, run: Run
) -> None:
    lost = config_map(run)
    lost["metadata"]["namespace"] = "no-such-namespace"
    with pytest.raises(NotFound):
        await api.apply(lost)


# ---- delete
# ----------------------------------------------------------------------------------------------------------


async def test_object_is_deleted(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    made = await api.apply(config_map(run, a="1"))
    await api.delete(
        Ref("ConfigMap", run.namespace, f"cm-{run.name}", made["metadata"]["uid"])
    )
    assert f"cm-{run.name}" not in {
        c["metadata"]["name"] for c in namespace.list("configmaps")
    }


async def test_deleting_what_is_gone_is_a_success(
    api: KubernetesApi, run: Run, writes: Writes
) -> None:
    await api.delete(
        Ref(
            "ConfigMap",
            run.namespace,
            "never-there",
            "00000000-0000-0000-0000-000000000000",
        )
    )
    assert writes.count == {("DELETE", "configmaps", "404"): 1}


async def test_namesake_is_not_deleted(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    await api.apply(config_map(run, a="1"))
    await api.delete(
        Ref(
            "ConfigMap",
            run.namespace,
            f"cm-{run.name}",
            "00000000-0000-0000-0000-000000000000",
        )
    )
    assert namespace.get("configmap", f"cm-{run.name}")["data"] == {"a": "1"}


# ---- the status
# ------------------------------------------------------------------------------------------------------


async def test_status_of_the_version_we_saw_is_changed(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    changes = {"observedGeneration": 1, "phase": "Pending", "message": "hello"}
    body = await api.patch_status(
        run, resource_version=version_of(namespace, run), changes=changes
    )
    stored = namespace.get(RESOURCE, run.name)
    assert (
        body["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    )
    assert {name: stored["status"][name] for name in changes} == changes
    assert stored["metadata"].get("finalizers") is None
    await api.patch_status(
        run_of(body),
        resource_version=version_of(namespace, run),
        changes={"message": None},
    )
    assert "message" not in namespace.get(RESOURCE, run.name)["status"]


async def test_stale_pass_does_not_overwrite(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    stale = version_of(namespace, run)
    namespace.patch(
        RESOURCE, run.name, {"status": {"message": "newer"}}, subresource="status"
    )
    with pytest.raises(Conflict):
        await api.patch_status(
            run, resource_version=stale, changes={"message": "older"}
        )
    assert namespace.get(RESOURCE, run.name)["status"]["message"] == "newer"


async def test_status_of_a_namesake_is_not_written(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    version = version_of(namespace, run)
    namespace.kubectl("delete", RESOURCE, run.name)
    with pytest.raises(NotFound):
        await api.patch_status(
            run, resource_version=version, changes={"message": "x"}
        )
    namespace.apply(simulated_run(run.name, suspend=True))
    with pytest.raises(Conflict):
        await api.patch_status(
            run, resource_version=version, changes={"message": "x"}
        )
    assert namespace.get(RESOURCE, run.name).get("status", {}).get("message") != "x"


async def test_status_that_the_schema_does_not_allow_is_invalid(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    with pytest.raises(Invalid, match=r"status\.phase"):
        await api.patch_status(
            run,
            resource_version=version_of(namespace, run),
            changes={"phase": "Dreaming"},
        )


async def test_figure_that_is_not_known_survives_within_a_list(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    result = {
        "loadPoint": "chat/rate=4",
        "workload": "chat",
        "axis": "RequestRate",
        "value": "4",
        "repeats": 1,
        "repeatsPlanned": 1,
        "metrics": {"p99_ttft_ms": 1.5, "mean_itl_ms": None},
        "verdict": "Valid",
    }
    await api.patch_status(
        run,
        resource_version=version_of(namespace, run),
        changes={"results": [result]},
    )
    metrics = namespace.get(RESOURCE, run.name)["status"]["results"][0]["metrics"]
    assert {
        name: value for name, value in metrics.items() if value is not None
    } == {"p99_ttft_ms": 1.5}


# ---- reading
# ---------------------------------------------------------------------------------------------------------


async def test_list_goes_through_all_pages_and_takes_only_what_is_labelled(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    count = LIST_PAGE + 3
    namespace.apply(
        *(config_map(run, name=f"many-{n}-{run.name}", a="x") for n in range(count))
    )
    selector = f"{names.LABEL_RUN}={run.name}"
    whole = [
        body
        async for body in api.list(
            "ConfigMap", namespace=run.namespace, selector=selector
        )
    ]
    light = [
        body
        async for body in api.list(
            "ConfigMap",
            namespace=run.namespace,
            selector=selector,
            metadata_only=True,
        )
    ]
    assert (
        len({body["metadata"]["uid"] for body in whole})
        == len(whole)
        == len(light)
        == count
    )
    assert all("data" in body for body in whole)
    assert not any("data" in body for body in light)


async def test_reading_what_is_not_there_is_not_found(
    api: KubernetesApi, run: Run
) -> None:
    with pytest.raises(NotFound):
        await api.get("ConfigMap", namespace=run.namespace, name="never-there")


async def test_log_of_a_measurement_has_the_instant_of_each_line(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    said = "Triton kernel JIT compilation during inference: f."
    program = f"import signal; print('before'); print('{said}', flush=True); signal.pause()"
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    container = {
        "name": "server",
        "image": SIMULATOR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", program],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "compiles"},
        "spec": {"containers": [container]},
    }
    namespace.apply(pod)
    namespace.kubectl(
        "wait", "pod/compiles", "--for=condition=Ready", "--timeout=90s"
    )
    found: tuple[float, ...] | None = ()
    for _ in polling("the log tells of compiling", seconds=30):
        text, complete = await api.log_since(
            run.namespace,
            Compilations(
                pod="compiles", container="server", since=since, engine=VLLM
            ),
        )
        if complete and (found := vllm_log.compilations(text)):
            break
    assert found is not None
    (at,) = found
    assert abs(time.time() - at) < 120
    with pytest.raises(NotFound):
        await api.log_since(
            run.namespace,
            Compilations(
                pod="never-there", container="server", since=since, engine=VLLM
            ),
        )


async def test_log_tail_is_bounded_in_lines_and_bytes(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    program = "for n in range(20000): print(n, 'x' * 500)"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "talks"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": SIMULATOR_IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                }
                | {"command": ["python3", "-c", program]}
            ],
        },
    }
    namespace.apply(pod)
    namespace.kubectl(
        "wait",
        "pod/talks",
        "--for=jsonpath={.status.phase}=Succeeded",
        "--timeout=90s",
    )
    tail = await api.log_tail(
        run.namespace, LogTail(pod="talks", container="main", previous=False)
    )
    assert 1000 < len(tail) <= LOG_BYTES
    assert len(tail.splitlines()) <= LOG_LINES
    with pytest.raises(Invalid):
        await api.log_tail(
            run.namespace, LogTail(pod="talks", container="main", previous=True)
        )
    with pytest.raises(NotFound):
        await api.log_tail(
            run.namespace,
            LogTail(pod="never-there", container="main", previous=False),
        )


async def test_addresses_behind_a_service_have_the_pods_port(
    api: KubernetesApi, namespace: Namespace, run: Run
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8000}]},
    }
    name, _, value = MANAGED_BY_CLUSTER.partition("=")
    pod = {"kind": "Pod", "namespace": run.namespace, "name": "front-0"}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "front-1",
            "labels": {"kubernetes.io/service-name": "front", name: value},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [
            {
                "addresses": ["10.9.0.2"],
                "conditions": {"ready": True},
                "targetRef": pod,
            },
            {
                "addresses": ["10.9.0.1"],
                "conditions": {"ready": False},
                "targetRef": pod,
            },
        ],
    }
    forged = {
        **endpoints,
        "metadata": {
            "name": "front-2",
            "labels": {"kubernetes.io/service-name": "front"},
        },
        "endpoints": [
            {
                "addresses": ["10.9.0.3"],
                "conditions": {"ready": True},
                "targetRef": pod,
            }
        ],
    }
    namespace.apply(service, endpoints, forged)
    assert await api.endpoint_addresses(run.namespace, "front", 80) == (
        "10.9.0.2:8000",
    )
    with pytest.raises(NotFound, match="no port 81"):
        await api.endpoint_addresses(run.namespace, "front", 81)
    with pytest.raises(NotFound):
        await api.endpoint_addresses(run.namespace, "never-there", 80)


async def test_event_is_posted_once_and_belongs_to_the_run(
    api: KubernetesApi, namespace: Namespace, run: Run, writes: Writes
) -> None:
    for message in ("first", "second"):
        await api.create_event(run, Event("Running", message), now=NOW)
    described = json.loads(
        namespace.kubectl(
            "events", f"--for=benchmarkrun.benchrun.dev/{run.name}", "--output=json"
        )
    )
    ours = [e for e in described["items"] if e["reason"] == "Running"]
    assert [(e["message"], e["type"]) for e in ours] == [("first", "Normal")]
    assert writes.count == {
        ("POST", "events", "2xx"): 1,
        ("POST", "events", "409"): 1,
    }


# ---- who asks
# --------------------------------------------------------------------------------------------------------


def pretend_pod(
    monkeypatch: pytest.MonkeyPatch, place: Path, *, token: str
) -> None:
    """Make this process look like a pod with a service account."""
    kubeconfig = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
    authority: Any = cluster.get("certificate-authority-data")
    (place / "token").write_text(token)
    if authority is None:
        (place / "ca.crt").write_text(
            Path(cluster["certificate-authority"]).read_text()
        )
    else:
        (place / "ca.crt").write_bytes(base64.b64decode(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(connecting, "SERVICE_ACCOUNT_TOKEN", place / "token")
    monkeypatch.setattr(
        incluster_config, "SERVICE_TOKEN_FILENAME", str(place / "token")
    )
    monkeypatch.setattr(
        incluster_config, "SERVICE_CERT_FILENAME", str(place / "ca.crt")
    )


async def test_service_account_of_the_pod_is_used_and_may_do_what_it_may(
    namespace: Namespace,
    run: Run,
    writes: Writes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    namespace.kubectl("create", "serviceaccount", "reader")
    namespace.kubectl(
        "create", "role", "reader", "--verb=get", "--resource=configmaps"
    )
    namespace.kubectl(
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        f"--serviceaccount={run.namespace}:reader",
    )
    token = namespace.kubectl("create", "token", "reader").strip()
    pretend_pod(monkeypatch, tmp_path, token=token)
    connection = Connection(await configuration())
    api = KubernetesApi(connection, count=writes)
    try:
        root = await api.get(
            "ConfigMap", namespace=run.namespace, name="kube-root-ca.crt"
        )
        assert "ca.crt" in root["data"]
        with pytest.raises(
            Forbidden, match=f"system:serviceaccount:{run.namespace}:reader"
        ):
            await api.apply(config_map(run))
    finally:
        await connection.close()
    assert writes.count == {("POST", "configmaps", "403"): 1}


async def test_wrong_token_is_forbidden(
    run: Run, writes: Writes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_pod(monkeypatch, tmp_path, token="not-a-token")
    connection = Connection(await configuration())
    try:
        with pytest.raises(Forbidden):
            await KubernetesApi(connection, count=writes).get(
                "ConfigMap", namespace=run.namespace, name="x"
            )
    finally:
        await connection.close()


async def test_no_api_server_is_unavailable(
    run: Run, writes: Writes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_pod(monkeypatch, tmp_path, token="x")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    connection = Connection(await configuration())
    try:
        with pytest.raises(Unavailable):
            await KubernetesApi(connection, count=writes).delete(
                Ref("ConfigMap", run.namespace, "x", "u")
            )
    finally:
        await connection.close()
    assert writes.count == {("DELETE", "configmaps", "none"): 1}


async def test_no_configuration_at_all_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(Unavailable, match="no way to reach an API server"):
        await configuration()
