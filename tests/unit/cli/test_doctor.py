"""`benchrun doctor` against a played API."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api.crd import RUN, SWEEP
from benchrun.cli import api_queries
from benchrun.cli.__main__ import main
from benchrun.cli.api_queries import Asker
from benchrun.cli.errors import KubectlError
from benchrun.doctor.asking import MOST_PAGES, ApiQuery
from benchrun.doctor.operators import KINDS, SCHEMA, SERVER, deployments
from benchrun.doctor.placement import NODES, PODS
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.test_every_command import TROUBLES
from unit.cli.test_interrupts import Command
from unit.doctor.test_operators import deployment, lease, schema_of
from unit.doctor.test_placement import node
from unit.doctor.test_probe import ENDED, seen
from unit.golden_messages import golden
from unit.plan.specs import Json, spec_body
from unit.sweep.sweeps import sweep_body, variant

Capture = pytest.CaptureFixture[str]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/benchrun-system/leases/benchrun-operator"
CORE = "/api/v1/namespaces/lab"
DRY_POD = f"{CORE}/pods?dryRun=All"
NOT_FOUND = 'Error from server (NotFound): things "x" not found'
TOKEN = "hf_do-not-print-me"
WITH_TOKEN = {
    "name": "m",
    "source": {"hub": {"tokenSecretRef": {"name": "hf", "key": "token"}}},
}


def raw(path: str) -> str:
    return f"--raw={path}"


@pytest.fixture
def cluster(kubectl: FakeKubectl) -> FakeKubectl:
    """A cluster on which everything is well; a test's own answers come before."""
    own = deployment(BENCHRUN_CLIENT_IMAGE="client:1")
    served = [{"name": each.plural} for each in (RUN, SWEEP)]
    kubectl.gives(raw(deployments("benchrun-system")[0].path), body=items(own))
    kubectl.gives(raw(SERVER.path), body=VERSION)
    kubectl.gives(raw(KINDS.path), body={"resources": served})
    for renewed in range(8):
        kubectl.gives(raw(LEASE), body=dict(lease(str(renewed)).found), once=True)
    kubectl.gives(raw(CORE), body={"metadata": {"name": "lab"}})
    kubectl.gives(raw(NODES.path), body=items(node()))
    kubectl.gives(raw(PODS.path), body=items())
    kubectl.gives(raw(f"{CORE}/resourcequotas?limit=500"), body=items())
    policies = "/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies?limit=500"
    kubectl.gives(raw(policies), body=items())
    secret = {"kind": "Secret", "data": {"token": TOKEN}}
    kubectl.gives(raw(f"{CORE}/secrets/hf"), body=secret)
    kubectl.gives("create", body={"metadata": {}, "status": {"allowed": True}})
    kubectl.fails("get", error=NOT_FOUND)
    return kubectl


VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.1"}


def items(*found: Json) -> Json:
    return {"metadata": {}, "items": list(found)}


def first(kubectl: FakeKubectl, path: str, **answer: Any) -> None:
    """Have this answer come before those that there are."""
    there = list(kubectl.answers)
    kubectl.answers.clear()
    kubectl.answer(raw(path), **answer)
    kubectl.answers += there
    kubectl._write()


def refused(kubectl: FakeKubectl, path: str, error: str) -> None:
    first(kubectl, path, error=error, code=1)


def written(folder: Path, spec: Json | None = None, **about: Any) -> str:
    body = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "chat"},
        "spec": spec_body() if spec is None else spec,
        **about,
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return str(path)


def states(capsys: Capture) -> dict[str, str]:
    """Return the state of each check, by name and subject."""
    found = json.loads(capsys.readouterr().out)
    return {f"{c['name']} {c['subject']}": c["state"] for c in found["checks"]}


def test_where_all_is_well_every_line_says_so(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    schemas = {"a": schema_of(RUN), "b": schema_of(SWEEP)}
    body = {"components": {"schemas": schemas}}
    first(cluster, SCHEMA.path, out=json.dumps(body))
    assert main(["doctor", "-f", written(tmp_path), "-n", "lab"]) == 0
    golden(capsys.readouterr().out)


def test_for_programs_it_is_json(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path)
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["namespace"], set(found)) == (
        "lab",
        {"namespace", "counts", "checks"},
    )
    assert set(found["checks"][0]) == {
        "name",
        "state",
        "subject",
        "sentence",
        "remedy",
    }
    assert found["counts"] == {
        "ok": len(found["checks"]) - 1,
        "warning": 0,
        "problem": 0,
        "notChecked": 1,
    }
    (unknown,) = [c for c in found["checks"] if c["state"] == "NotChecked"]
    assert unknown["name"] == "platform"


def test_an_object_in_the_same_file_is_there(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    path = Path(written(tmp_path, spec_body(model=WITH_TOKEN)))
    refused(cluster, f"{CORE}/secrets/hf", NOT_FOUND)
    command = ["doctor", "-f", str(path), "-n", "lab", "-o", "json"]
    assert main(command) == 7
    assert states(capsys)["secret Secret hf"] == "Problem"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "hf"},
        "stringData": {"token": TOKEN},
    }
    path.write_text(f"{path.read_text()}---\n{yaml.safe_dump(secret)}")
    assert main(command) == 0
    assert states(capsys)["secret Secret hf"] == "Ok"


def test_nothing_is_changed(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    main(["doctor", "-f", written(tmp_path), "-n", "lab"])
    written_to = [
        word
        for words in cluster.commands()
        if words[0] != "get"
        for word in words
        if word.startswith("--raw=")
    ]
    assert written_to
    assert all(
        word.endswith("?dryRun=All") or "accessreviews" in word
        for word in written_to
    )


def test_without_a_file_the_clients_pod_stands_for_a_run(
    cluster: FakeKubectl, capsys: Capture
) -> None:
    assert main(["doctor", "-n", "lab", "-o", "json"]) == 0
    found = states(capsys)
    assert found["pod pod of client"] == "Ok"
    assert not any("server" in line for line in found)


LIMIT = (
    'Error from server (Forbidden): pods "x" is forbidden: maximum cpu usage per Container is 64, '
    "but limit is 65"
)
MINE = (
    'Error from server (Forbidden): pods is forbidden: User "eve" cannot create resource "pods" '
    'in API group "" in the namespace "lab"'
)
INVALID = 'The Pod "x" is invalid: \n* spec.containers[0].resources: Required value\n* spec.x: bad'
POLICY = (
    "The pods \"x\" is invalid: : ValidatingAdmissionPolicy 'a' with binding 'b' denied request: "
    "set a memory limit"
)


@pytest.mark.parametrize(
    ("error", "state", "code", "strict"),
    [
        pytest.param(LIMIT, "Problem", 7, 7, id="limit range"),
        pytest.param(MINE, "NotChecked", 0, 7, id="no right"),
        pytest.param(INVALID, "Problem", 7, 7, id="invalid"),
        pytest.param(POLICY, "Problem", 7, 7, id="policy"),
        pytest.param(
            "Error from server (Timeout): t", "NotChecked", 0, 7, id="time"
        ),
    ],
)
def test_a_refused_pod_sets_the_code(
    error: str,
    state: str,
    code: int,
    strict: int,
    cluster: FakeKubectl,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    refused(cluster, DRY_POD, error)
    command = ["doctor", "-f", written(tmp_path), "-n", "lab"]
    assert main([*command, "-o", "json"]) == code
    assert states(capsys)["pod pod of server"] == state
    assert main([*command, "--strict"]) == strict
    lines = capsys.readouterr().out.splitlines()
    golden("\n".join(line for line in lines if "pod of" in line))


def test_a_spec_that_is_not_valid_is_a_problem_at_its_field(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path, spec_body(repeats=0))
    invalid = 'The BenchmarkRun "chat" is invalid: spec.repeats: Invalid value: 0: at least 1'
    refused(
        cluster,
        "/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns?dryRun=All",
        invalid,
    )
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json"]) == 7
    found = json.loads(capsys.readouterr().out)["checks"]
    by_name = {each["name"]: each for each in found}
    assert "spec.repeats" in by_name["spec"]["sentence"]
    assert by_name["manifest"]["state"] == "Problem"
    assert by_name["manifest"]["remedy"]


def test_a_run_that_exists_is_told(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    there = 'Error from server (AlreadyExists): benchmarkruns.benchrun.dev "chat" already exists'
    refused(
        cluster,
        "/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns?dryRun=All",
        there,
    )
    path = written(tmp_path)
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json"]) == 0
    assert states(capsys)["manifest BenchmarkRun chat"] == "Warning"


def test_the_values_of_secrets_are_never_printed(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path, spec_body(model=WITH_TOKEN))
    for output in ("json", "table"):
        assert main(["doctor", "-f", path, "-n", "lab", "-o", output]) == 0
        out = capsys.readouterr().out
        assert "Secret hf" in out
        assert TOKEN not in out
    answer = Asker("lab", None).one(ApiQuery(f"{CORE}/secrets/hf"))
    assert answer.body == {"kind": "Secret", "data": {"token": ""}}


def test_variants_of_a_sweep_with_the_same_pods_are_one(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    other = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    variants = [
        variant("base"),
        variant("wide", "--max-num-seqs=256"),
        variant("four", **other),
    ]
    path = written(tmp_path, sweep_body(variants), kind="BenchmarkSweep")
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json"]) == 7
    found = states(capsys)
    assert found["nodes chat-base and 1 more: pod of server"] == "Ok"
    assert found["nodes chat-four: pod of server"] == "Problem"


def test_a_dead_operator_is_a_problem(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    first(cluster, LEASE, out=json.dumps(dict(lease(holder="").found)))
    assert main(["doctor", "-n", "lab", "-o", "json"]) == 7
    assert (
        states(capsys)["lease Lease benchrun-system/benchrun-operator"] == "Problem"
    )


def test_as_operator_asks_in_the_name_of_its_account(
    cluster: FakeKubectl, tmp_path: Path
) -> None:
    main(["doctor", "-f", written(tmp_path), "-n", "lab", "--as-operator"])
    asked = [words for words in cluster.commands() if raw(DRY_POD) in words]
    accounts = {
        word for words in asked for word in words if word.startswith("--as=")
    }
    assert accounts == {
        "--as=system:serviceaccount:kube-system:job-controller",
        "--as=system:serviceaccount:kube-system:replicaset-controller",
    }


@pytest.mark.parametrize("name", ["down", "away", "no-context", "logged-out"])
def test_a_cluster_that_is_none_is_one_line_and_1(
    name: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    message, reported = TROUBLES[name]
    kubectl.fails(error=message)
    assert main(["doctor", "-n", "lab"]) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n"), reported in error) == ("", 1, True)


def test_namespace_and_context_reach_kubectl(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    main(["doctor", "-n", "lab", "--context", "dev"])
    assert all(
        {"--namespace=lab", "--context=dev"} <= {*words}
        for words in cluster.commands()
    )


@pytest.mark.parametrize(
    ("in_context", "manifest", "option", "meant"),
    [
        ("", None, None, "default"),
        ("far", None, None, "far"),
        ("far", "lab", None, "lab"),
        ("far", None, "lab", "lab"),
        ("far", "lab", "lab", "lab"),
    ],
)
def test_the_namespace_that_is_meant(
    in_context: str,
    manifest: str | None,
    option: str | None,
    meant: str,
    cluster: FakeKubectl,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    cluster.answer("config", out=in_context)
    metadata = {"name": "chat", **({"namespace": manifest} if manifest else {})}
    path = written(tmp_path, metadata=metadata)
    chosen = ["-n", option] if option else []
    main(["doctor", "-f", path, *chosen, "-o", "json"])
    assert json.loads(capsys.readouterr().out)["namespace"] == meant


@pytest.mark.parametrize(
    ("manifest", "option"), [("a", "b"), ("../../kube-system", None)]
)
def test_a_namespace_that_can_not_be_meant_is_an_error(
    manifest: str, option: str | None, cluster: FakeKubectl, tmp_path: Path
) -> None:
    path = written(tmp_path, metadata={"name": "chat", "namespace": manifest})
    chosen = ["-n", option] if option else []
    assert main(["doctor", "-f", path, *chosen]) == 1
    assert cluster.commands() == []


def test_a_file_without_a_run_is_an_error(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path, kind="ConfigMap")
    assert main(["doctor", "-f", path, "-n", "lab"]) == 1
    golden(capsys.readouterr().err)


# ---- pods


PODS_PATH = f"{CORE}/pods"
ONE_POD = f"{PODS_PATH}/benchrun-doctor-*"


def starts(kubectl: FakeKubectl, body: Json, *lines: Json) -> None:
    """Have a pod be made, be seen as `body`, and print these lines."""
    first(kubectl, ONE_POD, out=json.dumps(body))
    first(kubectl, PODS_PATH, out="{}")
    kubectl.answer("delete", "pod")
    kubectl.answer("logs", out="\n".join(map(json.dumps, lines)))


def made(kubectl: FakeKubectl) -> list[str]:
    """Return the names of the pods that were to be made."""
    return [
        json.loads(given)["metadata"]["name"]
        for given in kubectl.given(raw(PODS_PATH))
    ]


def deleted(kubectl: FakeKubectl) -> list[str]:
    return [words[2] for words in kubectl.commands() if words[0] == "delete"]


@pytest.mark.parametrize(
    ("body", "state", "code"),
    [
        (ENDED, "Ok", 0),
        (seen("Pending", waiting="ImagePullBackOff"), "Problem", 7),
    ],
)
def test_a_started_pod_is_always_deleted(
    body: Json,
    state: str,
    code: int,
    cluster: FakeKubectl,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    starts(cluster, body, {"name": "dns", "fine": True, "words": "10.0.0.10"})
    path = written(tmp_path)
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json", "--pods"]) == code
    found = states(capsys)
    assert found["started started pod of client"] == state
    assert ("dns name service" in found) == (state == "Ok")
    assert deleted(cluster) == made(cluster)
    assert len(made(cluster)) == 1


def test_with_all_the_servers_image_is_pulled_too(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    starts(cluster, ENDED)
    main(["doctor", "-f", written(tmp_path), "-n", "lab", "--pods=all"])
    images = [
        json.loads(given)["spec"]["containers"][0]["image"]
        for given in cluster.given(raw(PODS_PATH))
    ]
    assert images == ["client:1", "vllm/vllm-openai:v0.32.0"]
    assert deleted(cluster) == made(cluster)
    assert len(set(made(cluster))) == 2


def test_a_pod_that_is_refused_leaves_nothing(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    refused(cluster, PODS_PATH, LIMIT)
    path = written(tmp_path)
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json", "--pods"]) == 7
    assert states(capsys)["started started pod of client"] == "Problem"
    assert deleted(cluster) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_interrupt_deletes_the_pod(
    number: signal.Signals, code: int, cluster: FakeKubectl, tmp_path: Path
) -> None:
    looked = tmp_path / "looked"
    os.mkfifo(looked)
    starts(cluster, seen("Pending"))
    first(
        cluster,
        ONE_POD,
        out="{}",
        after=looked,
        once=True,
    )
    command = Command("doctor", "-f", written(tmp_path), "-n", "lab", "--pods")
    # Opened as soon as kubectl waits there: the pod was made, and is looked at.
    with looked.open("w", encoding="utf-8"):
        ended_with, output = command.interrupted(number)
    assert (ended_with, "Traceback" in output) == (code, False), output
    assert deleted(cluster) == made(cluster) != []


def test_a_pod_is_deleted_though_the_answer_to_its_creation_was_lost(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    starts(cluster, ENDED)
    refused(cluster, PODS_PATH, "error: http2: client connection lost")
    path = written(tmp_path)
    main(["doctor", "-f", path, "-n", "lab", "-o", "json", "--pods"])
    assert states(capsys)["started started pod of client"] != "Ok"
    assert deleted(cluster) == made(cluster) != []


def test_a_pod_that_is_left_behind_is_named(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    starts(cluster, ENDED)
    first(cluster, PODS_PATH, out="{}")
    there = [each for each in cluster.answers if "delete" not in each["to"]]
    cluster.answers[:] = there
    cluster.fails(
        "delete", error="Error from server (Forbidden): pods is forbidden"
    )
    path = written(tmp_path)
    assert main(["doctor", "-f", path, "-n", "lab", "-o", "json", "--pods"]) == 0
    (name,) = made(cluster)
    assert deleted(cluster) == [name, name]
    assert states(capsys)[f"started pod {name}"] == "Warning"


# ---- the platform's defaults


def with_defaults(cluster: FakeKubectl, text: str) -> None:
    own = deployment(BENCHRUN_CLIENT_IMAGE="client:1", BENCHRUN_RUN_DEFAULTS=text)
    path = deployments("benchrun-system")[0].path
    first(cluster, path, out=json.dumps(items(own)))


def test_pods_are_tried_with_the_platforms_defaults(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    defaults = {
        "server": {"nodeSelector": {"pool": "h200"}},
        "copyLabels": ["cost-center"],
        "modelCacheClaim": "models",
        "userFromNamespace": True,
    }
    with_defaults(cluster, json.dumps(defaults))
    path = written(
        tmp_path, metadata={"name": "chat", "labels": {"cost-center": "17"}}
    )
    main(["doctor", "-f", path, "-n", "lab", "-o", "json"])
    pods = [json.loads(given) for given in cluster.given(raw(DRY_POD))]
    assert {pod["metadata"]["labels"]["cost-center"] for pod in pods} == {"17"}
    assert [pod["spec"].get("nodeSelector") for pod in pods].count(
        {"pool": "h200"}
    ) == 1
    assert not any("runAsUser" in pod["spec"]["securityContext"] for pod in pods)
    found = states(capsys)
    assert found["persistentvolumeclaim PersistentVolumeClaim models"] == "Problem"
    assert not any(name.startswith("defaults ") for name in found)


def test_defaults_that_this_command_cannot_read_are_not_checked(
    cluster: FakeKubectl, tmp_path: Path, capsys: Capture
) -> None:
    with_defaults(cluster, '{"ofTheFuture": true}')
    main(["doctor", "-f", written(tmp_path), "-n", "lab", "-o", "json"])
    assert states(capsys)["defaults defaults of all runs"] == "NotChecked"


# ---- queries


def test_an_answer_that_is_none_is_not_known(kubectl: FakeKubectl) -> None:
    kubectl.answer("get", out="<html>")
    assert Asker("lab", None).one(SERVER).trouble == "Failed"


def test_an_answer_that_is_too_large_is_not_known(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_queries, "MAX_ANSWER_BYTES", 1000)
    kubectl.gives("get", body={"a": "x" * 100_000})
    answer = Asker("lab", None).one(SERVER)
    assert (answer.trouble, answer.body) == ("Failed", None)
    assert "larger than" in answer.words


def test_an_answer_that_does_not_come_is_not_known(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_queries, "KUBECTL_SECONDS", 0.5)
    kubectl.answer("get", stays=True)
    began = time.monotonic()
    assert Asker("lab", None).one(SERVER).trouble == "Failed"
    assert time.monotonic() - began < 10


def test_without_kubectl_there_is_one_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(KubectlError, match="kubectl was not found"):
        Asker("lab", None).one(SERVER)


@pytest.mark.parametrize(
    ("pages", "is_whole", "items"),
    [(3, True, 3), (MOST_PAGES + 1, False, MOST_PAGES)],
)
def test_a_list_is_read_page_by_page_up_to_a_bound(
    pages: int, is_whole: bool, items: int, kubectl: FakeKubectl
) -> None:
    for page in range(pages):
        more = {"continue": "a/b"} if page < pages - 1 else {}
        body = {"metadata": more, "items": [{"number": page}]}
        kubectl.gives("get", body=body, once=True)
    answer = Asker("lab", None).one(NODES)
    assert [each["number"] for each in answer.items] == [*range(items)]
    assert answer.is_whole == is_whole
    assert raw(f"{NODES.path}&continue=a%2Fb") in kubectl.commands()[1]


def test_remarks_of_the_server_hide_no_refusal(kubectl: FakeKubectl) -> None:
    kubectl.fails("create", error=f"Warning: would violate PodSecurity\n{LIMIT}")
    answer = Asker("lab", None).one(ApiQuery(DRY_POD, "{}"))
    assert answer.trouble == "Forbidden"
    assert answer.words.startswith('pods "x" is forbidden: maximum cpu')


def test_a_webhooks_words_are_not_taken_for_the_clusters(
    kubectl: FakeKubectl,
) -> None:
    error = 'Error from server: admission webhook "a.b" denied the request: Unauthorized'
    kubectl.fails("create", error=error.replace("server:", "server (Forbidden):"))
    assert Asker("lab", None).one(ApiQuery(DRY_POD, "{}")).trouble == "Forbidden"
