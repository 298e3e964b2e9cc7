"""What `repeats: Auto` decided by its judged load points, and what it took."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, UntilDecided
from benchrun.judge.results import results
from benchrun.plan import measured_load_points
from benchrun_client.contract import Probe, StageRecord
from unit.judge.specs import spec, workload
from unit.measure.records import load_at, record, requests

REQUESTS = 200
LIMIT_MS = 100


def auto(**changes: Any) -> BenchmarkRunSpec:
    return spec(
        **{
            "workloads": [
                workload(load={"requestRates": ["4", "8"]}, requests=REQUESTS)
            ],
            "objectives": [
                {"metric": "TTFT", "percentile": "50", "maxMilliseconds": LIMIT_MS}
            ],
            "repeats": "Auto",
            "budget": {"requests": 4000},
        }
        | changes
    )


def stage(
    load: str, repeat: int, sequence: int, *, ms: float, ends: bool = False
) -> StageRecord:
    """Requests at their rate whose TTFT scatters by a few percent around `ms`."""
    chance = Random(f"{load} {repeat}")
    ttft = [round(1000 * ms * chance.uniform(0.95, 1.05)) for _ in range(REQUESTS)]
    gap_us = 1e6 / float(load)
    begin = 100_000_000 * sequence
    return record(
        f"chat/rate={load}/r{repeat}",
        requests=requests(
            ttft_us=ttft,
            e2el_us=[t + 10_000 for t in ttft],
            output_tokens=[2] * REQUESTS,
            start_us=[round(n * gap_us) for n in range(REQUESTS)],
        ),
        sequence=sequence,
        load=load_at("RequestRate", load),
        first_send_unix_us=1_800_000_000_000_000 + begin,
        last_receive_unix_us=1_800_000_000_000_000 + begin + 60_000_000,
        scalars={"duration": REQUESTS / float(load) + 0.2},
        prompts_digest=f"{sequence:064x}",
        probe=Probe(ends_search=ends),
    )


def answer(
    records: Sequence[StageRecord], of: BenchmarkRunSpec | None = None
) -> UntilDecided:
    asked = of or auto()
    found = results(measured_load_points(asked, records), records, (), spec=asked)
    assert found.until_decided is not None
    return found.until_decided


def both(repeats: int, ms: tuple[float, float]) -> list[StageRecord]:
    found: list[StageRecord] = []
    for repeat in range(1, repeats + 1):
        for load, each in zip(("4", "8"), ms, strict=True):
            sequence = len(found)
            ends = repeat == repeats and load == "8"
            found.append(stage(load, repeat, sequence, ms=each, ends=ends))
    return found


def test_everything_is_decided() -> None:
    found = answer(both(1, (20, 300)))
    assert (found.outcome, found.undecided) == ("Decided", [])
    assert (found.stages, found.requests, found.requests_saved) == (2, 400, 3600)
    assert found.seconds == 160
    assert found.gpu_seconds is None
    assert found.sentence == (
        "everything that was asked is decided after 400 requests in 2 stages, 3,600 fewer than the "
        "most"
    )


def test_what_the_budget_left_open_is_named() -> None:
    found = answer(both(3, (20, 100)))
    assert (found.outcome, found.undecided) == ("BudgetEnded", ["chat/rate=8"])
    assert found.sentence == (
        "the budget ended after 1,200 requests in 6 stages; not decided: chat/rate=8 (after 3)"
    )


def test_a_width_that_is_not_reached_is_not_decided() -> None:
    asked = auto(
        objectives=[],
        widths=[{"metric": "TTFT", "percentile": "50", "percent": "5"}],
    )
    assert answer(both(3, (20, 300)), asked).outcome == "Decided"
    once = answer(both(1, (20, 300)), asked)
    assert once.undecided == ["chat/rate=4", "chat/rate=8"]
    narrow = [{"metric": "TTFT", "percentile": "50", "percent": "1"}]
    wide = auto(objectives=[], widths=narrow)
    rows = both(3, (20, 300))
    judged = results(measured_load_points(wide, rows), rows, (), spec=wide)
    for row in judged.results:
        (width,) = row.widths
        assert width.measured_percent is not None
        assert width.reached == (width.measured_percent <= 1)


NEVER_VALID = [{"name": "never", "metric": "completed", "above": "0"}]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {
            "objectives": [],
            "widths": [{"metric": "TTFT", "percentile": "50", "percent": "100"}],
        },
    ],
)
def test_what_is_not_valid_is_not_decided_and_no_budget_ended(
    asked: dict[str, Any],
) -> None:
    rules = [{**NEVER_VALID[0], "severity": "Invalid", "when": "load > 4.0"}]
    found = answer(both(3, (20, 300)), auto(validity={"rules": rules}, **asked))
    assert (found.outcome, found.undecided) == ("NotValid", ["chat/rate=8"])
    assert "budget" not in found.sentence
    assert "chat/rate=8 (after 3, not valid)" in found.sentence


def test_the_budget_ended_where_what_is_open_is_valid() -> None:
    rules = [{**NEVER_VALID[0], "severity": "Invalid", "when": "load < 5.0"}]
    found = answer(both(3, (20, 100)), auto(validity={"rules": rules}))
    assert found.outcome == "BudgetEnded"
    assert found.undecided == ["chat/rate=4", "chat/rate=8"]


@pytest.mark.parametrize("lost", [0, 3])
def test_without_a_record_it_is_incomplete(lost: int) -> None:
    records = both(2, (20, 300))
    del records[lost]
    assert answer(records).outcome == "Incomplete"


def test_a_look_decides_by_its_part_of_the_error() -> None:
    """Intervals of such a run hold over all looks, so they are wider."""
    records = both(3, (20, 300))
    asked = auto()
    fixed = asked.model_copy(update={"repeats": 3, "budget": None})
    points = measured_load_points(asked, records)
    wide = results(points, records, (), spec=asked).results[0].intervals
    narrow = results(points, records, (), spec=fixed).results[0].intervals
    low, high = wide["p50_ttft_ms"]
    assert low < narrow["p50_ttft_ms"][0] < narrow["p50_ttft_ms"][1] < high


def test_a_number_of_repeats_has_no_such_answer() -> None:
    of = auto(repeats=1, budget=None)
    records = [r.model_copy(update={"probe": None}) for r in both(1, (20, 300))]
    found = results(measured_load_points(of, records), records, (), spec=of)
    assert found.until_decided is None
