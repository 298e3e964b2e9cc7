"""A queued run is evicted while the operator ends after any of its actions, and begins anew."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import SERVER_KINDS, WORKLOAD
from benchrun.decide import Collected, Decision
from benchrun.observe import Child, Quota, child_of
from unit.decide.queues import GRANTED, KNOWN, PREEMPTED, WAITING, admitted, told
from unit.decide.scenes import Scene

MOST_PASSES = 60


@dataclass
class World:
    """The cluster of one run, and an operator that may end after each of its actions."""

    scene: Scene
    log: list[tuple[str, str]] = field(default_factory=list)

    def carry_out(self, *, ends_after: int | None) -> bool:
        """Decide once and do it all, or only so much; return whether anything was left to do."""
        decision = self.scene.decide()
        actions = [
            *(("delete", ref.kind, ref.name) for ref in decision.delete),
            *(("apply", m["kind"], m) for m in decision.apply),
            *([("status", "", decision)] if self._is_news(decision) else []),
        ]
        for number, (verb, kind, about) in enumerate(actions):
            if number == ends_after:
                self.scene = self.scene.operator_restarted().with_answers(KNOWN)
                return True
            self.log.append((verb, kind))
            self._do(verb, kind, about)
        if decision.forget:
            self.scene = self.scene.operator_restarted().with_answers(KNOWN)
        return bool(actions)

    def _is_news(self, decision: Decision) -> bool:
        return bool(_json(decision) != self.scene.status)

    def _do(self, verb: str, kind: str, about: Any) -> None:
        scene = self.scene
        if verb == "status":
            self.scene = replace(scene, status=_json(about))
        elif verb == "apply":
            body = about | {"metadata": about["metadata"] | {"uid": "new"}}
            made = child_of(kind, body)
            self.scene = replace(scene, objects=(*scene.objects, made))
        else:
            objects = tuple(
                c for c in scene.objects if (c.kind, c.name) != (kind, about)
            )
            self.scene = replace(scene, objects=objects)
            role = {**dict.fromkeys(SERVER_KINDS, "server"), "Job": "client"}.get(
                kind
            )
            pods = tuple(p for p in self.scene.pods if p.role != role)
            self.scene = replace(self.scene, pods=pods)

    def workloads(self) -> list[Child]:
        return [c for c in self.scene.objects if c.kind == WORKLOAD]


def _json(decision: Decision) -> Any:
    status = decision.status.model_dump_json(by_alias=True, exclude_none=True)
    return json.loads(status)


def evicted() -> World:
    scene = replace(admitted().measuring(), labels=WAITING.labels).stored(0)
    return World(told(scene, PREEMPTED).with_answers(KNOWN))


@pytest.mark.parametrize("ends_after", [None, 0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("at_pass", [0, 1, 2, 3])
def test_an_evicted_run_waits_again_wherever_the_operator_ends(
    ends_after: int | None, at_pass: int
) -> None:
    world = evicted()
    for number in range(MOST_PASSES):
        cut = ends_after if number == at_pass else None
        if not world.carry_out(ends_after=cut) and number > at_pass:
            break
    else:
        pytest.fail("it never comes to rest")
    queue = world.scene.status["queue"]
    assert (queue["attempt"], queue["evictions"]) == (2, 1)
    assert "startTime" not in world.scene.status
    (only,) = world.workloads()
    assert only.name.endswith("-queue-2")
    kinds = {child.kind for child in world.scene.objects}
    assert kinds == {WORKLOAD, "Service"}
    deleted = [kind for verb, kind in world.log if verb == "delete"]
    assert deleted.index("Deployment") == 0
    assert deleted[-1] == WORKLOAD


def test_after_an_eviction_the_run_is_made_once_more_as_it_was_at_first() -> None:
    world = evicted()
    while world.carry_out(ends_after=None):
        pass
    held = replace(
        world.workloads()[0],
        quota=GRANTED,
        owner_uid=world.workloads()[0].owner_uid,
    )
    world.scene = replace(world.scene, objects=(held,))
    while world.carry_out(ends_after=None) and "Job" not in {
        kind for _, kind in world.log[-6:]
    }:
        pass
    assert {"Job", "ConfigMap"} <= {c.kind for c in world.scene.objects}
    assert world.scene.status["queue"]["admittedTime"]


@pytest.mark.parametrize("late", [Quota(), GRANTED, PREEMPTED])
def test_late_news_of_the_first_workload_change_nothing(late: Quota) -> None:
    world = evicted()
    while world.carry_out(ends_after=None):
        pass
    first = names.queued_name("chat", "x", 1)
    assert all(c.name != first for c in world.scene.objects)
    before = world.scene.decide().status
    old = told(world.scene, late).objects[-1]
    again = replace(
        world.scene, objects=(*world.scene.objects, old), collected=Collected()
    )
    after = again.decide()
    assert after.status.queue == before.queue
    assert [m["kind"] for m in after.apply] == []
