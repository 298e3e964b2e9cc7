"""Sequences that slow each other: batches, shared prefills, compilations. To the microsecond, on
the test's clock."""

from collections import defaultdict

import pytest
from benchrun_simulator.cold import Cold
from benchrun_simulator.compilation import Compilations
from benchrun_simulator.drift import Changes
from benchrun_simulator.pace import Disturbances, Pace, Timing
from benchrun_simulator.prefill_budget import PrefillBudget
from benchrun_simulator.prefix_cache import KvCache
from benchrun_simulator.scheduler import Scheduler
from benchrun_simulator.sequence import Sequence
from hypothesis import given, strategies as st

FOREVER = 1e9
Instants = dict[int, list[float]]


def scheduler(
    disturbances: Disturbances | None = None,
    *,
    per_running: float = 0.0,
    budget: int | None = None,
) -> Scheduler:
    timing = Timing(
        first_token_seconds=0.1,
        prefill_seconds_per_token=0.001,
        per_token_seconds=0.02,
        per_running_seconds=per_running,
    )
    return Scheduler(
        pace=Pace(timing, disturbances),
        cache=KvCache(blocks=10_000, block_size=4),
        max_sequences=64,
        prefill_budget=None if budget is None else PrefillBudget(tokens=budget),
    )


def sequences(
    count: int, *, prompt_tokens: int = 1, tokens: int = 3, at: float = 0.0
) -> list[Sequence]:
    return [
        Sequence(
            prompt=[number] * prompt_tokens,
            output=[0] * tokens,
            arrived_at=at,
            number=number,
        )
        for number in range(1, count + 1)
    ]


def served(target: Scheduler, load: list[Sequence]) -> Instants:
    seen: Instants = defaultdict(list)
    for one in load:
        for which, due in target.advance(one.arrived_at):
            seen[which.number].append(due)
        target.submit(one, now=one.arrived_at)
    for which, due in target.advance(FOREVER):
        seen[which.number].append(due)
    return seen


def test_a_step_takes_longer_the_more_run() -> None:
    seen = served(scheduler(per_running=0.01), sequences(8))
    assert all(
        instants == pytest.approx([0.101, 0.201, 0.301])
        for instants in seen.values()
    )


def test_throughput_nears_its_limit() -> None:
    def tokens_per_second(running: int) -> float:
        seen = served(scheduler(per_running=0.01), sequences(running, tokens=101))
        return running * 100 / (seen[1][-1] - seen[1][0])

    assert [round(tokens_per_second(running), 1) for running in (1, 8, 64)] == [
        33.3,
        80.0,
        97.0,
    ]


def test_prefills_within_the_budget_follow_each_other_and_the_rest_waits() -> None:
    target = scheduler(budget=1000)
    load = sequences(5, prompt_tokens=500)
    for one in load:
        target.submit(one, now=0.0)
    assert (target.running, target.waiting) == (2, 3)
    served(target, [])
    assert [one.scheduled_at for one in load] == pytest.approx(
        [0, 0, 0.6, 1.1, 1.6]
    )


def test_shared_prefills_end_one_after_the_other() -> None:
    seen = served(scheduler(budget=10_000), sequences(4, prompt_tokens=500))
    assert [instants[0] for instants in seen.values()] == pytest.approx(
        [0.6, 1.1, 1.6, 2.1]
    )
    assert seen[1] == pytest.approx(
        [0.6, 0.62, 0.64]
    )  # tokens go on while others are prefilled


def test_a_prompt_beyond_the_budget_goes_in_alone() -> None:
    target = scheduler(budget=100)
    long, short = sequences(2, prompt_tokens=500)
    target.submit(long, now=0.0)
    target.submit(short, now=0.0)
    assert (target.running, target.waiting) == (1, 1)


def test_cached_tokens_take_nothing_of_the_budget() -> None:
    target = scheduler(budget=100)
    served(
        target, [Sequence(prompt=[7] * 401, output=[0], arrived_at=0.0, number=1)]
    )
    repeated = [
        Sequence(prompt=[7] * 401, output=[0], arrived_at=9.0, number=number)
        for number in range(2, 10)
    ]
    for one in repeated:
        target.submit(one, now=9.0)
    assert (target.running, target.waiting) == (8, 0)


def test_an_abort_gives_its_budget_back() -> None:
    target = scheduler(budget=100)
    first, second = sequences(2, prompt_tokens=100)
    target.submit(first, now=0.0)
    target.submit(second, now=0.0)
    target.abort(first, now=0.05)
    assert (target.running, target.waiting) == (1, 0)


def test_a_compilation_holds_everybody_up() -> None:
    compilations = Disturbances(
        compilations=Compilations(at_request=2, seconds=1.0)
    )
    first, second = sequences(2)
    second.arrived_at = 0.11
    seen = served(scheduler(compilations), [first, second])
    assert seen[1] == pytest.approx([0.101, 1.121, 1.141])
    assert seen[2] == pytest.approx([1.211, 1.231, 1.251])


def test_a_cold_start_holds_up_the_first_token_only() -> None:
    seen = served(
        scheduler(Disturbances(cold=Cold(requests=1, seconds=0.5))), sequences(2)
    )
    assert seen[1] == pytest.approx([0.601, 0.621, 0.641])
    assert seen[2] == pytest.approx([0.101, 0.121, 0.141])


def test_drift_slows_prefill_and_tokens() -> None:
    alternating = Disturbances(
        changes=Changes(alternate_requests=1, alternate_percent=50)
    )
    seen = served(scheduler(alternating), sequences(2))
    assert seen[1] == pytest.approx([0.101, 0.121, 0.141])
    assert seen[2] == pytest.approx([0.1515, 0.1815, 0.2115])


def test_what_others_send_moves_no_count() -> None:
    target = scheduler(Disturbances(cold=Cold(requests=1, seconds=0.5)))
    other = Sequence(prompt=[1], output=[0], arrived_at=0.0)
    seen = served(target, [other, *sequences(1, at=1.0)])
    assert seen[0] == pytest.approx([0.101])
    assert seen[1][0] == pytest.approx(1.601)


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 8), st.floats(0, 3)),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 100),
)
def test_under_all_pressures_everybody_gets_all_tokens_in_order(
    load: list[tuple[int, int, float]], budget: int
) -> None:
    disturbances = Disturbances(
        changes=Changes(
            percent_per_second=20,
            from_request=2,
            alternate_requests=2,
            alternate_percent=30,
        ),
        cold=Cold(requests=2, seconds=0.2, after_requests=1),
        compilations=Compilations(at_request=3, for_each_length=True, seconds=0.3),
    )
    arrivals = sorted(at for *_, at in load)
    prompts = [
        Sequence(
            prompt=[number] * prompt,
            output=[0] * tokens,
            arrived_at=at,
            number=number,
        )
        for number, ((prompt, tokens, _), at) in enumerate(
            zip(load, arrivals, strict=True), 1
        )
    ]
    target = scheduler(disturbances, per_running=0.002, budget=budget)
    seen = served(target, prompts)
    for one in prompts:
        assert len(seen[one.number]) == len(one.output)
        assert seen[one.number] == sorted(seen[one.number])
        assert seen[one.number][0] >= one.arrived_at + 0.1
    assert (target.running, target.waiting) == (0, 0)
