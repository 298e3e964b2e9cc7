"""A run that searches: how long nobody knows, and when it has ended the records tell, to this operator or to the next."""

from __future__ import annotations

from dataclasses import replace

from benchrun.api import names
from benchrun.decide.decision import Arrival, Collected
from benchrun.observe.trim import child_of
from benchrun.plan.client_plan import client_plan
from benchrun.plan.stored import stage_config_map
from benchrun_client.contract import Probe, open_stage_id
from unit.decide.deliveries import arrival
from unit.decide.scenes import Scene
from unit.measure.records import requests
from unit.plan.specs import OWNER, Json, rates, spec, spec_body, workload

OBJECTIVES = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]
SEARCH: Json = {"search": {"axis": "RequestRate", "from": "1", "to": "4", "maxProbes": 3, "maxRepeats": 2}}
MOST = 6
SEARCHING = spec_body(workloads=[workload(load=SEARCH, requests=50)], objectives=OBJECTIVES)
MIXED = spec_body(
    workloads=[workload(load=SEARCH, requests=50), workload("listed", load=rates("2")), workload("more", load=SEARCH)],
    objectives=OBJECTIVES,
)
LATENCIES = requests(ttft_us=[10_000] * 50, e2el_us=[110_000] * 50, output_tokens=[11] * 50)


def probe(
    sequence: int, value: str, *, ends: bool = False, workload_name: str = "chat", of: Json = SEARCHING
) -> Arrival:
    """A record of a probe, as the line to the client gives it."""
    came = arrival(
        sequence,
        open_stage_id(workload_name, sequence + 1, 1),
        client_plan(OWNER, spec(**of)).digest(),
        requests=LATENCIES,
        probe=Probe(value=value, ends_search=ends),
    )
    return replace(came, ends_search=workload_name if ends else None)


def heard(scene: Scene, *arrivals: Arrival) -> Scene:
    """These have come."""
    ends = {a.sequence: a.ends_search for a in arrivals if a.ends_search is not None}
    return scene.knowing(
        arrivals=arrivals,
        sequences=frozenset(a.sequence for a in arrivals),
        search_ends=ends,
        records=tuple(a.record for a in arrivals),
        read_back=True,
    )


def stored(scene: Scene, *arrivals: Arrival) -> Scene:
    """These are in ConfigMaps, as the operator that stored them left them; nothing of them is in memory."""
    maps = [
        stage_config_map(
            OWNER, sequence=a.sequence, digest=a.digest, record=a.data, timeline=None, ends_search=a.ends_search
        )
        for a in arrivals
    ]
    return replace(scene, objects=(*scene.objects, *(child_of("ConfigMap", body) for body in maps)))


def measuring(of: Json = SEARCHING) -> Scene:
    return Scene(spec=of).measuring()


def test_the_bound_is_told_while_nobody_knows_the_end() -> None:
    scene = heard(measuring(), probe(0, "1"))
    status = scene.decide().status
    assert status.estimate is not None
    assert (status.estimate.stages, status.estimate.requests) == (MOST, MOST * 50)
    assert status.progress is not None
    assert (status.progress.stages_total, status.progress.stages_done, status.progress.summary) == (
        MOST,
        1,
        f"1/<={MOST}",
    )
    assert f"1 of at most {MOST} stages are done" in (status.message or "")


def test_records_are_stored_and_acknowledged_as_they_come() -> None:
    decision = heard(measuring(), probe(0, "1"), probe(1, "2")).decide()
    assert [m["metadata"]["labels"][names.LABEL_SEQUENCE] for m in decision.apply] == ["0", "1"]
    assert decision.acknowledge == 2
    assert decision.delete == ()


def test_with_the_record_that_ends_the_search_the_server_goes_and_the_run_is_judged() -> None:
    decision = heard(measuring(), probe(0, "1"), probe(1, "2"), probe(2, "4", ends=True)).decide()
    assert "Deployment" in {ref.kind for ref in decision.delete}
    assert decision.acknowledge == 3
    status = decision.status
    assert (status.phase, status.progress and status.progress.summary) == ("Completed", "3/3")
    (answer,) = status.searches
    assert (answer.outcome, answer.lower) == ("AtUpperBound", "4")
    assert status.message is not None
    assert status.message.startswith("chat: the objectives are met at 4 requests a second")
    (condition,) = [c for c in status.conditions if c.type == "ObjectivesMet"]
    assert condition.status == "True"


def test_the_last_record_alone_is_no_end_while_one_before_it_is_missing() -> None:
    decision = heard(measuring(), probe(0, "1"), probe(2, "4", ends=True)).decide()
    assert decision.delete == ()
    assert decision.status.phase == "Running"
    assert decision.acknowledge == 1
    assert decision.pull is not None


def test_the_next_operator_reads_the_end_off_the_stored_records() -> None:
    arrivals = [probe(0, "1"), probe(1, "2"), probe(2, "4", ends=True)]
    scene = replace(stored(measuring(), *arrivals), collected=Collected(log_searched=True))
    decision = scene.says(phase="Done").decide()
    assert decision.read_back
    assert "Deployment" in {ref.kind for ref in decision.delete}
    judged = scene.knowing(records=tuple(a.record for a in arrivals), read_back=True).decide()
    assert judged.status.phase == "Completed"


def test_stored_records_without_the_end_are_waited_on() -> None:
    scene = replace(stored(measuring(), probe(0, "1"), probe(1, "2")), collected=Collected(log_searched=True))
    decision = scene.says(phase="Measuring").decide()
    assert decision.status.phase == "Running"
    assert decision.pull is not None
    assert decision.pull.from_sequence == 2


def test_every_search_must_have_ended_and_what_is_listed_comes_first() -> None:
    first = heard(measuring(MIXED), *_mixed(ends_more=False)).decide()
    assert first.status.phase == "Running"
    last = heard(measuring(MIXED), *_mixed(ends_more=True)).decide()
    assert last.status.phase == "Completed"
    assert [s.workload for s in last.status.searches] == ["chat", "more"]


def test_one_search_can_not_end_another() -> None:
    twice = [replace(a, ends_search="chat" if a.sequence >= 1 else None) for a in _mixed(ends_more=True)]
    assert heard(measuring(MIXED), *twice).decide().status.phase == "Running"


def test_a_deadline_tells_the_bound_and_what_was_found_so_far_is_kept() -> None:
    late = heard(measuring(), probe(0, "1")).with_spec(runDeadlineSeconds=100).at(1000)
    status = late.decide().status
    assert status.phase == "Failed"
    assert f"1 of at most {MOST} stages were measured" in (status.message or "")
    assert [(s.outcome, s.lower) for s in status.searches] == [("Incomplete", "1")]


def _mixed(*, ends_more: bool) -> list[Arrival]:
    listed = arrival(0, "listed/rate=2/r1", client_plan(OWNER, spec(**MIXED)).digest())
    one = probe(1, "1", ends=True, of=MIXED)
    two = probe(2, "1", ends=ends_more, workload_name="more", of=MIXED)
    return [listed, one, two]
