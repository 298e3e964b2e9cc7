"""A sweep over which no pass succeeds ends as a run does: after five failures or a minute, with the
reason InternalError; its runs are cancelled."""

from typing import Any

import pytest
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Ref
from benchrun.decide.sweep.sweep_state import SweepDecision, SweepFacts
from benchrun.effects import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    Throttled,
    Unavailable,
)
from benchrun.names import KIND
from benchrun.observe import Declared
from benchrun.runtime.queue import Later
from benchrun.runtime.reconciler import LONGEST_SECONDS, MOST_FAILURES
from unit.runtime.fast_time import in_fast_time, passing
from unit.runtime.test_sweep_reconciler import FIRST, SECOND, SWEEP, Scene
from unit.sweep.sweeps import NAME, NAMESPACE

Json = dict[str, Any]


def broken(facts: SweepFacts) -> SweepDecision:
    raise OverflowError("intermediate overflow in fsum")


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Its decision raises."""
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    return monkeypatch


async def fails(scene: Scene, times: int = 1) -> None:
    """So many passes, none of which succeeds or ends it."""
    for _ in range(times):
        with pytest.raises((OverflowError, Later)):
            await scene.once()


def conditions(scene: Scene) -> dict[str, tuple[str, str]]:
    listed = scene.status["conditions"]
    return {each["type"]: (each["status"], each["reason"]) for each in listed}


def let_go(scene: Scene) -> float | None:
    registry = scene.reconcile.telemetry.registry
    return registry.get_sample_value("benchrun_sweeps_let_go_total")


def cancelled(scene: Scene) -> list[str]:
    runs = [
        body for (kind, _, _), body in scene.cluster.objects.items() if kind == KIND
    ]
    return [run["metadata"]["name"] for run in runs if run["spec"].get("cancel")]


@in_fast_time
async def test_the_fifth_failure_in_a_row_ends_it_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(maxParallel=2)
    await scene.until_settled()
    scene.restart()
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    await fails(scene, MOST_FAILURES - 1)
    assert cancelled(scene) == []
    assert await scene.once() is None
    assert cancelled(scene) == [FIRST, SECOND]
    assert (scene.status["phase"], scene.status["observedGeneration"]) == (
        "Failed",
        1,
    )
    assert (
        conditions(scene)["Failed"]
        == conditions(scene)["Stalled"]
        == ("True", "InternalError")
    )
    assert conditions(scene)["Complete"] == ("False", "InternalError")
    assert "completionTime" in scene.status
    assert (
        "OverflowError" in scene.status["message"],
        "fsum" in scene.status["message"],
    ) == (
        True,
        False,
    )
    assert (let_go(scene), len(scene.reconcile.memories)) == (1, 0)


@in_fast_time
async def test_a_minute_of_failures_is_enough(spoilt: pytest.MonkeyPatch) -> None:
    scene = Scene()
    await fails(scene)
    await passing(LONGEST_SECONDS)
    assert await scene.once() is None
    assert conditions(scene)["Failed"] == ("True", "InternalError")


class Strict(Scene):
    """A cluster whose schema lacks a field of the status."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(**spec)
        patch = self.cluster.patch_status

        async def patched(
            declared: Declared, *, resource_version: str, changes: Json
        ) -> Json:
            if "lost" in (changes.get("runs") or {}):
                raise Invalid("status.runs.lost: unknown field", code=422)
            return await patch(
                declared, resource_version=resource_version, changes=changes
            )

        self.cluster.patch_status = patched  # type: ignore[method-assign]


@in_fast_time
async def test_a_status_that_is_refused_for_ever_ends_it_with_a_reason() -> None:
    """The least one says nothing that could be refused."""
    scene = Strict()
    await fails(scene, MOST_FAILURES - 1)
    assert await scene.once() is None
    assert conditions(scene)["Failed"] == ("True", "InternalError")
    assert cancelled(scene) == [FIRST]
    assert await scene.once() is None
    assert list(scene.run_names()) == [FIRST]


@in_fast_time
async def test_a_run_that_can_never_be_cancelled_does_not_keep_it_from_its_end() -> (
    None
):
    scene = Scene(maxParallel=2)
    await scene.until_settled()
    cancel = scene.cluster.cancel_run

    async def refused(ref: Ref) -> Json | None:
        if ref.name == FIRST:
            raise Invalid("spec: another rule is broken", code=422)
        return await cancel(ref)

    scene.cluster.cancel_run = refused  # type: ignore[method-assign]
    sweep = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(SWEEP_KIND, sweep, {"spec": {"cancel": True}})
    await fails(scene, MOST_FAILURES - 1)
    assert await scene.once() is None
    assert conditions(scene)["Failed"] == ("True", "InternalError")
    assert cancelled(scene) == [SECOND]


@in_fast_time
async def test_it_is_not_over_before_its_runs_are_cancelled(
    spoilt: pytest.MonkeyPatch,
) -> None:
    spoilt.undo()
    scene = Scene()
    await scene.until_settled()
    scene.restart()
    spoilt.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    scene.cluster.broken["cancel"] = Unavailable("down", code=503)
    await fails(scene, MOST_FAILURES)
    assert scene.status["phase"] == "Running"
    scene.cluster.broken.clear()
    assert await scene.once() is None
    assert (scene.status["phase"], cancelled(scene)) == ("Failed", [FIRST])


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("down", code=503),
        Throttled("slow down", retry_after_seconds=1),
        Conflict("moved on", code=409),
        Forbidden("no rights", code=403),
    ],
)
@in_fast_time
async def test_what_the_api_server_does_not_do_now_is_no_poison(
    error: ClusterError,
) -> None:
    scene = Scene()
    scene.cluster.broken["status"] = error
    for _ in range(2 * MOST_FAILURES):
        await fails(scene)
        await passing(LONGEST_SECONDS)
    scene.cluster.broken.clear()
    await scene.until_settled()
    assert (scene.status["phase"], let_go(scene)) == ("Running", 0)


@in_fast_time
async def test_a_pass_that_succeeds_begins_the_count_anew(
    spoilt: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    await fails(scene, MOST_FAILURES - 1)
    spoilt.undo()
    await scene.until_settled()
    spoilt.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    scene.reconcile.memories.of(SWEEP, "sweep-uid-1").settled = None
    await fails(scene, MOST_FAILURES - 1)
    assert let_go(scene) == 0


@in_fast_time
async def test_one_that_has_ended_keeps_its_status(
    spoilt: pytest.MonkeyPatch,
) -> None:
    spoilt.undo()
    scene = Scene()
    for name in (FIRST, SECOND):
        await scene.until_settled()
        scene.end(name)
    await scene.until_settled()
    before = dict(scene.status)
    spoilt.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    await fails(scene, MOST_FAILURES - 1)
    assert await scene.once() is None
    assert (scene.status, before["phase"]) == (before, "Completed")


@in_fast_time
async def test_a_namesake_begins_with_no_failures(
    spoilt: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    await fails(scene, MOST_FAILURES - 1)
    body = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(SWEEP_KIND, body, {"metadata": {"uid": "later"}})
    await fails(scene, MOST_FAILURES - 1)
    assert (scene.status, let_go(scene)) == ({}, 0)


@in_fast_time
async def test_runs_of_a_spoilt_sweep_that_is_deleted_are_cancelled(
    spoilt: pytest.MonkeyPatch,
) -> None:
    """Somebody's finalizer keeps it, and its runs with it."""
    spoilt.undo()
    scene = Scene()
    await scene.until_settled()
    spoilt.setattr("benchrun.runtime.sweep_reconciler.decide", broken)
    body = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    meta = {"deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": ["a/b"]}
    scene.cluster.change(SWEEP_KIND, body, {"metadata": meta})
    assert await scene.once() is None
    assert cancelled(scene) == [FIRST]
