"""Users of a closed loop against a server that prefills one prompt at a time: how they begin, and how
long they think.

The same plan is measured by one process and by two.
"""

from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from benchrun_client.contract import (
    Stage,
    StageRecord,
    ThinkTime,
    UsersLoad,
    UserStartMode,
)
from benchrun_client.contract.datasets import RandomData
from client.simulated_runs import against_simulator
from unit.client.plans import plan, stage, warmup

USERS = 16
ROUNDS = 6
PREFILL_MS = 20
TPOT_MS = 20
TOKENS = 50
ROUND_SECONDS = (PREFILL_MS + TPOT_MS * (TOKENS - 1)) / 1000  # Of a user alone.
THINK_SECONDS = 0.7
PROMPT_TOKENS = 64
DATA = RandomData(input_tokens=PROMPT_TOKENS, output_tokens=TOKENS)


def closed(
    workload: str, start: UserStartMode, *, think: ThinkTime | None = None
) -> Stage:
    return stage(
        id=f"{workload}/concurrency={USERS}/{start}",
        workload=workload,
        load=UsersLoad(concurrency=USERS, start=start, think_seconds=think),
        data=DATA,
        requests=USERS * ROUNDS,
        seed=11,
    )


STAGES = (
    closed("chat", "Together"),
    closed("chat", "Spread"),
    closed(
        "chat",
        "Spread",
        think=ThinkTime(mean_seconds=str(THINK_SECONDS), distribution="Constant"),
    ).model_copy(update={"id": "chat/concurrency=16/think"}),
    # It has no warm-up.
    closed("unknown", "Spread"),
)


def records_of(folder: Path, *, shards: int) -> list[StageRecord]:
    whole = plan(
        *STAGES,
        warmups=(warmup(requests=2 * USERS, concurrency=USERS, data=DATA),),
    )
    prefill = f"--sim-prefill-us-per-token={1000 * PREFILL_MS // PROMPT_TOKENS}"
    flags = (
        "--sim-prefill-serial",
        "--sim-ttft-ms=0",
        prefill,
        f"--sim-tpot-ms={TPOT_MS}",
    )
    with against_simulator(folder, whole, *flags, shards=shards) as running:
        records, _ = running.pull_all()
        assert running.process.wait() == 0
    return records


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "in two processes"])
def records(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[StageRecord]:
    return records_of(tmp_path_factory.mktemp("closed"), shards=request.param)


def test_users_begin_evenly_over_a_round_and_the_record_tells_it(
    records: list[StageRecord],
) -> None:
    spread = records[1]
    assert spread.user_start is not None
    assert spread.user_start.mode == "Spread"
    whole = spread.user_start.round_seconds
    assert whole is not None
    assert ROUND_SECONDS < whole < 2 * ROUND_SECONDS
    assert spread.user_start.seconds == pytest.approx(whole * (USERS - 1) / USERS)
    # Those of the users' first requests; all others were due when they were handed out.
    gap = spread.user_start.seconds / (USERS - 1)
    columns = spread.requests
    due = [
        (at - late) / 1e6
        for at, late in zip(columns.start_us, columns.queue_us, strict=True)
    ]
    begun = sorted(at for at in due if at > gap / 2)
    assert begun == pytest.approx(
        [number * gap for number in range(1, USERS)], abs=gap / 4
    )


def test_prompts_of_users_that_begin_spread_hardly_wait_for_each_other(
    records: list[StageRecord],
) -> None:
    together, spread = (
        fmean(each.requests.ttft_us[:USERS]) / 1000 for each in records[:2]
    )
    print(
        f"mean TTFT of the first round: together {together:.1f} ms, spread {spread:.1f} ms"
    )
    assert together > PREFILL_MS * USERS / 3
    assert spread < 0.7 * together


def test_users_begin_together_where_asked_and_where_no_answer_time_is_known(
    records: list[StageRecord],
) -> None:
    for record in (records[0], records[3]):
        assert record.user_start is not None
        assert record.user_start.mode == "Together"
        assert record.user_start.seconds == pytest.approx(0.002 * (USERS - 1))
        assert record.requests.start_us[USERS - 1] < 200_000


def test_users_think_after_an_answer_and_no_latency_holds_it(
    records: list[StageRecord],
) -> None:
    thinking = records[2].requests
    usual = records[1].requests
    assert fmean(thinking.e2el_us) < 1.1 * fmean(usual.e2el_us)
    ends = sorted(
        s + e for s, e in zip(thinking.start_us, thinking.e2el_us, strict=True)
    )
    later = sorted(thinking.start_us)[USERS:]
    # Each of a user's next requests follows an answer by the think time.
    thought = [at - end for at, end in zip(later, ends, strict=False)]
    assert min(thought) / 1e6 == pytest.approx(THINK_SECONDS, abs=0.1)
    assert fmean(thought) / 1e6 == pytest.approx(THINK_SECONDS, abs=0.1)
    assert thinking.ok.count(1) == USERS * ROUNDS
    # The stage ends with the last answer.
    duration = records[2].scalars["duration"]
    assert isinstance(duration, float)
    assert duration < ends[-1] / 1e6 + THINK_SECONDS / 2


def test_requests_are_in_order_of_sending_and_tokens_stay_theirs(
    records: list[StageRecord],
) -> None:
    for record in records:
        assert all(a <= b for a, b in pairwise(record.requests.start_us))
        assert set(record.requests.output_tokens) == {TOKENS}
