"""Searches in the plan: what the client is asked for, and the load points that came of it."""

import pytest
from benchrun.effects import Pulled
from benchrun.plan import (
    estimate,
    load_points,
    objective_error,
    plan_of_client,
    planned_stages,
    probed_load_points,
    problem_with,
    searched,
)
from benchrun_client.contract import (
    Envelope,
    Limit,
    Probe,
    Sealed,
    StageRecord,
    open_stage_id,
)
from unit.client.plans import TOKEN_DIGEST
from unit.client.search.searches import search
from unit.effects.test_client_records import Says, delivery, linked, sealed
from unit.measure.records import load_at, record
from unit.plan.specs import OWNER, Json, endpoint_body, rates, spec, workload

OBJECTIVES = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]


def searching(**changes: object) -> Json:
    return {"search": {"axis": "RequestRate", "from": "1.0", "to": "64", **changes}}


def probed(
    workload_name: str,
    probe: int,
    value: str,
    *,
    repeat: int = 1,
    sequence: int = 0,
    confirms: bool = False,
) -> StageRecord:
    """A record of a search's stage."""
    stage_id = open_stage_id(workload_name, probe, repeat)
    return record(
        stage_id,
        sequence=sequence,
        load=load_at("RequestRate", value),
        probe=Probe(ends_search=False, confirms=confirms),
    )


def test_the_plan_asks_for_the_search_in_the_clients_words() -> None:
    run_spec = spec(
        workloads=[workload(load=searching(), requests=40)], objectives=OBJECTIVES
    )
    plan = plan_of_client(OWNER, run_spec, token_digest=TOKEN_DIGEST)
    assert plan.stages == ()
    (search_plan,) = plan.searches
    assert (
        search_plan.lowest.axis,
        search_plan.lowest.value,
        search_plan.highest,
        search_plan.tolerance_percent,
    ) == (
        "RequestRate",
        "1",
        "64",
        "5",
    )
    assert (
        search_plan.max_probes,
        search_plan.max_repeats,
        search_plan.requests,
    ) == (12, 6, 40)
    assert search_plan.objectives == (
        Limit(metric="TTFT", percentile="90", max_milliseconds=200),
    )
    assert len(set(search_plan.seeds)) == 12 + 3 * 6


def test_listed_load_points_are_measured_first() -> None:
    run_spec = spec(
        workloads=[
            workload("found", load=searching()),
            workload("listed", load=rates("2", "8")),
        ],
        objectives=OBJECTIVES,
    )
    plan = plan_of_client(OWNER, run_spec, token_digest=TOKEN_DIGEST)
    assert {stage.workload for stage in plan.stages} == {"listed"}
    assert (
        [search.workload for search in plan.searches]
        == ["found"]
        == [*searched(run_spec)]
    )
    assert {load_point.workload for load_point in load_points(run_spec)} == {
        "listed"
    }


def test_seeds_differ_per_run_when_the_cache_outlives_it() -> None:
    body = {
        "workloads": [workload(load=searching(), requests=40)],
        "objectives": OBJECTIVES,
    }
    here = plan_of_client(OWNER, spec(**body), token_digest=TOKEN_DIGEST)
    there = plan_of_client(
        OWNER,
        spec(**endpoint_body({"url": "http://x"}, **body), server=None),
        token_digest=TOKEN_DIGEST,
    )
    assert here.searches[0].seeds != there.searches[0].seeds
    plain = plan_of_client(
        OWNER,
        spec(workloads=[workload("x")], measurement={"cachePolicy": "Isolate"}),
        token_digest=TOKEN_DIGEST,
    )
    assert not set(here.searches[0].seeds) & {stage.seed for stage in plain.stages}


@pytest.mark.parametrize(
    ("axis", "to", "warmup"), [("RequestRate", "64", 72), ("Concurrency", "64", 96)]
)
def test_the_warm_up_is_of_the_highest_concurrency(
    axis: str, to: str, warmup: int
) -> None:
    load = searching(axis=axis, to=to) | {}
    load["search"]["from"] = "1"
    run_spec = spec(
        workloads=[workload(load=load, requests=40)], objectives=OBJECTIVES
    )
    assert (
        plan_of_client(OWNER, run_spec, token_digest=TOKEN_DIGEST)
        .warmups[0]
        .requests
        == warmup
    )


def test_the_estimate_is_the_most_that_there_can_be() -> None:
    run_spec = spec(
        workloads=[
            workload(
                "found",
                load=searching(maxProbes=5, maxRepeats=2),
                requests=None,
                durationSeconds=40,
            ),
            workload("listed", load=rates("2"), requests=7),
        ],
        objectives=OBJECTIVES,
    )
    found = estimate(run_spec)
    assert (found.stages, found.requests) == (12, 11 * 64 * 40 + 7)
    assert len(planned_stages(run_spec, run_uid="u")) == 1


def test_each_load_measured_is_a_load_point_by_rising_load() -> None:
    run_spec = spec(
        workloads=[workload(load=searching(), requests=40)], objectives=OBJECTIVES
    )
    records = [
        probed("chat", 1, "1"),
        probed("chat", 2, "2"),
        probed("chat", 3, "1.414"),
        probed("chat", 3, "1.414", repeat=2),
    ]
    found = probed_load_points(run_spec, records)
    assert [
        (load_point.id, load_point.load.axis, load_point.load.value)
        for load_point in found
    ] == [
        ("chat/rate=1", "RequestRate", "1"),
        ("chat/rate=1.414", "RequestRate", "1.414"),
        ("chat/rate=2", "RequestRate", "2"),
    ]
    assert found[1].stage_ids == ("chat/search-03/r1", "chat/search-03/r2")


def test_a_confirmation_is_a_load_point_of_its_own_with_a_smaller_error() -> None:
    run_spec = spec(
        workloads=[workload(load=searching(), requests=40)], objectives=OBJECTIVES
    )
    found = probed_load_points(
        run_spec,
        [
            probed("chat", 1, "1"),
            probed("chat", 2, "2"),
            probed("chat", 3, "1", confirms=True),
        ],
    )
    assert [
        (load_point.id, load_point.load.value, load_point.confirms)
        for load_point in found
    ] == [
        ("chat/rate=1", "1", False),
        ("chat/rate=1/confirmation", "1", True),
        ("chat/rate=2", "2", False),
    ]
    # Three loads may be confirmed.
    assert [objective_error(run_spec, load_point) for load_point in found] == [
        0.025,
        0.025 / 3,
        0.025,
    ]


def test_a_repeat_that_is_missing_between_others_is_still_of_its_load_point() -> (
    None
):
    run_spec = spec(
        workloads=[workload(load=searching(), requests=40)], objectives=OBJECTIVES
    )
    (found,) = probed_load_points(run_spec, [probed("chat", 1, "1", repeat=3)])
    assert found.stage_ids == (
        "chat/search-01/r1",
        "chat/search-01/r2",
        "chat/search-01/r3",
    )


def test_without_a_search_nothing_is_probed_and_no_record_is_looked_at() -> None:
    assert probed_load_points(spec(), iter([record()])) == ()


# Envelopes of a search's stages: those that the search may choose are taken, forged ones are not.

LISTED = ("chat/rate=1/r1", "chat/rate=2/r1")
SEARCHES = (
    search(requests=3),
    search(workload="users", axis="Concurrency", highest="8", requests=3),
)


def envelope(
    stage_id: str = "chat/search-02/r1",
    *,
    sequence: int = 3,
    ends_search: str | None = None,
) -> Envelope:
    return sealed()[0].model_copy(
        update={
            "stage_id": stage_id,
            "sequence": sequence,
            "ends_search": ends_search,
        }
    )


@pytest.mark.parametrize(
    ("stage_id", "ends_search"),
    [
        ("chat/search-01/r1", None),
        ("chat/search-15/r3", "chat"),
        ("chat/search-12/r1", None),
        ("users/search-02/r1", "users"),
    ],
)
def test_a_searchable_load_is_accepted(
    stage_id: str, ends_search: str | None
) -> None:
    assert (
        problem_with(envelope(stage_id, ends_search=ends_search), LISTED, SEARCHES)
        is None
    )


@pytest.mark.parametrize(
    ("why", "forged"),
    [
        ("at most 44 stages", envelope(sequence=44)),
        ("does not belong to a search", envelope("other/search-01/r1")),
        ("does not belong to a search", envelope("chat/rate=2/r1")),
        ("does not belong to a search", envelope("chat/search-1/r1")),
        ("does not belong to a search", envelope("chat/search-002/r1")),
        ("does not belong to a search", envelope("chat/search-01/r1\n")),
        ("none of the search's 12 probes", envelope("chat/search-16/r1")),
        ("none of the search's 12 probes", envelope("chat/search-00/r1")),
        ("none of the search's 12 probes", envelope("chat/search-01/r2")),
        ("3 confirmations of 3 stages", envelope("chat/search-13/r4")),
        ("can't end the search of 'users'", envelope(ends_search="users")),
    ],
)
def test_an_invalid_choice_is_rejected(why: str, forged: Envelope) -> None:
    problem = problem_with(forged, LISTED, SEARCHES)
    assert problem is not None
    assert why in problem


def test_a_plan_without_searches_has_its_stages_and_no_more() -> None:
    problem = problem_with(envelope(sequence=2), LISTED, ())
    assert problem == "the record's number is too high: the plan has 2 stages"


# ---- through the line to the client
# -------------------------------------------------------------------------------------


def sent(stage_id: str, sequence: int, *, ends: bool = False) -> Sealed:
    return sealed(sequence, stage_id=stage_id, probe=Probe(ends_search=ends))


async def pulled(*records: Sealed) -> Pulled:
    link = linked(
        Says(delivery(*records)),
        stage_ids=("chat/concurrency=2/r1",),
        searches=SEARCHES[:1],
    )
    return await link.pull(from_sequence=0, seen_version=-1)


async def test_an_envelope_tells_whether_its_search_ended() -> None:
    came = await pulled(
        sent("chat/search-01/r1", 1), sent("chat/search-02/r1", 2, ends=True)
    )
    assert [
        (a.envelope.sequence, a.envelope.ends_search) for a in came.arrivals
    ] == [
        (1, None),
        (2, "chat"),
    ]


async def test_a_forged_stage_is_rejected_and_the_others_are_taken() -> None:
    came = await pulled(sent("other/search-01/r1", 1), sent("chat/search-02/r1", 2))
    assert [a.envelope.sequence for a in came.arrivals] == [2]
    assert came.refused == (
        "record 1: stage 'other/search-01/r1' does not belong to a search of the plan",
    )
