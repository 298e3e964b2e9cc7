"""How long a server may be held stands on what makes its pods, for whoever releases it without an operator."""

import pytest
from benchrun import names
from benchrun.plan import Manifest, server_roles, workload
from unit.plan.specs import OWNER, Json, spec

DAY = 86_400
SPLIT: Json = {
    "image": "v",
    "disaggregated": {
        "prefill": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "decode": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "kvTransfer": {"connector": "NixlConnector"},
    },
}


def workloads(bound: int = DAY, **changes: Json | int) -> list[Manifest]:
    started = server_roles(OWNER, spec(**changes), client_image="c", pull_policy="Always", max_hold_seconds=bound)
    return [workload(OWNER, role) for role in started]


def held(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][names.ANNOTATION_HOLD])


@pytest.mark.parametrize(
    ("startup", "run", "bound", "expected"),
    [
        pytest.param(1800, 3600, DAY, 5460, id="both deadlines and a margin"),
        pytest.param(0, 3600, DAY, DAY, id="no limit to starting"),
        pytest.param(1800, 0, DAY, DAY, id="no limit to measuring"),
        pytest.param(1800, 3600, 5460, 5460, id="as long as the bound"),
        pytest.param(1800, 3600, 5459, 5459, id="longer than the bound"),
        pytest.param(604_800, 604_800, DAY, DAY, id="the greatest that can be written"),
    ],
)
def test_seconds(startup: int, run: int, bound: int, expected: int) -> None:
    [server] = workloads(bound, startupDeadlineSeconds=startup, runDeadlineSeconds=run)
    assert (server["kind"], held(server)) == ("Deployment", str(expected))


def test_without_a_deadline_a_server_is_held_for_a_day() -> None:
    [role] = server_roles(OWNER, spec(runDeadlineSeconds=0), client_image="c", pull_policy="Always")
    assert role.hold_seconds == DAY


def test_servers_over_several_nodes_carry_it_too() -> None:
    server = {"image": "v", "nodesPerReplica": 2}
    [group] = workloads(server=server, startupDeadlineSeconds=1, runDeadlineSeconds=2)
    assert (group["kind"], held(group)) == ("LeaderWorkerSet", "63")


def test_every_role_of_disaggregated_servers_carries_it() -> None:
    found = workloads(server=SPLIT, startupDeadlineSeconds=1, runDeadlineSeconds=2)
    assert [held(each) for each in found] == ["63"] * 3
