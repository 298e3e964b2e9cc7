"""The namespace, its mesh, and who may do what in it."""

import json
from typing import Any

import pytest
from benchrun.doctor.asking import ApiAnswer, ApiQuery
from benchrun.doctor.rights import namespace_check, rights_check
from unit.doctor.worlds import OPERATOR, a_target, of, read

FORBIDDEN = ApiAnswer(trouble="Forbidden")


def namespace(answer: ApiAnswer) -> dict[str, str]:
    check = namespace_check("lab")
    lines = read(check, {check.queries[0]: answer})
    return {line.name: line.state for line in lines}


def there(**metadata: Any) -> ApiAnswer:
    return ApiAnswer({"metadata": {"name": "lab", **metadata}})


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (there(), {"namespace": "Ok"}),
        (ApiAnswer(trouble="NotFound"), {"namespace": "Problem"}),
        (FORBIDDEN, {"namespace": "NotChecked"}),
        (there(deletionTimestamp="2026-01-01T00:00:00Z"), {"namespace": "Problem"}),
        (
            there(labels={"istio-injection": "enabled"}),
            {"namespace": "Ok", "mesh": "Warning"},
        ),
        (there(labels={"istio-injection": "disabled"}), {"namespace": "Ok"}),
        (
            there(annotations={"linkerd.io/inject": "enabled"}),
            {"namespace": "Ok", "mesh": "Warning"},
        ),
    ],
)
def test_a_namespace(answer: ApiAnswer, states: dict[str, str]) -> None:
    assert namespace(answer) == states


def reviewed(
    mine: ApiAnswer, theirs: ApiAnswer, *, may_not: str = ""
) -> dict[str, tuple[str, str]]:
    """Return state and sentence by check; the operator may not create `may_not`."""
    check = rights_check(a_target(), OPERATOR)

    def answer(query: ApiQuery) -> ApiAnswer:
        spec = json.loads(query.body)["spec"]
        if "user" not in spec:
            return mine
        assert spec["user"] == OPERATOR.user
        resource = spec["resourceAttributes"]["resource"]
        return allowed(False) if resource == may_not else theirs

    lines = read(check, {query: answer(query) for query in check.queries})
    return {line.name: (line.state, line.sentence) for line in lines}


def allowed(is_allowed: bool) -> ApiAnswer:
    return ApiAnswer({"status": {"allowed": is_allowed}})


@pytest.mark.parametrize(
    ("answer", "state"),
    [(allowed(True), "Ok"), (allowed(False), "Problem"), (FORBIDDEN, "NotChecked")],
)
def test_rights_of_the_user_and_of_the_operator(
    answer: ApiAnswer, state: str
) -> None:
    found = reviewed(answer, answer)
    assert found["rights"][0] == found["operator-rights"][0] == state


def test_one_right_that_the_operator_lacks_is_named() -> None:
    state, sentence = reviewed(allowed(True), allowed(True), may_not="deployments")[
        "operator-rights"
    ]
    assert (state, "deployments" in sentence) == ("Problem", True)
    assert "jobs" not in sentence


def test_the_operator_is_asked_for_every_kind_of_the_run() -> None:
    found = reviewed(allowed(True), allowed(True))["operator-rights"][1]
    for plural in (
        "configmaps",
        "deployments",
        "jobs",
        "networkpolicies",
        "services",
    ):
        assert plural in found


def test_without_an_operator_only_the_user_is_asked() -> None:
    check = rights_check(a_target(), None)
    lines = read(check, {check.queries[0]: allowed(True)})
    assert of(lines, "rights").state == "Ok"
    assert len(check.queries) == len(lines) == 1
