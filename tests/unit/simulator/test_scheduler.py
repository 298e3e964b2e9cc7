"""When each token appears, to the microsecond, on a clock that only the test moves."""

import pytest
from benchrun_simulator.admission import REQUESTS, TOKENS, Admission
from benchrun_simulator.generation import ApiError
from benchrun_simulator.pace import Pace, Timing
from benchrun_simulator.prefix_cache import KvCache
from benchrun_simulator.scheduler import Scheduler
from benchrun_simulator.sequence import Sequence
from hypothesis import given, strategies as st

TIMING = Timing(
    first_token_seconds=0.1, prefill_seconds_per_token=0.001, per_token_seconds=0.02
)
FOREVER = 1e9


def scheduler(
    *, blocks: int = 1000, block_size: int = 4, max_sequences: int = 8
) -> Scheduler:
    return Scheduler(
        pace=Pace(TIMING),
        cache=KvCache(blocks=blocks, block_size=block_size),
        max_sequences=max_sequences,
    )


def sequence(*, prompt: list[int], tokens: int, at: float = 0.0) -> Sequence:
    return Sequence(
        prompt=prompt, output=list(range(1000, 1000 + tokens)), arrived_at=at
    )


def submit(target: Scheduler, *sequences: Sequence) -> None:
    for one in sequences:
        target.submit(one, now=one.arrived_at)


def instants(
    target: Scheduler, *, until: float = FOREVER
) -> list[tuple[Sequence, float]]:
    return list(target.advance(until))


def due_times(one: Sequence, seen: list[tuple[Sequence, float]]) -> list[float]:
    return [due for which, due in seen if which is one]


def test_first_token_after_prefill_then_one_each_interval() -> None:
    target = scheduler()
    one = sequence(prompt=[1] * 50, tokens=3, at=5.0)
    submit(target, one)
    assert due_times(one, instants(target)) == pytest.approx([5.15, 5.17, 5.19])


def test_a_late_caller_does_not_delay_the_schedule() -> None:
    punctual = scheduler()
    late = scheduler()
    expected: list[float] = []
    found: list[float] = []
    for target, seen, pace in ((punctual, expected, 0.001), (late, found, 0.37)):
        one = sequence(prompt=[1], tokens=40)
        submit(target, one)
        now = 0.0
        while not one.finished:
            now += pace
            seen += [due for _, due in target.advance(now)]
    assert found == expected


def test_nothing_appears_before_it_is_due() -> None:
    target = scheduler()
    submit(target, sequence(prompt=[], tokens=1))
    assert target.next_due() == pytest.approx(0.1)
    assert instants(target, until=0.0999) == []
    assert len(instants(target, until=0.1)) == 1


def test_sequences_do_not_slow_each_other() -> None:
    target = scheduler(max_sequences=64)
    many = [sequence(prompt=[number], tokens=10) for number in range(64)]
    submit(target, *many)
    seen = instants(target)
    assert {round(due_times(one, seen)[-1], 6) for one in many} == {0.281}


def test_beyond_the_limit_they_wait_in_order_of_arrival_and_start_when_one_ends() -> (
    None
):
    target = scheduler(max_sequences=1)
    first, second, third = (sequence(prompt=[], tokens=2) for _ in range(3))
    submit(target, first, second, third)
    assert (target.running, target.waiting) == (1, 2)
    seen = instants(target)
    assert due_times(second, seen) == pytest.approx([0.22, 0.24])
    assert due_times(third, seen) == pytest.approx([0.34, 0.36])
    assert third.scheduled_at == pytest.approx(0.24)


def test_cached_tokens_cost_no_prefill_and_are_counted() -> None:
    target = scheduler()
    prompt = list(range(10))
    first = sequence(prompt=prompt, tokens=1)
    second = sequence(prompt=prompt, tokens=1, at=1.0)
    submit(target, first)
    instants(target, until=0.5)
    submit(target, second)
    assert due_times(second, instants(target)) == pytest.approx(
        [1.0 + 0.1 + 2 * 0.001]
    )
    assert (
        second.cached_tokens,
        target.totals.prefix_hits,
        target.totals.prefix_queries,
    ) == (
        8,
        8,
        20,
    )


def test_a_next_turn_finds_the_answer_of_the_last_one() -> None:
    target = scheduler()
    first = sequence(prompt=[1, 2, 3], tokens=10)
    submit(target, first)
    instants(target)
    # The last generated token's state was never computed: 3 + 9 tokens are three full blocks.
    second = sequence(prompt=[1, 2, 3, *first.output, 7, 8], tokens=1, at=2.0)
    submit(target, second)
    assert second.cached_tokens == 12


def test_a_prompt_that_does_not_fit_waits_and_nobody_overtakes_it() -> None:
    target = scheduler(blocks=4)
    first = sequence(prompt=list(range(12)), tokens=2)
    large = sequence(prompt=list(range(100, 112)), tokens=1)
    small = sequence(prompt=[200], tokens=1)
    submit(target, first, large, small)
    assert (target.running, target.waiting) == (1, 2)
    seen = instants(target)
    assert large.scheduled_at == pytest.approx(due_times(first, seen)[-1])
    assert small.scheduled_at == large.scheduled_at


def test_without_blocks_to_grow_the_last_admitted_is_preempted_and_finishes_later() -> (
    None
):
    target = scheduler(blocks=3)
    old = sequence(prompt=[1, 2, 3], tokens=6)
    young = sequence(prompt=[4, 5, 6], tokens=6)
    submit(target, old, young)
    seen = instants(target)
    assert target.totals.preemptions == 1
    assert (old.preemptions, young.preemptions) == (0, 1)
    assert due_times(old, seen) == pytest.approx(
        [0.103 + 0.02 * step for step in range(6)]
    )
    # Resumed when `old` ended, with its one full block still in the cache and one token to compute
    # again.
    assert due_times(young, seen)[-1] > due_times(old, seen)[-1] + 0.1
    assert len(due_times(young, seen)) == 6
    assert target.totals.prefix_queries == 6  # the second look-up is not counted


def test_the_preempted_goes_before_those_that_wait() -> None:
    target = scheduler(blocks=3, max_sequences=2)
    young = sequence(prompt=[4, 5, 6], tokens=6)
    waiting = sequence(prompt=list(range(20, 28)), tokens=1)
    submit(target, sequence(prompt=[1, 2, 3], tokens=6), young, waiting)
    seen = instants(target)
    assert young.preemptions == 1
    assert waiting.scheduled_at == pytest.approx(due_times(young, seen)[-1])


def test_the_preempted_keeps_its_first_admission() -> None:
    target = scheduler(blocks=3)
    submit(
        target,
        sequence(prompt=[1, 2, 3], tokens=6),
        young := sequence(prompt=[4, 5, 6], tokens=6),
    )
    instants(target)
    assert young.scheduled_at == 0.0


def test_a_request_is_preempted_once_though_there_is_room() -> None:
    """After its first token: its prompt and that token are computed once more."""
    target = Scheduler(
        pace=Pace(TIMING),
        cache=KvCache(blocks=100, block_size=4),
        max_sequences=8,
        preempted_request=2,
    )
    first = sequence(prompt=[1] * 50, tokens=3)
    second = sequence(prompt=[2] * 50, tokens=3)
    first.number, second.number = 1, 2
    submit(target, first, second)
    seen = instants(target)
    assert (target.totals.preemptions, first.preemptions, second.preemptions) == (
        1,
        0,
        1,
    )
    assert due_times(first, seen) == pytest.approx([0.15, 0.17, 0.19])
    # 48 tokens of the prompt are whole blocks, and found again.
    assert due_times(second, seen) == pytest.approx([0.15, 0.253, 0.273])


def test_an_aborted_sequence_reports_nothing_more_and_frees_its_place() -> None:
    target = scheduler(max_sequences=1)
    gone = sequence(prompt=[], tokens=5)
    next_one = sequence(prompt=[], tokens=1)
    submit(target, gone, next_one)
    instants(target, until=0.1)
    target.abort(gone, now=0.11)
    seen = instants(target)
    assert due_times(gone, seen) == []
    assert due_times(next_one, seen) == pytest.approx([0.21])


def test_a_waiting_sequence_can_be_aborted() -> None:
    target = scheduler(max_sequences=1)
    submit(
        target,
        sequence(prompt=[], tokens=1),
        waiting := sequence(prompt=[], tokens=1),
    )
    target.abort(waiting, now=0.01)
    assert target.waiting == 0
    assert due_times(waiting, instants(target)) == []


def test_jitter_delays_single_tokens_and_does_not_add_up() -> None:
    delays = iter([0.005, 0.0, 0.01, 0.0])
    target = Scheduler(
        pace=Pace(TIMING),
        cache=KvCache(blocks=10, block_size=4),
        max_sequences=1,
        jitter=lambda: next(delays),
    )
    one = sequence(prompt=[], tokens=4)
    submit(target, one)
    assert due_times(one, instants(target)) == pytest.approx(
        [0.105, 0.12, 0.15, 0.16]
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.floats(0, 2)),
        min_size=1,
        max_size=25,
    ),
    st.integers(10, 40),
    st.integers(1, 6),
)
def test_every_sequence_gets_all_its_tokens_whatever_the_pressure(
    load: list[tuple[int, int, float]], blocks: int, max_sequences: int
) -> None:
    kv = KvCache(blocks=blocks, block_size=4)
    target = Scheduler(pace=Pace(TIMING), cache=kv, max_sequences=max_sequences)
    arrivals = sorted(load, key=lambda entry: entry[2])
    sequences = [
        sequence(prompt=[7] * prompt, tokens=tokens, at=at)
        for prompt, tokens, at in arrivals
    ]
    seen: list[tuple[Sequence, float]] = []
    for one in sequences:
        seen += instants(target, until=one.arrived_at)
        submit(target, one)
        assert target.running <= max_sequences
    seen += instants(target)
    for one in sequences:
        due = due_times(one, seen)
        assert len(due) == len(one.output)
        assert due == sorted(due)
        assert due[0] >= one.arrived_at + TIMING.first_token_seconds
    assert (target.running, target.waiting, kv.usage) == (0, 0, 0.0)


# vLLM's own limits on its queue.


def test_without_limits_every_request_is_admitted() -> None:
    admission = Admission(max_requests=None, max_tokens=None)
    admission.check(unfinished=10**6, queued_tokens=10**9)
    assert not admission.limited


def test_requests_that_run_count_as_those_that_wait() -> None:
    admission = Admission(max_requests=3, max_tokens=None)
    admission.check(unfinished=2, queued_tokens=0)
    with pytest.raises(
        ApiError,
        match="The engine is currently busy and cannot accept new requests",
    ) as refused:
        admission.check(unfinished=3, queued_tokens=0)
    assert refused.value.status == 503
    assert b'"type":"Service Unavailable"' in refused.value.body
    assert admission.rejections == {REQUESTS: 1, TOKENS: 0}


def test_tokens_may_pass_the_limit_once() -> None:
    admission = Admission(max_requests=None, max_tokens=100)
    admission.check(unfinished=50, queued_tokens=99)
    with pytest.raises(ApiError, match="prefill token backlog limit"):
        admission.check(unfinished=50, queued_tokens=100)
    assert admission.rejections == {REQUESTS: 0, TOKENS: 1}
