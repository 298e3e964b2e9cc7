"""`repeats: Auto` with the real load engine against a server whose latencies are known.

What the client gave goes through the operator's own hands: the plan is made from a spec, records
are held against it as they would come in, and judged."""

from itertools import pairwise

import pytest
from benchrun.api import BenchmarkRunSpec, Result, UntilDecided
from benchrun.judge.results import Judged, results
from benchrun.judge_process.judge_job import load_problem
from benchrun.plan import (
    chosen_stages,
    measured_load_points,
    planned_stages,
    problem_with,
    stage_ids,
)
from benchrun_client.contract import seal
from client.simulated_runs import SpecRun

SEQUENCES = 8
TTFT_MS = 200
TPOT_MS = 2
LIMIT_MS = 560
"""With four users nobody waits: 200 ms are far below. With sixteen, eight always wait for one answer:
432 ms are near. A busy machine adds some tens."""
REQUESTS = 240
BUDGET = 4800


def spec() -> BenchmarkRunSpec:
    dataset = {"random": {"inputTokens": 24, "outputTokens": 17}}
    return BenchmarkRunSpec.model_validate(
        {
            "model": {"name": "tiny"},
            "endpoint": {"url": "http://replaced"},
            "workloads": [
                {
                    "name": "users",
                    "dataset": dataset,
                    "load": {"concurrencies": [4, 16]},
                    "requests": REQUESTS,
                }
            ],
            "objectives": [
                {"metric": "TTFT", "percentile": "90", "maxMilliseconds": LIMIT_MS}
            ],
            "repeats": "Auto",
            "budget": {"requests": BUDGET},
            # On a machine with other work the client is late at times. That is the judge's concern,
            # and its tests'.
            "validity": {
                "severities": [
                    {"code": code, "severity": "Note"}
                    for code in (
                        "ClientSaturated",
                        "ClientServerGap",
                        "ClientThrottled",
                        "ConcurrencyNotReached",
                        "NotSteadyState",
                    )
                ]
            },
        }
    )


class Repeated(SpecRun):
    """What the client of this file gave."""

    @property
    def judged(self) -> Judged:
        of = spec()
        points = measured_load_points(of, self.records)
        return results(points, self.records, (), spec=of)

    @property
    def answer(self) -> UntilDecided:
        found = self.judged.until_decided
        assert found is not None
        return found

    def row(self, users: str) -> Result:
        return next(row for row in self.judged.results if row.value == users)


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Repeated:
    folder = tmp_path_factory.mktemp("repeats")
    flags = (
        *("--sim-ttft-ms", str(TTFT_MS), "--sim-tpot-ms", str(TPOT_MS)),
        *("--max-num-seqs", str(SEQUENCES)),
    )
    return Repeated.of_spec(spec(), folder, *flags)


def test_what_is_near_its_limit_is_repeated_and_what_is_far_is_not(
    repeated: Repeated,
) -> None:
    far, near = repeated.row("4"), repeated.row("16")
    assert far.repeats < 3 <= near.repeats, (far.objectives, near.objectives)
    outcomes = [row.objectives[0].outcome for row in (far, near)]
    assert outcomes == ["Met", "Met"]


def test_the_result_tells_what_was_spent_and_saved(repeated: Repeated) -> None:
    answer = repeated.answer
    assert answer.outcome == "Decided", answer
    assert answer.stages == len(repeated.records)
    assert answer.requests == REQUESTS * len(repeated.records) <= BUDGET
    assert answer.requests + answer.requests_saved == BUDGET


def test_every_record_is_one_that_the_operator_takes_and_the_last_says_so(
    repeated: Repeated,
) -> None:
    listed, ids = chosen_stages(spec(), stage_ids(spec(), run_uid="uid-1"))
    loads = {s.id: s.load for s in planned_stages(spec(), run_uid="uid-1")}
    for record in repeated.records:
        assert problem_with(seal(record)[0], listed, (), ids) is None
        assert load_problem(record, loads, (), is_repeated=True) is None
    ends = [r.probe is not None and r.probe.ends_search for r in repeated.records]
    assert ends == [False] * (len(ends) - 1) + [True]
    assert [r.sequence for r in repeated.records] == list(range(len(ends)))
    assert (repeated.progress.phase, repeated.progress.records) == (
        "Done",
        len(ends),
    )
    assert repeated.exit_code == 0


def test_repeats_are_in_the_plans_order_with_prompts_of_their_own(
    repeated: Repeated,
) -> None:
    here = [record.stage_id for record in repeated.records]
    assert here == [s.id for s in repeated.plan.stages if s.id in here]
    digests = [record.prompts_digest for record in repeated.records]
    assert len(set(digests)) == len(digests)
    for earlier, later in pairwise(repeated.records):
        assert earlier.servers[0].after == later.servers[0].before
