"""Pods that LeaderWorkerSet made: whose they are, and which of them answers."""

import pytest
from benchrun.names import group_name
from benchrun.observe import child_of, pod_of
from unit.runtime.bodies import UID, Json, child_body, pod_body

GROUP = group_name("chat", UID)
RANK = "leaderworkerset.sigs.k8s.io/worker-index"


def pod(**labels: str) -> Json:
    body = pod_body("br-chat-abcde-0-1")
    body["metadata"]["ownerReferences"][0] |= {"kind": "StatefulSet", "name": GROUP}
    body["metadata"]["labels"] |= labels
    return body


@pytest.mark.parametrize(
    ("name", "run_uid"),
    [
        (GROUP, UID),
        (f"{GROUP}-0", UID),
        (f"{GROUP}0", ""),
        ("br-chat-00000", ""),
        (None, ""),
    ],
)
def test_a_pod_of_a_stateful_set_of_the_runs_group_is_the_runs(
    name: str | None, run_uid: str
) -> None:
    body = pod()
    body["metadata"]["ownerReferences"][0]["name"] = name
    assert pod_of(body).run_uid == run_uid


@pytest.mark.parametrize(
    ("label", "rank"), [("0", 0), ("1", 1), ("15", 15), ("", 0), ("first", 0)]
)
def test_a_pod_has_the_rank_that_it_is_labelled_with(label: str, rank: int) -> None:
    assert pod_of(pod(**{RANK: label})).rank == rank


def test_a_pod_of_a_deployment_answers() -> None:
    assert pod_of(pod_body()).rank == 0


def test_groups_are_the_runs_by_their_owner() -> None:
    assert child_of("LeaderWorkerSet", child_body("br-chat-abcde")).owner_uid == UID
