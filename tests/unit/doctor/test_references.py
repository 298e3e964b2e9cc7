"""Claims, Secrets, ConfigMaps, accounts and classes that a run names."""

from typing import Any

import pytest
from benchrun.doctor.asking import ApiAnswer, ApiQuery, CheckLine
from benchrun.doctor.references import STORAGE, brought, reference_check
from unit.doctor.worlds import a_server, a_target, listed, of, read
from unit.plan.specs import Json, workload

CLAIM = "/api/v1/namespaces/lab/persistentvolumeclaims/weights"
SECRET = "/api/v1/namespaces/lab/secrets/hf"
FILES = "/api/v1/namespaces/lab/configmaps/files"
FROM_CLAIM = {"name": "m", "source": {"pvc": {"claimName": "weights"}}}
FROM_HUB = {
    "name": "m",
    "source": {"hub": {"tokenSecretRef": {"name": "hf", "key": "token"}}},
}


def found_of(
    answers: dict[str, ApiAnswer], storage: ApiAnswer | None = None, **changes: Any
) -> list[CheckLine]:
    given = {ApiQuery(path): answer for path, answer in answers.items()}
    if storage is not None:
        given[STORAGE] = storage
    return read(reference_check(a_target(**changes)), given)


def claim(
    *modes: str, phase: str = "Bound", storage_class: str = "", **metadata: str
) -> ApiAnswer:
    return ApiAnswer(
        {
            "metadata": {"name": "weights", **metadata},
            "spec": {"accessModes": list(modes), "storageClassName": storage_class},
            "status": {"phase": phase},
        }
    )


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (claim("ReadWriteMany"), "Ok"),
        (claim("ReadOnlyMany"), "Ok"),
        (claim("ReadWriteOnce"), "Warning"),
        (claim("ReadWriteOncePod"), "Problem"),
        (claim("ReadWriteMany", phase="Lost"), "Problem"),
        (
            claim("ReadWriteMany", deletionTimestamp="2026-01-01T00:00:00Z"),
            "Problem",
        ),
        (ApiAnswer(trouble="NotFound"), "Problem"),
        (ApiAnswer(trouble="Forbidden"), "NotChecked"),
        (ApiAnswer(trouble="Failed", words="no answer"), "NotChecked"),
    ],
)
def test_a_claim_that_client_and_server_read(answer: ApiAnswer, state: str) -> None:
    found = of(found_of({CLAIM: answer}, model=FROM_CLAIM), "persistentvolumeclaim")
    assert found.state == state
    assert bool(found.remedy) == (state != "Ok")


@pytest.mark.parametrize(
    ("storage", "state"),
    [
        pytest.param(listed(), "Problem", id="class missing"),
        pytest.param(ApiAnswer(trouble="Forbidden"), "Warning", id="class unknown"),
        pytest.param(
            listed(
                {
                    "metadata": {"name": "fast"},
                    "volumeBindingMode": "WaitForFirstConsumer",
                }
            ),
            "Warning",
            id="bound with the first pod",
        ),
    ],
)
def test_a_claim_that_is_not_bound(storage: ApiAnswer, state: str) -> None:
    pending = claim("ReadWriteMany", phase="Pending", storage_class="fast")
    lines = found_of({CLAIM: pending}, storage, model=FROM_CLAIM)
    assert of(lines, "persistentvolumeclaim").state == state


@pytest.mark.parametrize(
    ("mode", "state"),
    [
        ("ReadWriteMany", "Ok"),
        ("ReadWriteOnce", "Warning"),
        ("ReadWriteOncePod", "Problem"),
    ],
)
def test_leader_and_worker_of_one_server_both_need_its_claim(
    mode: str, state: str
) -> None:
    server = a_server(nodesPerReplica=2, compileCacheClaim="weights")
    found = of(
        found_of({CLAIM: claim(mode)}, server=server), "persistentvolumeclaim"
    )
    assert found.state == state


def test_a_claim_that_is_written_must_not_be_read_only() -> None:
    volume = {"name": "out", "persistentVolumeClaim": {"claimName": "weights"}}
    server = a_server(pod={"volumes": [volume]})
    lines = found_of({CLAIM: claim("ReadOnlyMany")}, server=server)
    assert of(lines, "persistentvolumeclaim").state == "Problem"


@pytest.mark.parametrize(
    ("data", "state"),
    [({"token": ""}, "Ok"), ({"other": ""}, "Problem"), ({}, "Problem")],
)
def test_a_secret_must_have_its_key(data: Json, state: str) -> None:
    answer = ApiAnswer({"kind": "Secret", "data": data})
    found = of(found_of({SECRET: answer}, model=FROM_HUB), "secret")
    assert found.state == state
    if state == "Problem":
        assert "token" in found.sentence


def test_an_optional_volume_that_is_missing_is_no_problem() -> None:
    source = {"secretName": "hf", "optional": True}
    server = a_server(pod={"volumes": [{"name": "v", "secret": source}]})
    assert of(found_of({}, server=server), "secret").state == "Warning"
    needed = found_of({}, server=server, model=FROM_HUB)
    assert of(needed, "secret").state == "Problem"
    source["items"] = [{"key": "t", "path": "t"}]
    empty = {SECRET: ApiAnswer({"kind": "Secret", "data": {}})}
    assert of(found_of(empty, server=server), "secret").state == "Ok"


def test_the_chat_templates_optional_volume_is_needed() -> None:
    template = {"configMap": {"name": "files", "key": "a.jinja"}}
    assert of(found_of({}, chatTemplate=template), "configmap").state == "Problem"
    has = {FILES: ApiAnswer({"data": {"b": ""}})}
    assert of(found_of(has, chatTemplate=template), "configmap").state == "Problem"


def test_a_file_in_a_config_map_must_be_there() -> None:
    file = {"configMap": {"name": "files", "key": "a.json"}}
    given = [workload(dataset={"shareGPT": {"file": file}})]
    has = ApiAnswer({"data": {"b.json": "[]"}})
    found = of(found_of({FILES: has}, workloads=given), "configmap")
    assert (found.state, "a.json" in found.sentence) == ("Problem", True)
    has = ApiAnswer({"binaryData": {"a.json": "W10="}})
    assert of(found_of({FILES: has}, workloads=given), "configmap").state == "Ok"


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("serviceAccountName", "none", "serviceaccount"),
        ("priorityClassName", "none", "priorityclass"),
        ("runtimeClassName", "none", "runtimeclass"),
        ("imagePullSecrets", ["none"], "secret"),
    ],
)
def test_what_a_pod_names_must_be_there(field: str, value: Any, name: str) -> None:
    lines = found_of({}, server=a_server(pod={field: value}))
    found = of(lines, name)
    assert (found.state, bool(found.remedy)) == ("Problem", True)


def test_a_right_that_is_missing_is_named_with_its_place() -> None:
    lines = found_of({SECRET: ApiAnswer(trouble="Forbidden")}, model=FROM_HUB)
    assert "get secrets in namespace lab" in of(lines, "secret").remedy


def test_what_the_operator_makes_itself_is_not_looked_for() -> None:
    inline = {"inline": "{{ messages }}"}
    check = reference_check(a_target(chatTemplate=inline))
    assert check.queries == ()


def test_what_the_file_brings_is_there() -> None:
    files = {
        "kind": "ConfigMap",
        "metadata": {"name": "files"},
        "data": {"a.json": ""},
    }
    secret = {
        "kind": "Secret",
        "metadata": {"name": "hf"},
        "stringData": {"token": "t"},
    }
    answers = brought([files, secret, {"kind": "Service"}, {}], "lab")
    assert [query.path for query in answers] == [FILES, SECRET]
    file = {"configMap": {"name": "files", "key": "a.json"}}
    given = [workload(dataset={"shareGPT": {"file": file}})]
    lines = read(
        reference_check(a_target(workloads=given, model=FROM_HUB)), answers
    )
    assert {line.state for line in lines} == {"Ok"}


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (ApiAnswer({"kind": "Service"}), "Ok"),
        (ApiAnswer(trouble="NotFound"), "Problem"),
    ],
)
def test_the_service_of_an_endpoint_must_be_there(
    answer: ApiAnswer, state: str
) -> None:
    path = "/api/v1/namespaces/lab/services/llm"
    endpoint = {"serviceRef": {"name": "llm"}}
    lines = found_of({path: answer}, server=None, endpoint=endpoint)
    assert of(lines, "service").state == state
