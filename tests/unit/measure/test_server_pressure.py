"""What held requests back, reading by reading."""

from collections.abc import Sequence

import pytest
from benchrun.measure import (
    Hold,
    MeanLengths,
    Pressure,
    ServerLimits,
    bucketed,
    pressure,
    running_by_step,
    server_limits,
)
from benchrun_client.engines import ENGINES
from unit.measure.records import sample
from unit.measure.timelines import Gauges, gauge_samples, window

VLLM = ENGINES["VLLM"]

LENGTHS = MeanLengths(prompt=1000.0, output=100.0)
UNKNOWN = ServerLimits()


def under(
    gauges: Sequence[Gauges],
    limits: ServerLimits = UNKNOWN,
    *,
    lengths: MeanLengths | None = LENGTHS,
    preemptions: float = 0,
) -> Pressure:
    found = pressure(
        [window(gauge_samples(gauges), preemptions=preemptions)], limits, lengths
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("hold", "gauges", "limits", "preemptions"),
    [
        pytest.param(
            Hold.SEQUENCES,
            [(2, 6, 0.1)] * 9,
            ServerLimits(sequences=2),
            0,
            id="at the limit that is set",
        ),
        pytest.param(
            Hold.STEP,
            [(2, 6, 0.1)] * 9,
            ServerLimits(sequences=4),
            0,
            id="below it with room",
        ),
        pytest.param(
            Hold.SEQUENCES,
            [(1, 300, 0.0)] * 6 + [(16, 284, 0.1)] * 2,
            ServerLimits(sequences=16),
            0,
            id="at the limit, where all end together and few are told of meanwhile",
        ),
        pytest.param(
            Hold.STEP,
            [(0, 6, 0.1)] * 9,
            ServerLimits(sequences=4),
            0,
            id="none ever seen running",
        ),
        pytest.param(
            Hold.SEQUENCES,
            [(2, 6, 0.99)] * 9,
            ServerLimits(sequences=2),
            0,
            id="the limit is asked first",
        ),
        pytest.param(
            Hold.SEQUENCES,
            [(32, 6, 0.1)] * 9,
            UNKNOWN,
            0,
            id="a ceiling that nothing else explains",
        ),
        pytest.param(
            Hold.STEP,
            [(32, 6, 0.1)] * 4,
            UNKNOWN,
            0,
            id="four readings are no ceiling",
        ),
        pytest.param(
            Hold.STEP,
            [(32 + i % 3, 6, 0.1) for i in range(9)],
            UNKNOWN,
            0,
            id="nor is what wavers",
        ),
        pytest.param(
            Hold.STEP,
            [(33, 6, 0.1)] * 9,
            ServerLimits(default_sequences_step=128),
            0,
            id="no default is 33",
        ),
        pytest.param(
            Hold.SEQUENCES,
            [(256, 16, 0.1)] * 9,
            ServerLimits(default_sequences_step=128),
            0,
            id="one is 256",
        ),
        pytest.param(
            Hold.STEP,
            [(800, 90, 0.1)] * 9,
            ServerLimits(step_tokens=8000),
            0,
            id="the step's tokens explain it",
        ),
        pytest.param(
            Hold.KV_CACHE,
            [(40, 60, 0.97)] * 9,
            ServerLimits(sequences=256),
            0,
            id="the cache is full",
        ),
        pytest.param(
            Hold.KV_CACHE,
            [(40, 60, 0.97)] * 9,
            UNKNOWN,
            0,
            id="a ceiling under a full cache is the cache's",
        ),
        pytest.param(
            Hold.STEP,
            [(40 + i, 60, 0.92) for i in range(9)],
            UNKNOWN,
            0,
            id="it has room for another",
        ),
        pytest.param(
            Hold.KV_CACHE,
            [(3 + i % 2, 6, 0.8) for i in range(9)],
            ServerLimits(kv_cache_tokens=4000),
            0,
            id="but not for a long one: a thousand tokens do not fit a fifth of 4000",
        ),
        pytest.param(
            Hold.KV_CACHE,
            [(40 + i, 60, 0.92) for i in range(9)],
            UNKNOWN,
            3,
            id="preempting shows it was full",
        ),
        pytest.param(
            None,
            [(40 + i, 60, None) for i in range(9)],
            UNKNOWN,
            0,
            id="whether it has room is not known",
        ),
        pytest.param(
            Hold.KV_CACHE,
            [(40 + i, 60, 0.99) for i in range(6)]
            + [(50 + i, 60, 0.5) for i in range(3)],
            UNKNOWN,
            0,
            id="most readings decide",
        ),
        pytest.param(None, [(40, 0, 0.99)] * 9, UNKNOWN, 0, id="nobody waits"),
    ],
)
def test_hold(
    hold: Hold | None,
    gauges: list[Gauges],
    limits: ServerLimits,
    preemptions: float,
) -> None:
    assert under(gauges, limits, preemptions=preemptions).hold is hold


@pytest.mark.parametrize(
    ("hold", "running", "limits", "output_tokens"),
    [
        pytest.param(
            None,
            0,
            ServerLimits(sequences=16),
            1,
            id="all of one token end with their step",
        ),
        pytest.param(None, 14, ServerLimits(sequences=16), 12, id="one in twelve"),
        pytest.param(
            Hold.STEP, 8, ServerLimits(sequences=16), 12, id="too few for that"
        ),
        pytest.param(
            Hold.STEP,
            1,
            ServerLimits(sequences=16, step_tokens=2000),
            2,
            id="the tokens of a step allow fewer",
        ),
        pytest.param(
            None,
            8,
            ServerLimits(sequences=16, step_tokens=8000),
            2,
            id="or as many",
        ),
    ],
)
def test_requests_that_end_with_a_step_are_not_counted_after_it(
    hold: Hold | None, running: int, limits: ServerLimits, output_tokens: float
) -> None:
    assert (
        under(
            [(running, 40, 0.1)] * 9,
            limits,
            lengths=MeanLengths(1000, output_tokens),
        ).hold
        is hold
    )


@pytest.mark.parametrize(
    ("queued", "gauge", "limits"),
    [
        pytest.param(9, (64, 4, 0.1), UNKNOWN, id="a twentieth of those running"),
        pytest.param(0, (100, 4, 0.1), UNKNOWN, id="fewer are on their way in"),
        pytest.param(
            9, (256, 1, 0.1), ServerLimits(sequences=256), id="one, at the limit"
        ),
        pytest.param(9, (100, 1, 0.99), UNKNOWN, id="one, at a full cache"),
        pytest.param(
            0, (256, 0, 0.99), ServerLimits(sequences=256), id="none, at the limit"
        ),
    ],
)
def test_samples_with_a_queue_are_counted(
    queued: int, gauge: Gauges, limits: ServerLimits
) -> None:
    gauges = (
        [gauge] * 9
        if limits.sequences
        else [(gauge[0] + i % 2, *gauge[1:]) for i in range(9)]
    )
    assert under([(r, w, u) for r, w, u in gauges], limits).queued == queued


def test_figures() -> None:
    found = under(
        [(0, 0, 0.0), (2, 6, 0.25), (2, 4, 0.5), (1, 0, 0.125)],
        ServerLimits(sequences=2),
        preemptions=3,
    )
    assert found == Pressure(
        samples=3,
        queued=2,
        running_mean=5 / 3,
        running_max=2.0,
        queued_running=2.0,
        waiting_mean=10 / 3,
        waiting_max=6.0,
        kv_mean_percent=21.875,
        kv_max_percent=50.0,
        preemptions=3.0,
        prefix_hit_percent=0.0,
        hold=Hold.SEQUENCES,
        sequence_limit=2,
        sequence_limit_is_set=True,
    )


def test_an_idle_or_silent_server_is_under_no_pressure() -> None:
    assert pressure([], UNKNOWN, LENGTHS) is None
    assert (
        pressure([window(gauge_samples([(0, 0, 0.0)]))], UNKNOWN, LENGTHS) is None
    )
    assert (
        pressure([window([sample(1000.0, running=None)])], UNKNOWN, LENGTHS) is None
    )


def test_running_by_the_tokens_of_a_step() -> None:
    """Ten thousand tokens take eight prompts of 1251, each there for four steps."""
    assert running_by_step(
        ServerLimits(step_tokens=10_000), MeanLengths(1251, 4)
    ) == pytest.approx(32, rel=0.01)
    assert running_by_step(ServerLimits(step_tokens=512), MeanLengths(1251, 4)) == 4
    assert running_by_step(ServerLimits(), MeanLengths(1251, 4)) is None
    assert running_by_step(ServerLimits(step_tokens=512), None) is None


@pytest.mark.parametrize(
    ("sequences", "args"),
    [
        pytest.param(256, ["--max-num-seqs=256"], id="with an equals sign"),
        pytest.param(256, ["--max-num-seqs", "256"], id="as two words"),
        pytest.param(256, ["--max_num_seqs=256"], id="with underscores"),
        pytest.param(1000, ["--max-num-seqs=1k"], id="thousands"),
        pytest.param(1024, ["--max-num-seqs=1K"], id="binary thousands"),
        pytest.param(2500, ["--max-num-seqs=2.5k"], id="decimals"),
        pytest.param(
            2, ["--max-num-seqs=9", "--max-num-seqs", "2"], id="the last one holds"
        ),
        pytest.param(
            8, ["--max-num-seqs=2", "--data-parallel-size=4"], id="of all engines"
        ),
        pytest.param(None, ["--max-num-seqs"], id="no value"),
        pytest.param(None, ["--max-num-seqs=many"], id="no number"),
        pytest.param(None, ["--max-num-seqs=0"], id="no limit at all"),
        pytest.param(
            None, ["max-num-seqs=4", "--max-num-seqs-x=4"], id="other arguments"
        ),
    ],
)
def test_the_most_sequences(sequences: int | None, args: Sequence[str]) -> None:
    assert server_limits(args, VLLM).sequences == sequences


def test_tokens_of_a_step() -> None:
    assert (
        server_limits(["--max-num-batched-tokens", "8K"], VLLM).step_tokens == 8192
    )


def test_what_the_server_reports_fills_the_gaps() -> None:
    reported = {
        "max_num_seqs": "7",
        "max_num_batched_tokens": "2048",
        "kv_cache_size_tokens": "5000",
    }
    found = server_limits(["--max-num-seqs=3"], VLLM, reported)
    assert (found.sequences, found.step_tokens, found.kv_cache_tokens) == (
        3,
        2048,
        5000,
    )
    assert (
        server_limits((), VLLM, reported, kv_cache_tokens=6000).kv_cache_tokens
        == 6000
    )


@pytest.mark.parametrize(
    ("default", "args"),
    [
        pytest.param(True, [], id="no argument"),
        pytest.param(True, ["--enforce-eager"], id="others only"),
        pytest.param(False, ["--max-num-seqs=4"], id="set"),
        pytest.param(False, ["--config=server.yaml"], id="a file may set it"),
        pytest.param(False, None, id="arguments not known"),
    ],
)
def test_whether_a_default_holds(default: bool, args: Sequence[str] | None) -> None:
    assert (server_limits(args, VLLM).default_sequences_step == 128) is default


def test_nothing_known() -> None:
    assert server_limits(None, VLLM) == ServerLimits()


def test_the_caches_of_several_engines_hold_no_longer_prompts_together() -> None:
    """Eight engines of 100,000 tokens: a prompt of 30,000 finds no room in one that is full to 75
    %."""
    args = ["--data-parallel-size=8", "--max-num-batched-tokens=8192"]
    limits = server_limits(args, VLLM, kv_cache_tokens=800_000)
    assert (limits.engines, limits.step_tokens) == (8, 8192)
    under = pressure(
        [window(gauge_samples([(64, 8, 0.75)] * 6))],
        limits,
        MeanLengths(30_000, 10),
    )
    assert under is not None
    assert under.hold is Hold.KV_CACHE
    assert running_by_step(limits, MeanLengths(4096, 10)) == 8 * 2 * 10


@pytest.mark.parametrize(
    ("hold", "limits", "gauges"),
    [
        pytest.param(
            Hold.STEP,
            UNKNOWN,
            [(8 + i % 4, 4, 1.0 if i == 7 else 0.6) for i in range(16)],
            id="full for a moment",
        ),
        pytest.param(
            Hold.KV_CACHE,
            UNKNOWN,
            [(8 + i % 4, 4, 0.9 if i == 7 else 0.99) for i in range(16)],
            id="full but for one",
        ),
        pytest.param(
            Hold.SEQUENCES,
            ServerLimits(sequences=64),
            [(64, 4, 0.6)] * 14 + [(50, 4, 0.6), (64, 4, 1.0)],
            id="all places taken but for a moment",
        ),
        pytest.param(
            Hold.SEQUENCES,
            UNKNOWN,
            [(255 if i % 12 == 5 else 256, 20, 0.6) for i in range(160)],
            id="a ceiling that nobody told, but for moments",
        ),
        pytest.param(
            Hold.STEP,
            UNKNOWN,
            [(2 + (i % 16 < 4) + (i % 16 < 2), 4, 0.6) for i in range(160)],
            id="no ceiling: two to four run",
        ),
        pytest.param(
            Hold.KV_CACHE,
            ServerLimits(sequences=8),
            [(8 if i == 7 else 7, 4, 0.97) for i in range(16)],
            id="full, with all places taken for a moment",
        ),
    ],
)
def test_buckets_say_what_their_samples_say(
    hold: Hold, limits: ServerLimits, gauges: list[Gauges]
) -> None:
    samples = gauge_samples(gauges)
    highest = 100 * max(usage or 0.0 for *_, usage in gauges)
    for each in (samples, bucketed(samples, 16)):
        under = pressure([window(each)], limits, LENGTHS)
        assert under is not None
        assert under.hold is hold
        assert under.kv_max_percent == pytest.approx(highest)
