"""A batch of classifications on one GPU: 1000 prompts of 1251 tokens, four tokens of answer each,
all sent at once, under three sizes of a step. Running, waiting and KV cache differ as much as they
can; throughput does not. So compute is the limit, and it must be said for each configuration by
itself."""

import pytest
from unit.judge.explained import LoadPoint, answered, judged

REQUESTS = 1000
PROMPT = 1251
OUTPUT = 4
EVERY_SECONDS = 5.0
CONFIGURATIONS = [
    pytest.param(
        "TokenBudget", 10_000, 33, (925, 56), 0.094, 25_400.0, 20.3, id="10000"
    ),
    pytest.param(
        "TokenBudget", 80_000, 267, (871, 0), 0.78, 25_800.0, 20.6, id="80000"
    ),
    pytest.param(
        "KVCacheFull", 160_000, 276, (734, 0), 0.99, 25_600.0, 20.0, id="160000"
    ),
]


def burst(
    running: int,
    waiting: tuple[int, int],
    usage: float,
    prompt_rate: float,
    a_second: float,
) -> LoadPoint:
    """Readings every five seconds while the queue drains."""
    count = int(REQUESTS / a_second / EVERY_SECONDS)
    first, last = waiting
    gauges = [
        (float(running), round(first + (last - first) * i / (count - 1)), usage)
        for i in range(count)
    ]
    answers = [round((i + 1) / a_second * 1e6) for i in range(REQUESTS)]
    columns = answered(
        REQUESTS,
        prompt=PROMPT,
        output=OUTPUT,
        start_us=[0] * REQUESTS,
        ttft_us=answers,
        e2el_us=answers,
    )
    return LoadPoint(
        gauges,
        columns=columns,
        axis="RequestRate",
        value="inf",
        prompt_rate=prompt_rate,
        generation_rate=OUTPUT * a_second,
        every_seconds=EVERY_SECONDS,
    )


@pytest.mark.parametrize(
    "is_told", [True, False], ids=["step size told", "step size not told"]
)
@pytest.mark.parametrize(
    ("reason", "step", "running", "waiting", "usage", "prompt_rate", "a_second"),
    CONFIGURATIONS,
)
def test_each_configuration_is_limited_by_compute(
    reason: str,
    step: int,
    running: int,
    waiting: tuple[int, int],
    usage: float,
    prompt_rate: float,
    a_second: float,
    is_told: bool,
) -> None:
    args = [f"--max-num-batched-tokens={step}"] if is_told else []
    (row,) = judged(
        burst(running, waiting, usage, prompt_rate, a_second), args=args
    )
    assert row.waiting is not None
    assert row.bottleneck is not None
    assert (row.waiting.reason, row.bottleneck.limit) == (reason, "Compute")
    for number in (
        f"{prompt_rate:.0f} tok/s",
        f"({waiting[0]} at most)",
        f"{running} running",
    ):
        assert number in row.bottleneck.sentence
    if is_told and reason == "TokenBudget":
        assert f"a step takes {step} tokens" in row.waiting.sentence
