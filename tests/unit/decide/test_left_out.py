"""A run that memory has no room for: it waits and says so; what goes on goes on; what has ended
needs no spec."""

from dataclasses import replace

import pytest
from benchrun import names
from benchrun.api import Blocked, Reason
from benchrun.decide import Decision, decide
from unit.decide.scenes import JOB, Scene
from unit.decide.summaries import applied, deleted


def pass_over(scene: Scene, *, left_out: bool = True) -> Decision:
    facts = scene.facts()
    return decide(replace(facts, run=replace(facts.run, left_out=left_out)))


@pytest.mark.parametrize(
    ("phase", "changes"), [("Pending", {}), ("Suspended", {"suspend": True})]
)
def test_a_run_that_was_not_begun_waits_and_says_so(
    phase: str, changes: dict[str, bool]
) -> None:
    decision = pass_over(Scene().with_spec(**changes))
    status = decision.status
    assert (status.phase, status.accepted_time, applied(decision)) == (
        phase,
        None,
        [],
    )
    assert Reason.NO_ROOM in {condition.reason for condition in status.conditions}
    assert [event.reason for event in decision.events] == [Reason.NO_ROOM]
    assert "delete runs" in (status.message or "")


def test_it_says_so_once() -> None:
    scene = Scene()
    told = pass_over(scene)
    again = pass_over(scene.with_status(told.status).at(100))
    assert (again.status, again.events) == (told.status, ())


def test_nothing_that_it_waited_for_is_counted_on() -> None:
    refused = Blocked(by="Refusal", since="2026-01-01T00:00:00Z")
    scene = Scene()
    status = scene.decide().status.model_copy(update={"blocked": refused})
    assert pass_over(scene.with_status(status)).status.blocked is None


def test_with_room_it_starts_and_its_clock_starts_then() -> None:
    waiting = Scene().with_status(pass_over(Scene()).status).at(1000)
    started = pass_over(waiting, left_out=False)
    assert started.status.accepted_time is not None
    assert ("Job", names.ROLE_CLIENT) in {
        (each["kind"], each["metadata"]["labels"][names.LABEL_ROLE])
        for each in started.apply
    }


def test_a_spec_that_cannot_be_acted_on_is_refused_all_the_same() -> None:
    assert pass_over(Scene().with_spec(repeats=0)).status.phase == "Failed"


def test_a_cancelled_run_ends() -> None:
    assert pass_over(Scene().with_spec(cancel=True)).status.phase == "Cancelled"


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene().settled().having(JOB), id="client"),
        pytest.param(Scene().measuring(), id="server"),
        pytest.param(Scene().measuring().arrived(0, 1), id="all measured"),
    ],
)
def test_what_goes_on_goes_on(scene: Scene) -> None:
    assert pass_over(scene) == pass_over(scene, left_out=False)


def test_a_run_that_has_ended_lets_go_and_expires_by_what_is_kept_of_its_spec() -> (
    None
):
    ended = (
        Scene()
        .with_spec(ttlSecondsAfterFinished=60)
        .measuring()
        .arrived(0, 1)
        .answered()
    )
    ended = ended.settled()
    kept = replace(ended, spec={"ttlSecondsAfterFinished": 60})
    for seconds in (ended.seconds, ended.seconds + 59, ended.seconds + 61):
        assert kept.at(seconds).decide() == ended.at(seconds).decide()
    assert kept.at(ended.seconds + 61).decide().delete_run
    assert deleted(kept.decide()) == deleted(ended.decide())
