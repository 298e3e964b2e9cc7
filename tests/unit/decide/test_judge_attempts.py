"""A judge that ends its operator with it: whoever comes after that counts, and gives up."""

from dataclasses import replace

import pytest
from benchrun.api import BenchmarkRunStatus, Reason, find_condition
from benchrun.decide import MAX_JUDGE_ATTEMPTS, Collected, Decision, Judging
from unit.decide.scenes import Scene

MEASURED = Scene().measuring().stored(0, 1)


def judges(decision: Decision) -> bool:
    return any(isinstance(query, Judging) for query in decision.lookups)


def adopted(scene: Scene, *, counted: bool = False) -> Scene:
    """Another operator takes over."""
    return replace(
        scene, collected=Collected(is_adopted=True, is_judging_counted=counted)
    )


def ends(scene: Scene) -> Decision:
    """The decision once no log is waited for any more."""
    return scene.answered().decide()


def with_attempts(scene: Scene, attempts: int) -> Scene:
    status = scene.decide().status.model_copy(update={"judge_attempts": attempts})
    return scene.with_status(status)


def unjudged(scene: Scene) -> Decision:
    """The decision with everything answered but the judgement."""
    answered = scene.answered()
    answers = {
        query: answer
        for query, answer in answered.collected.answers.items()
        if not isinstance(query, Judging)
    }
    answered.collected.answers.clear()
    answered.collected.answers.update(answers)
    return answered.decide()


def test_who_saw_it_begin_judges_without_a_write() -> None:
    decision = unjudged(MEASURED)
    assert judges(decision)
    assert (decision.counts_judging, decision.status.judge_attempts) == (
        False,
        None,
    )


@pytest.mark.parametrize("before", range(MAX_JUDGE_ATTEMPTS))
def test_who_takes_over_counts_before_it_is_judged(before: int) -> None:
    scene = adopted(with_attempts(MEASURED, before))
    decision = unjudged(scene)
    assert not judges(decision)
    assert (decision.counts_judging, decision.status.judge_attempts) == (
        True,
        before + 1,
    )
    counted = adopted(scene.with_status(decision.status), counted=True)
    assert judges(unjudged(counted))
    assert unjudged(counted).status.judge_attempts == before + 1


def test_after_a_few_it_ends_without_a_verdict() -> None:
    decision = unjudged(adopted(with_attempts(MEASURED, MAX_JUDGE_ATTEMPTS)))
    valid = find_condition(decision.status.conditions, "Valid")
    assert valid is not None
    assert (decision.forget, decision.status.phase, valid.reason) == (
        True,
        "Completed",
        Reason.NOT_JUDGED,
    )
    assert decision.status.judge_attempts is None


def test_a_judgement_counts_whoever_made_it() -> None:
    scene = adopted(with_attempts(MEASURED, 1), counted=True)
    status: BenchmarkRunStatus = scene.ended().status
    assert (status.phase, status.judge_attempts) == ("Completed", None)
    assert status.results
