"""A run that searches: how long nobody knows, and when it has ended the records tell, to this
operator or to the next."""

from dataclasses import replace

from benchrun import names
from benchrun.observe import child_of
from benchrun.plan import stage_config_map
from benchrun_client.contract import Probe, StageRecord, open_stage_id
from unit.decide.deliveries import record, sealed
from unit.decide.scenes import Scene, plan_digest
from unit.golden_messages import golden
from unit.measure.records import load_at, requests
from unit.plan.specs import OWNER, Json, rates, spec, spec_body, workload

OBJECTIVES = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]
SEARCH: Json = {
    "search": {
        "axis": "RequestRate",
        "from": "1",
        "to": "4",
        "maxProbes": 3,
        "maxRepeats": 2,
    }
}
MOST = 3 + 3 * 2
REQUESTS = 60
SEARCHING = spec_body(
    workloads=[workload(load=SEARCH, requests=REQUESTS)], objectives=OBJECTIVES
)
MIXED = spec_body(
    workloads=[
        workload(load=SEARCH, requests=REQUESTS),
        workload("listed", load=rates("2")),
        workload("more", load=SEARCH, requests=REQUESTS),
    ],
    objectives=OBJECTIVES,
)
LATENCIES = requests(
    ttft_us=[10_000] * REQUESTS,
    e2el_us=[110_000] * REQUESTS,
    output_tokens=[11] * REQUESTS,
    start_us=[200_000 * n for n in range(REQUESTS)],
)


def probe(
    sequence: int,
    value: str,
    *,
    ends: bool = False,
    confirms: bool = False,
    workload_name: str = "chat",
    spec_changes: Json = SEARCHING,
) -> StageRecord:
    """A record of a probe, as the line to the client gives it."""
    return record(
        sequence,
        open_stage_id(workload_name, sequence + 1, 1),
        plan_digest(spec(**spec_changes).model_dump_json(by_alias=True)),
        requests=LATENCIES,
        load=load_at("RequestRate", value),
        probe=Probe(ends_search=ends, confirms=confirms),
    )


def stored(scene: Scene, *records: StageRecord) -> Scene:
    """These are in ConfigMaps, as the operator that stored them left them; nothing of them is in
    memory."""
    maps = [
        stage_config_map(OWNER, sealed(each), timeline=None) for each in records
    ]
    objects = (*scene.objects, *(child_of("ConfigMap", body) for body in maps))
    return replace(
        scene, objects=objects, measured={each.sequence: each for each in records}
    ).operator_restarted()


def measuring(spec_changes: Json = SEARCHING) -> Scene:
    return Scene(spec=spec_changes).measuring()


def test_the_bound_is_shown_while_the_end_is_unknown() -> None:
    status = measuring().delivered(probe(0, "1")).ended().status
    assert status.estimate is not None
    assert (status.estimate.stages, status.estimate.requests) == (
        MOST,
        MOST * REQUESTS,
    )
    assert status.progress is not None
    assert (
        status.progress.stages_total,
        status.progress.stages_done,
        status.progress.summary,
    ) == (
        MOST,
        1,
        f"1/<={MOST}",
    )
    assert f"1 of at most {MOST} stages are done" in (status.message or "")


def test_records_are_stored_and_acknowledged_as_they_come() -> None:
    decision = measuring().delivered(probe(0, "1"), probe(1, "2")).ended()
    assert [
        m["metadata"]["labels"][names.LABEL_SEQUENCE] for m in decision.apply
    ] == ["0", "1"]
    assert (decision.acknowledge, decision.delete) == (2, ())


def test_with_the_record_that_ends_the_search_the_server_goes_and_the_run_is_judged() -> (
    None
):
    looks = (probe(0, "1"), probe(1, "2"), probe(2, "4"))
    decision = (
        measuring()
        .delivered(*looks, probe(3, "4", ends=True, confirms=True))
        .ended()
    )
    assert "Deployment" in {ref.kind for ref in decision.delete}
    assert decision.acknowledge == 4
    status = decision.status
    assert (status.phase, status.progress and status.progress.summary) == (
        "Completed",
        "4/4",
    )
    (answer,) = status.searches
    assert (answer.outcome, answer.lower) == ("AtUpperBound", "4")
    assert status.message is not None
    golden(status.message)
    (condition,) = [c for c in status.conditions if c.type == "ObjectivesMet"]
    assert condition.status == "True"


def test_the_last_record_alone_is_no_end_while_one_before_it_is_missing() -> None:
    decision = (
        measuring().delivered(probe(0, "1"), probe(2, "4", ends=True)).ended()
    )
    assert (decision.delete, decision.status.phase, decision.acknowledge) == (
        (),
        "Running",
        1,
    )
    assert decision.pull is not None


def test_the_next_operator_reads_the_end_off_the_stored_records() -> None:
    scene = stored(
        measuring(), probe(0, "1"), probe(1, "2"), probe(2, "4", ends=True)
    )
    assert "Deployment" in {ref.kind for ref in scene.decide().delete}
    assert scene.ended().status.phase == "Completed"


def test_stored_records_without_the_end_are_waited_on() -> None:
    decision = (
        stored(measuring(), probe(0, "1"), probe(1, "2"))
        .reports(phase="Measuring")
        .decide()
    )
    assert decision.status.phase == "Running"
    assert decision.pull is not None
    assert decision.pull.from_sequence == 2


def test_every_search_must_have_ended_and_what_is_listed_comes_first() -> None:
    assert (
        measuring(MIXED).delivered(*_mixed(ends_more=False)).ended().status.phase
        == "Running"
    )
    last = measuring(MIXED).delivered(*_mixed(ends_more=True)).ended()
    assert last.status.phase == "Completed"
    assert [s.workload for s in last.status.searches] == ["chat", "more"]


def test_one_search_cannot_end_another() -> None:
    listed, one, _ = _mixed(ends_more=False)
    twice = (listed, one, probe(2, "2", ends=True, spec_changes=MIXED))
    assert measuring(MIXED).delivered(*twice).ended().status.phase == "Running"


def test_a_deadline_tells_the_bound_and_what_was_found_so_far_is_kept() -> None:
    late = (
        measuring()
        .delivered(probe(0, "1"))
        .with_spec(runDeadlineSeconds=100)
        .at(1000)
    )
    status = late.ended().status
    assert status.phase == "Failed"
    assert f"1 of at most {MOST} stages were measured" in (status.message or "")
    assert [(s.outcome, s.lower) for s in status.searches] == [("Incomplete", "1")]


def _mixed(*, ends_more: bool) -> list[StageRecord]:
    listed = record(
        0,
        "listed/rate=2/r1",
        plan_digest(spec(**MIXED).model_dump_json(by_alias=True)),
    )
    one = probe(1, "1", ends=True, spec_changes=MIXED)
    two = probe(2, "1", ends=ends_more, workload_name="more", spec_changes=MIXED)
    return [listed, one, two]
