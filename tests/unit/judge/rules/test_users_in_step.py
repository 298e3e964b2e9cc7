"""Users in step, drawn at random or simulated, and which text is random, by the spec."""

from random import Random
from statistics import fmean
from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.load import share_of_round, users_in_step
from benchrun.judge.rules.rule import StageFacts
from benchrun.judge.stage_facts import expected_stage
from benchrun.measure import Plateau
from unit.judge.queues import Server, closed_loop
from unit.judge.specs import spec, workload
from unit.judge.stages import context, findings, severity, users
from unit.measure.records import load_point, record, requests


@pytest.mark.parametrize(
    ("is_random", "workloads"),
    [
        (True, [workload()]),
        (True, [workload(dataset={"prefixRepetition": {}})]),
        (
            False,
            [
                workload(
                    dataset={"shareGPT": {"file": {"url": "http://files/a.json"}}}
                )
            ],
        ),
        (
            True,
            [
                workload(dataset={"mix": [{"workload": "a"}, {"workload": "b"}]}),
                {
                    "name": "a",
                    "dataset": {
                        "shareGPT": {"file": {"url": "http://files/a.json"}}
                    },
                },
                {"name": "b", "dataset": {"random": {}}},
            ],
        ),
    ],
)
def test_which_text_is_random(
    is_random: bool, workloads: list[dict[str, Any]]
) -> None:
    assert (
        expected_stage(spec(workloads=workloads), load_point()).random_text
        == is_random
    )


def rounds(
    *,
    spread: float,
    concurrency: int = 32,
    seed: int = 1,
) -> StageFacts:
    """Twelve rounds of users whose rounds of a second begin within this share of it; each prompt waits for those of
    its burst."""
    chance = Random(seed)
    n = 12
    offsets = sorted(spread * chance.random() for _ in range(concurrency))
    starts = [round(1e6 * (r + o)) for r in range(n) for o in offsets]
    waits = [
        round(1e6 * (0.005 + 0.004 * place))
        for _ in range(n)
        for place in range(concurrency)
    ]
    total = n * concurrency
    columns = requests(
        start_us=starts,
        ttft_us=waits,
        e2el_us=[999_000] * total,
        output_tokens=[100] * total,
    )
    end = round(1e6 * (n + spread))
    made = record(
        requests=columns,
        last_receive_unix_us=1_000_000_000 + end,
        scalars={"duration": end / 1e6},
    )
    return context(load=users(concurrency))(made)


@pytest.mark.parametrize(
    ("expected", "spread"),
    [
        ("Note", 0.01),
        ("Note", 0.1),
        ("Note", 0.2),
        (None, 0.5),
        (None, 0.9),
        (None, 1.0),
    ],
)
@pytest.mark.parametrize("concurrency", [8, 32, 200])
def test_users_who_begin_together(
    expected: Severity | None, spread: float, concurrency: int
) -> None:
    assert (
        severity(users_in_step(rounds(spread=spread, concurrency=concurrency)))
        == expected
    )


@pytest.mark.parametrize("spread", [0.1, 0.2, 0.3, 0.5, 1.0])
def test_the_share_of_a_round_is_estimated_with_little_bias(spread: float) -> None:
    """Of 32 users over twelve rounds; single estimates are off by up to 0.2."""
    stages = [rounds(spread=spread, seed=seed) for seed in range(20)]
    shares = [
        share_of_round(s, s.plateau, s.plateau.started)
        for s in stages
        if isinstance(s.plateau, Plateau)
    ]
    assert len(shares) == 20
    assert fmean(share for share in shares if share is not None) == pytest.approx(
        spread, abs=0.06
    )
    assert all(share == pytest.approx(spread, abs=0.2) for share in shares)


@pytest.mark.parametrize("lengths_vary", [False, True])
def test_a_simulated_closed_loop_is_in_step_only_with_equal_lengths(
    lengths_vary: bool,
) -> None:
    """The server of `queues`: one prompt after the other, answers side by side."""
    server = Server(
        slots=64, prefill_seconds=0.005, variation=0.01, lengths_vary=lengths_vary
    )
    found = [
        users_in_step(closed_loop(server, concurrency=32, count=600, seed=seed))
        for seed in range(5)
    ]
    assert [bool(findings(each)) for each in found] == [not lengths_vary] * 5
