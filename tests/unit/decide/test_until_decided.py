"""A run that repeats until all is decided: only its last record tells how many stages there are."""

from benchrun.decide.decision import Decision
from benchrun_client.contract import Probe, StageRecord
from unit.decide.deliveries import record
from unit.decide.scenes import Scene, plan_digest
from unit.decide.test_searches import stored
from unit.measure.records import load_at, requests
from unit.plan.specs import rates, spec, spec_body, workload

REQUESTS = 60
MOST = (
    2 * 9
)  # Of 600 requests one load point alone gets eight more after the first two stages.
BODY = spec_body(
    workloads=[workload(load=rates("1", "4"), requests=REQUESTS)],
    objectives=[{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}],
    repeats="Auto",
    budget={"requests": 600},
)


def repeat(
    sequence: int, load: str, number: int, *, ends: bool = False
) -> StageRecord:
    latencies = requests(
        ttft_us=[10_000] * REQUESTS,
        e2el_us=[110_000] * REQUESTS,
        output_tokens=[11] * REQUESTS,
        start_us=[1_000_000 * n // int(load) for n in range(REQUESTS)],
    )
    return record(
        sequence,
        f"chat/rate={load}/r{number}",
        plan_digest(spec(**BODY).model_dump_json(by_alias=True)),
        requests=latencies,
        load=load_at("RequestRate", load),
        probe=Probe(ends_search=ends),
    )


def measuring() -> Scene:
    return Scene(spec=BODY).measuring()


def released(decision: Decision) -> bool:
    return "Deployment" in {ref.kind for ref in decision.delete}


def test_the_bound_is_shown_until_the_last_record_came() -> None:
    decision = measuring().delivered(repeat(0, "1", 1)).ended()
    assert decision.status.phase == "Running"
    assert not released(decision)
    progress = decision.status.progress
    assert progress is not None
    assert progress.summary == f"1/<={MOST}"
    assert decision.status.estimate is not None
    assert decision.status.estimate.requests == 600


def test_with_the_last_record_the_server_goes_and_the_run_is_judged() -> None:
    records = (repeat(0, "4", 1), repeat(1, "1", 1, ends=True))
    decision = measuring().delivered(*records).ended()
    assert released(decision)
    status = decision.status
    assert status.phase == "Completed"
    assert status.progress is not None
    assert status.progress.summary == "2/2"
    assert [row.repeats for row in status.results] == [1, 1]
    answer = status.until_decided
    assert answer is not None
    assert (answer.outcome, answer.stages, answer.requests) == ("Decided", 2, 120)
    assert answer.requests_saved == 480
    assert answer.sentence in (status.message or "").lower()


def test_the_next_operator_reads_the_end_off_the_stored_records() -> None:
    scene = stored(measuring(), repeat(0, "4", 1), repeat(1, "1", 1, ends=True))
    assert released(scene.decide())


def test_the_last_record_alone_is_no_end_while_one_before_it_is_missing() -> None:
    decision = (
        measuring()
        .delivered(repeat(0, "4", 1), repeat(2, "4", 2, ends=True))
        .ended()
    )
    assert not released(decision)
    assert decision.acknowledge == 1
