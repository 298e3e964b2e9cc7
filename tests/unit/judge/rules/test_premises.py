"""Rules whose premise does not hold find nothing: requests that were sent again, caches that are
looked up again, work that no gauge shows, loads that change, several servers at one address. Each
beside the scene in which the premise holds."""

from dataclasses import replace

import pytest
from benchrun.judge.rules.failures_and_tokens import (
    chunks_are_not_tokens,
    requests_aborted,
    token_counts_disagree,
)
from benchrun.judge.rules.hardware import gpu_slowed
from benchrun.judge.rules.kv_cache import kv_recomputed, prefix_cache
from benchrun.judge.rules.replicas import MIN_SAMPLES, role_idle
from benchrun.judge.rules.rule import Code
from benchrun.judge.rules.server_identity import foreign_traffic, server_restarted
from benchrun.judge.rules.warm_up import cold_start
from benchrun.measure import Window
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import Streams
from unit.judge.rules.test_disaggregated import (
    PREFILL,
    PROMPTS,
    decode,
    stage as split_stage,
)
from unit.judge.rules.test_hardware import GPU_SERVER, gpu_samples
from unit.judge.stages import (
    context,
    findings,
    open_loop_load,
    severity,
    trace,
    unchecked,
)
from unit.measure.records import edge, record, requests, sample, served

# ---- requests that were sent once more on a new connection

AGAIN = Streams(closed=(1, 1), reconnected=1)


@pytest.mark.parametrize(("streams", "found"), [(AGAIN, False), (None, True)])
def test_a_request_that_was_sent_again_is_no_foreign_one(
    streams: Streams | None, found: bool
) -> None:
    """The server finished both, and computed the prompt twice."""
    twice = served(requests()) | {
        "request_success_total": 3.0,
        "prompt_tokens_total": 300.0,
    }
    stage = context()(record(servers=(edge(rises=twice),), streams=streams))
    assert bool(findings(foreign_traffic(stage))) is found


@pytest.mark.parametrize(("streams", "found"), [(AGAIN, False), (None, True)])
def test_what_was_sent_again_was_aborted_by_nobody(
    streams: Streams | None, found: bool
) -> None:
    counts = served(requests()) | {"finished_abort_total": 1.0}
    stage = context()(record(servers=(edge(rises=counts),), streams=streams))
    assert bool(findings(requests_aborted(stage))) is found


@pytest.mark.parametrize(("streams", "found"), [(AGAIN, False), (None, True)])
def test_tokens_of_an_attempt_that_broke_off_are_no_disagreement(
    streams: Streams | None, found: bool
) -> None:
    counts = served(requests()) | {"generation_tokens_total": 33.0}
    stage = context()(record(servers=(edge(rises=counts),), streams=streams))
    assert bool(findings(token_counts_disagree(stage))) is found


# ---- a prefix cache that is looked up twice


@pytest.mark.parametrize(("preemptions", "found"), [(1.0, False), (0.0, True)])
def test_a_preempted_request_finds_what_it_computed_itself(
    preemptions: float, found: bool
) -> None:
    """Two prompts of 100 tokens, and 300 looked up: one of them again when it resumed."""
    counts = {
        "prefix_cache_hits_total": 96.0,
        "prefix_cache_queries_total": 300.0,
        "num_preemptions_total": preemptions,
    }
    stage = context()(record(servers=(edge(rises=served(requests()) | counts),)))
    assert bool(findings(prefix_cache(stage))) is found


def test_hits_beyond_what_was_looked_up_again_are_found_all_the_same() -> None:
    counts = {
        "prefix_cache_hits_total": 196.0,
        "prefix_cache_queries_total": 300.0,
        "num_preemptions_total": 1.0,
    }
    stage = context()(record(servers=(edge(rises=served(requests()) | counts),)))
    assert severity(prefix_cache(stage)) is not None


@pytest.mark.parametrize(("is_counted", "found"), [(False, False), (True, True)])
def test_what_decode_had_in_its_own_cache_must_be_known(
    is_counted: bool, found: bool
) -> None:
    server = decode(0.0)
    if not is_counted:
        name = "prefix_cache_hits_total"
        snapshots = (
            {key: value for key, value in (each or {}).items() if key != name}
            for each in (server.before, server.after)
        )
        server = server.model_copy(
            update=dict(zip(("before", "after"), snapshots, strict=True))
        )
    every = list(kv_recomputed(context()(split_stage(PREFILL, server))))
    assert (bool(findings(every)), bool(unchecked(every))) == (found, not found)
    assert PROMPTS > 0


# ---- work that no gauge shows


def of_role(
    role: str, count: int, *, waiting: float = 0.0, tokens: float = 0.0
) -> list[Sample]:
    """Never with a request that runs; `tokens` are prefilled between two samples."""
    return [
        sample(
            1000.0 + i,
            role=role,
            pod=role,
            running=0.0,
            waiting=waiting,
            prompt_tokens=tokens * i,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize(("tokens", "found"), [(5000.0, False), (0.0, True)])
def test_a_server_whose_counters_move_is_not_idle(
    tokens: float, found: bool
) -> None:
    """Prompts are prefilled within a step, which no gauge shows."""
    windows = (
        Window("prefill", tuple(of_role("prefill", 20, tokens=tokens)), (), 20),
        Window("decode", tuple(of_role("decode", 20, waiting=9.0)), (), 20),
    )
    assert bool(findings(role_idle(context(windows=windows)(record())))) is found


def test_what_decodes_for_a_moment_between_two_samples_is_idle_else() -> None:
    """Decoding takes many steps: the gauge sees its share of the time."""
    windows = (
        Window("prefill", tuple(of_role("prefill", 20, waiting=9.0)), (), 20),
        Window("decode", tuple(of_role("decode", 20, tokens=50.0)), (), 20),
    )
    (found,) = findings(role_idle(context(windows=windows)(record())))
    assert (found.evidence["idleRole"], found.evidence["idlePercent"]) == (
        "decode",
        100,
    )


@pytest.mark.parametrize(
    ("count", "is_checked"), [(MIN_SAMPLES - 1, False), (MIN_SAMPLES, True)]
)
def test_a_few_samples_do_not_say_that_a_role_is_idle(
    count: int, is_checked: bool
) -> None:
    windows = (
        Window("prefill", tuple(of_role("prefill", count)), (), 20),
        Window("decode", tuple(of_role("decode", 20, waiting=9.0)), (), 20),
    )
    every = list(role_idle(context(windows=windows)(record())))
    assert (bool(findings(every)), bool(unchecked(every))) == (
        is_checked,
        not is_checked,
    )


# ---- clocks of a load that changes

FALLEN = [1980.0] * 10 + [1200.0] * 10


@pytest.mark.parametrize(("follows_trace", "found"), [(True, False), (False, True)])
def test_a_clock_that_falls_with_the_trace_is_no_fall(
    follows_trace: bool, found: bool
) -> None:
    samples = tuple(gpu_samples(FALLEN, gpu_slowed=0.0, gpu_power_capped=0.0))
    windows = (Window("server", samples, (edge(),), expected=len(samples)),)
    load = trace() if follows_trace else open_loop_load(rate=None)
    stage = context(load=load, windows=windows, servers=(GPU_SERVER,))(record())
    assert bool(findings(gpu_slowed(stage))) is found


@pytest.mark.parametrize(("running", "found"), [(0.0, False), (1.0, True)])
def test_a_clock_that_falls_where_nothing_runs_is_no_fall(
    running: float, found: bool
) -> None:
    samples = gpu_samples(FALLEN, gpu_slowed=0.0, gpu_power_capped=0.0)
    late = [replace(each, running=running, waiting=0.0) for each in samples[11:]]
    windows = (Window("server", (*samples[:11], *late), (edge(),), expected=21),)
    stage = context(windows=windows, servers=(GPU_SERVER,))(record())
    assert bool(findings(gpu_slowed(stage))) is found


# ---- a trace that begins with a burst


@pytest.mark.parametrize(("apart_ms", "found"), [(0, False), (100, True)])
def test_a_burst_that_waits_for_itself_is_not_cold(
    apart_ms: int, found: bool
) -> None:
    """Five prompts at once take five times as long as one; five that come one by one do not."""
    ttft = [50_000 * (i + 1) + 300_000 for i in range(3)] + [20_000] * 97
    starts = [1000 * apart_ms * i for i in range(3)] + [
        10_000_000 + 100_000 * i for i in range(97)
    ]
    columns = requests(
        ttft_us=ttft,
        e2el_us=[
            1_000_000 if i < 3 else each + 980_000 for i, each in enumerate(ttft)
        ],
        output_tokens=[9] * 100,
        start_us=starts,
    )
    load = trace()
    stage = context(load=load)(record(requests=columns))
    assert bool(findings(cold_start(stage))) is found


# ---- several servers behind one address


@pytest.mark.parametrize(
    ("starts", "found"),
    [([1000.0, 1500.0] * 3, False), ([1000.0] * 3 + [1500.0] * 3, True)],
)
def test_servers_that_answer_by_turns_did_not_restart(
    starts: list[float], found: bool
) -> None:
    samples = tuple(
        sample(1000.0 + i, start_time=start) for i, start in enumerate(starts)
    )
    windows = (Window("server", samples, (), 6),)
    servers = (edge(after={"process_start_time_seconds": 1500.0}),)
    every = list(
        server_restarted(context(windows=windows)(record(servers=servers)))
    )
    assert (bool(findings(every)), bool(unchecked(every))) == (found, not found)


# ---- tokens that the server does not count


def test_chunks_are_not_held_against_tokens_that_nobody_counted() -> None:
    none = requests(output_tokens=(0, 0), asked_tokens=(11, 11))
    uncounted = record(requests=none, streams=Streams(closed=(1, 1), uncounted=2))
    (missed,) = unchecked(chunks_are_not_tokens(context()(uncounted)))
    assert missed.code is Code.CHUNKS_ARE_NOT_TOKENS
