"""An operator takes over that would make another plan, in any phase: what the client was given is
read from what was made for it, so that the run ends as it would have ended."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from benchrun import names, plan
from benchrun.decide import Decision
from benchrun.observe import child_of
from benchrun_client.contract import Plan, digest_of_token
from unit.decide.convergence.test_convergence import (
    FOUR_STAGES,
    fair_round,
    fresh,
    run_to_the_end,
)
from unit.decide.scenes import CONTEXT, JOB, PLAN, SERVICE_ENDPOINT, Scene
from unit.decide.simulated_cluster import SimulatedCluster
from unit.decide.simulated_operator import SimulatedOperator
from unit.decide.summaries import applied, deleted, standing
from unit.plan.specs import OWNER

ROUNDS = range(0, 44, 2)
"""From the first pass to after the end."""
SOME_ROUNDS = sorted(Random(20).sample(ROUNDS, 8))
"""A sample; `tests/long` has them all."""
CUTS = range(4)  # actions of the pass that creates plan, Job and Service


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Not in force before a test says so."""
    with monkeypatch.context() as later:
        yield later


def takes_over(release: pytest.MonkeyPatch) -> None:
    """From now on another plan is made of the same spec."""
    made = plan.plan_of_client

    def another(*arguments: Any, **options: Any) -> Plan:
        given = made(*arguments, **options)
        return given.model_copy(
            update={"health_deadline_seconds": given.health_deadline_seconds + 1}
        )

    release.setattr(plan, "plan_of_client", another)


def mounted(cluster: SimulatedCluster) -> str | None:
    """Digest of the plan that the client reads."""
    found = cluster.manifests.get(
        ("ConfigMap", names.plan_name(OWNER.name, OWNER.uid))
    )
    return (
        None
        if found is None
        else Plan.model_validate_json(found["data"]["plan.json"]).digest()
    )


def goes_on(cluster: SimulatedCluster, operator: SimulatedOperator) -> None:
    """A round, in which only records of the plan that is mounted are taken."""
    fair_round(cluster, operator)
    pull = None if operator.decision is None else operator.decision.pull
    assert pull is None or pull.plan_digest == mounted(cluster)


def ends_well(cluster: SimulatedCluster, operator: SimulatedOperator) -> None:
    for _ in range(60):
        goes_on(cluster, operator)
    outcome = run_to_the_end(cluster, operator)
    assert (outcome.phase, outcome.clients, len(outcome.digests)) == (
        "Completed",
        1,
        4,
    )
    assert sorted(cluster.created)[:3] == [
        "ConfigMap plan",
        "ConfigMap result",
        "ConfigMap stage",
    ]
    records = [child for child in cluster.objects.values() if child.role == "stage"]
    assert {
        record.envelope.plan_digest for record in records if record.envelope
    } == {mounted(cluster)}


def ends_well_after(rounds: int, next_release: pytest.MonkeyPatch) -> None:
    cluster, operator = fresh(FOUR_STAGES)
    for _ in range(rounds):
        goes_on(cluster, operator)
    takes_over(next_release)
    operator.start()
    ends_well(cluster, operator)


@pytest.mark.parametrize("rounds", SOME_ROUNDS)
def test_after_any_round(rounds: int, next_release: pytest.MonkeyPatch) -> None:
    ends_well_after(rounds, next_release)


@pytest.mark.parametrize("cut", CUTS)
def test_within_the_pass_that_makes_plan_and_client(
    cut: int, next_release: pytest.MonkeyPatch
) -> None:
    cluster, operator = fresh(FOUR_STAGES)
    operator.work(cut_after=cut)
    takes_over(next_release)
    operator.start()
    ends_well(cluster, operator)


@pytest.mark.parametrize("rounds", [1, 4, 8])
def test_while_the_run_is_suspended(
    rounds: int, next_release: pytest.MonkeyPatch
) -> None:
    cluster, operator = fresh(FOUR_STAGES)
    for _ in range(rounds):
        goes_on(cluster, operator)
    operator.spec = {**FOUR_STAGES, "suspend": True}
    for _ in range(4):
        goes_on(cluster, operator)
    assert "Job" not in cluster.kinds()
    takes_over(next_release)
    operator.start()
    operator.spec = FOUR_STAGES
    for _ in range(60):
        goes_on(cluster, operator)
    assert run_to_the_end(cluster, operator).phase == "Completed"


# ---- the pieces
# -------------------------------------------------------------------------------------------------


def job_of(decision: Decision) -> dict[str, Any] | None:
    return next((made for made in decision.apply if made["kind"] == "Job"), None)


def noted(decision: Decision) -> str | None:
    """The digest of the plan on the Job that is made."""
    job = job_of(decision)
    assert job is not None
    found: str | None = job["metadata"]["annotations"].get(
        names.ANNOTATION_PLAN_DIGEST
    )
    return found


def stored(scene: Scene) -> Scene:
    """The plan is there as it is decided on, and nothing else."""
    (made,) = (
        one
        for one in scene.decide().apply
        if one["metadata"]["name"].endswith("-plan")
    )
    return replace(scene, objects=(child_of("ConfigMap", made),))


ENDPOINT = Scene(spec=SERVICE_ENDPOINT).endpoint_found("10.0.0.1:8000")


@pytest.mark.parametrize("scene", [pytest.param(ENDPOINT, id="endpoint"), Scene()])
def test_a_client_is_made_for_the_plan_that_stands(
    scene: Scene, next_release: pytest.MonkeyPatch
) -> None:
    """An endpoint's pods are not known yet after a restart, or are others."""
    expected = noted(scene.decide())
    left = stored(scene).operator_restarted()
    takes_over(next_release)
    assert noted(left.decide()) == expected
    assert noted(left.endpoint_found("10.0.0.2:8000").decide()) == expected


def test_of_a_plan_that_does_not_say_its_digest_the_client_says_none() -> None:
    """One that an earlier release has made."""
    assert noted(Scene().having(PLAN).decide()) is None


def test_a_plan_that_is_gone_is_made_anew_for_its_client_only_where_it_is_the_same(
    next_release: pytest.MonkeyPatch,
) -> None:
    digest = noted(Scene().decide())
    left = (
        Scene()
        .having(("Service", "server"))
        .having(JOB, plan_digest=digest)
        .pod("client")
    )
    assert applied(left.decide()) == ["ConfigMap plan"]
    takes_over(next_release)
    assert applied(left.decide()) == []


def test_nothing_is_made_for_a_plan_that_is_on_its_way_out() -> None:
    assert applied(Scene().having(PLAN, deleting=True).decide()) == [
        "Service server"
    ]


def test_records_are_checked_by_the_plan_where_the_job_is_gone() -> None:
    scene = Scene().having(PLAN, plan_digest="p" * 64).pod("client")
    pull = scene.decide().pull
    assert pull is not None
    assert pull.plan_digest == "p" * 64


ANOTHER_KEY = replace(CONTEXT, channel_key=b"key of another operator")


def test_a_client_that_takes_another_operators_token_is_not_waited_for() -> None:
    """No server is created for it."""
    scene = (
        stored(Scene()).having(JOB, ("Service", "server")).pod("client", ready=True)
    )
    scene = replace(scene.reports(phase="Waiting"), context=ANOTHER_KEY)
    decision = scene.ended()
    assert standing(decision.status, "Failed") == {
        "Failed": "True (ContractMismatch)"
    }
    assert (applied(decision), deleted(decision)) == ([], ["Job"])


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            replace(Scene().client_ready(), context=ANOTHER_KEY),
            id="it is not noted",
        ),
        pytest.param(
            stored(Scene()).having(JOB, ("Service", "server")).pod("client"),
            id="the same key",
        ),
    ],
)
def test_any_other_is(scene: Scene) -> None:
    assert scene.decide().ending is None


def test_the_token_on_the_plan_is_the_one_that_the_client_is_shown() -> None:
    scene = stored(Scene()).having(JOB).pod("client")
    pull = scene.decide().pull
    assert pull is not None
    assert scene.objects[0].token_digest == digest_of_token(pull.token)
