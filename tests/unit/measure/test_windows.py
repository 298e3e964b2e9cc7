"""Which readings belong to a stage. The default record runs from second 1000 to 1010 and generates
tokens 0 to 22."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from benchrun.api import START_DECIMALS, RoleFigures, Sample
from benchrun.measure import (
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    Window,
    bucketed,
    figures,
    stage_windows,
)
from benchrun_client.contract import START_TIME, ServerEdge, StageRecord
from hypothesis import given, strategies as st
from unit.measure.records import ZERO, edge, record, sample

FROM_5_TO_27 = (edge(before={GENERATION_TOKENS: 5.0}),)
DURING = 1005.0
ELSEWHEN = 5.0


def inside(stage: StageRecord, *samples: Sample) -> tuple[Sample, ...]:
    return tuple(
        s
        for window in stage_windows(stage, samples, scrape_interval=1.0)
        for s in window.samples
    )


@pytest.mark.parametrize(
    ("belongs", "tokens", "running", "waiting"),
    [
        pytest.param(True, 6.0, 1.0, 0.0, id="between the edges"),
        pytest.param(
            True,
            6.0,
            0.0,
            0.0,
            id="between the edges while idle: a pause of the load",
        ),
        pytest.param(
            True, 5.0, 1.0, 0.0, id="at the first edge with a prefill running"
        ),
        pytest.param(
            True, 5.0, 0.0, 3.0, id="at the first edge with requests waiting"
        ),
        pytest.param(
            False,
            5.0,
            0.0,
            0.0,
            id="at the first edge while idle: before the stage",
        ),
        pytest.param(
            False,
            5.0,
            None,
            None,
            id="at the first edge without a word on requests",
        ),
        pytest.param(
            False, 27.0, 0.0, 0.0, id="at the last edge while idle: after the stage"
        ),
        pytest.param(
            False,
            27.0,
            2.0,
            0.0,
            id="at the last edge while busy: the next stage's prefill",
        ),
        pytest.param(False, 4.0, 1.0, 0.0, id="before the first edge: the warm-up"),
        pytest.param(False, 28.0, 1.0, 0.0, id="past the last edge"),
        pytest.param(False, None, 1.0, 0.0, id="a reading without the count"),
    ],
)
@pytest.mark.parametrize(
    "at", [DURING, ELSEWHEN], ids=["clocks agree", "clocks differ"]
)
def test_a_sample_belongs_by_the_servers_count(
    belongs: bool,
    tokens: float | None,
    running: float | None,
    waiting: float | None,
    at: float,
) -> None:
    latest = sample(at, generation_tokens=tokens, running=running, waiting=waiting)
    assert inside(record(servers=FROM_5_TO_27), latest) == (
        (latest,) if belongs else ()
    )


def test_a_bucket_that_reaches_into_the_next_stage_is_left_out_where_there_are_others() -> (
    None
):
    counts = ((6.0, 10.0), (12.0, 20.0), (22.0, 28.0))
    buckets = [
        read
        for n, pair in enumerate(counts)
        for read in bucketed(
            [
                sample(DURING + n + i / 2, generation_tokens=each)
                for i, each in enumerate(pair)
            ],
            2,
        )
    ]
    measured = record(servers=FROM_5_TO_27)
    assert inside(measured, *buckets) == tuple(buckets[:2])
    assert inside(measured, buckets[2]) == (buckets[2],)


def test_the_most_of_a_figure_is_the_most_of_its_buckets() -> None:
    usage = [0.4, 1.0, 0.5, 0.5]
    found = bucketed(
        [
            sample(1001.0 + i, kv_cache=each, waiting=10 * each)
            for i, each in enumerate(usage)
        ],
        4,
    )
    of_role = figures([Window("server", found, (edge(),), expected=4.0)])
    assert (of_role.kv_cache_max_percent, of_role.waiting_max) == (100.0, 10.0)
    assert of_role.kv_cache_mean_percent == pytest.approx(60.0)


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param(
            (ServerEdge(address="a", before=ZERO, after=None),),
            id="the closing edge could not be read",
        ),
        pytest.param(
            (ServerEdge(address="a", before=None, after=ZERO),),
            id="nor the opening one",
        ),
        pytest.param((), id="no edges at all"),
        pytest.param(
            (edge(rises={PREFIX_QUERIES: 1.0}),), id="no token was generated"
        ),
        pytest.param(
            (ServerEdge(address="a", before={}, after={}),), id="no counters"
        ),
        pytest.param(
            (
                edge("a", before={START_TIME: 7.0}),
                edge("b", before={START_TIME: 8.0}),
            ),
            id="unknown servers",
        ),
        pytest.param((edge("a"), edge("b")), id="servers that can't be told apart"),
    ],
)
def test_where_counts_cannot_tell_the_clients_clock_does(
    servers: tuple[ServerEdge, ...],
) -> None:
    before, during, after = (
        sample(at, generation_tokens=99.0) for at in (999.9, 1000.0, 1010.1)
    )
    assert inside(record(servers=servers), before, during, after) == (during,)


def test_samples_of_an_earlier_process_are_excluded() -> None:
    instant = 1763748999.1234567
    servers = (
        edge(
            before={START_TIME: instant, GENERATION_TOKENS: 5.0},
            rises={GENERATION_TOKENS: 22.0},
        ),
    )
    gone = sample(
        990.0, start_time=1763748888.0, generation_tokens=9.0, running=1.0
    )
    there = sample(
        DURING,
        start_time=round(instant, START_DECIMALS),
        generation_tokens=9.0,
        running=1.0,
    )
    came_later = sample(
        DURING + 1, start_time=1763749555.0, generation_tokens=9.0, running=1.0
    )
    assert inside(record(servers=servers), gone, there, came_later) == (
        there,
        came_later,
    )


def test_servers_are_matched_by_a_start_time_more_precise_than_kept() -> None:
    instant = (1763748999.1234567, 1763748999.7654321)
    servers = tuple(
        edge(name, before={START_TIME: at, GENERATION_TOKENS: 5.0})
        for name, at in zip("ab", instant, strict=True)
    )
    samples = [
        sample(
            ELSEWHEN,
            pod=pod,
            start_time=round(at, START_DECIMALS),
            generation_tokens=6.0,
            running=1.0,
        )
        for pod, at in zip("ab", instant, strict=True)
    ]
    assert inside(record(servers=servers), *samples) == tuple(samples)


def test_servers_are_matched_by_their_start_time() -> None:
    first = sample(ELSEWHEN, pod="a", start_time=1.0, generation_tokens=50.0)
    second = sample(ELSEWHEN, pod="b", start_time=2.0, generation_tokens=50.0)
    servers = (
        edge("b", before={START_TIME: 2.0, GENERATION_TOKENS: 49.0}),
        edge("a", before={START_TIME: 1.0, GENERATION_TOKENS: 0.0}),
    )
    assert inside(record(servers=servers), first, second) == (second,)


@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=40).map(sorted),
    edges=st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True).map(
        sorted
    ),
    busy=st.booleans(),
)
def test_stages_in_a_row_never_share_a_sample(
    counts: list[int], edges: list[int], busy: bool
) -> None:
    samples = [
        sample(float(i), generation_tokens=float(count), running=float(busy))
        for i, count in enumerate(counts)
    ]
    stages = [
        record(
            servers=(
                edge(
                    before={GENERATION_TOKENS: float(low)},
                    rises={GENERATION_TOKENS: float(high - low)},
                ),
            ),
            first_send_unix_us=0,
            last_receive_unix_us=0,
        )
        for low, high in pairwise(edges)
    ]
    taken = [latest.at for stage in stages for latest in inside(stage, *samples)]
    assert len(taken) == len(set(taken))
    if busy:
        assert len(taken) == sum(edges[0] <= count < edges[-1] for count in counts)


def only(
    stage: StageRecord, *samples: Sample, scrape_interval: float = 1.0
) -> RoleFigures:
    (window,) = stage_windows(stage, samples, scrape_interval=scrape_interval)
    return figures([window])


def test_figures_of_a_role() -> None:
    stage = record(
        servers=(
            edge(
                rises={
                    GENERATION_TOKENS: 22.0,
                    PREEMPTIONS: 3.0,
                    PREFIX_QUERIES: 200.0,
                    PREFIX_HITS: 1.0,
                }
            ),
        )
    )
    samples = (
        sample(1001, running=1.0, waiting=0.0, kv_cache=0.1, generation_tokens=1.0),
        sample(1002, running=3.0, waiting=4.0, kv_cache=0.5, generation_tokens=9.0),
        sample(
            1099, running=9.0, waiting=9.0, kv_cache=0.9, generation_tokens=22.0
        ),
    )
    assert only(stage, *samples) == RoleFigures(
        role="server",
        running_mean=2.0,
        running_max=3.0,
        waiting_mean=2.0,
        waiting_max=4.0,
        kv_cache_mean_percent=30.0,
        kv_cache_max_percent=50.0,
        preemptions=3.0,
        prefix_hit_percent=0.5,
        samples=2,
        coverage_percent=20.0,  # 2 of the 10 that one a second gives in 10 s
        transfer_failures=0.0,
    )


@pytest.mark.parametrize(
    ("percent", "count", "interval"),
    [
        pytest.param(50.0, 5, 1.0, id="half of them"),
        pytest.param(100.0, 5, 2.0, id="all at a longer interval"),
        pytest.param(100.0, 15, 1.0, id="never more than all"),
    ],
)
def test_coverage(percent: float, count: int, interval: float) -> None:
    samples = [sample(1000.0 + i / 10) for i in range(count)]
    assert (
        only(record(), *samples, scrape_interval=interval).coverage_percent
        == percent
    )


def test_coverage_counts_every_server_that_was_read_meanwhile() -> None:
    samples = [sample(1000.0 + i, pod=pod) for pod in ("a", "b") for i in range(5)]
    gone = [sample(10.0, pod="gone")]
    assert only(record(servers=()), *samples, *gone).coverage_percent == 50.0


def test_a_silent_page_leaves_figures_empty_but_counts_as_read() -> None:
    found = only(
        record(servers=()),
        sample(
            1005, running=None, waiting=None, kv_cache=None, generation_tokens=None
        ),
    )
    assert (
        found.running_mean,
        found.waiting_max,
        found.kv_cache_mean_percent,
        found.samples,
    ) == (
        None,
        None,
        None,
        1,
    )


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((edge(after={START_TIME: 2000.0}),), id="restart"),
        pytest.param(
            (edge(before={PREEMPTIONS: 5.0}, after={PREEMPTIONS: 1.0}),),
            id="a fallen counter",
        ),
        pytest.param(
            (ServerEdge(address="a", before=ZERO, after=None),), id="an unread edge"
        ),
    ],
)
def test_counts_over_a_reset_are_none(servers: tuple[ServerEdge, ...]) -> None:
    found = only(record(servers=servers), sample(1005))
    assert (found.preemptions, found.prefix_hit_percent) == (None, None)


def test_one_stage_without_counts_leaves_the_load_point_without() -> None:
    good, bad = (Window("server", (), servers, 1.0) for servers in ((edge(),), ()))
    assert figures([good]).preemptions == 0.0
    assert figures([good, bad]).preemptions is None


def test_no_look_ups_have_no_hit_percent() -> None:
    assert (
        only(
            record(servers=(edge(rises={GENERATION_TOKENS: 1.0}),)), sample(1005)
        ).prefix_hit_percent
        is None
    )


def test_stages_of_a_load_point_are_weighed_by_their_samples() -> None:
    def window(*running: float) -> Window:
        return Window(
            "server",
            tuple(sample(1001, running=value) for value in running),
            (edge(),),
            expected=2.0,
        )

    pooled = figures([window(1.0), window(4.0, 4.0, 4.0)])
    assert (
        pooled.running_mean,
        pooled.running_max,
        pooled.samples,
        pooled.coverage_percent,
    ) == (
        3.25,
        4.0,
        4,
        100.0,
    )


def fleet(
    *servers: str, pods: dict[str, list[tuple[float, float, float]]]
) -> Window:
    """Instant, running and waiting, by pod."""
    samples = (
        sample(at, pod=pod, running=running, waiting=waiting)
        for pod, read in pods.items()
        for at, running, waiting in read
    )
    return Window(
        "server", tuple(samples), (), expected=6.0, servers=len(servers or pods)
    )


def test_running_and_waiting_of_three_servers_are_their_sum() -> None:
    """At 1, 2 and 3 s: 10 + 20 + 6, 12 + 20 + 4, 11 + 26 + 8."""
    pods = {
        "a": [(1.0, 10.0, 0.0), (2.0, 12.0, 0.0), (3.0, 11.0, 1.0)],
        "b": [(1.0, 20.0, 2.0), (2.0, 20.0, 0.0), (3.0, 26.0, 4.0)],
        "c": [(1.0, 6.0, 1.0), (2.0, 4.0, 0.0), (3.0, 8.0, 1.0)],
    }
    found = figures([fleet(pods=pods)])
    assert (found.running_mean, found.running_max) == (39.0, 45.0)
    assert (found.waiting_mean, found.waiting_max, found.samples) == (3.0, 6.0, 9)


def test_servers_scraped_at_other_instants_count_with_their_latest_sample() -> None:
    """5 + 7 twice, 9 + 7, 9 + 3; b has ended when a is seen for the last time."""
    pods = {
        "a": [(1.0, 5.0, 0.0), (2.0, 9.0, 0.0), (4.0, 2.0, 0.0)],
        "b": [(1.5, 7.0, 0.0), (2.5, 3.0, 0.0)],
    }
    found = figures([fleet(pods=pods)])
    assert (found.running_mean, found.running_max) == (
        (12 + 12 + 16 + 12 + 2) / 5,
        16.0,
    )


def test_servers_that_are_equally_busy_add_up_however_few_their_samples() -> None:
    """Eight of ten running each, scraped one after another."""
    pods = {
        f"s{n}": [(second + n / 1000, 10.0, 0.0) for second in range(10)]
        for n in range(8)
    }
    assert figures([fleet(*pods, pods=pods)]).running_mean == 80.0


def test_of_a_server_without_a_sample_the_sum_is_not_known() -> None:
    found = figures([fleet("a", "b", pods={"a": [(1.0, 5.0, 0.0)]})])
    assert (found.running_mean, found.waiting_max, found.kv_cache_max_percent) == (
        None,
        None,
        50.0,
    )


def test_the_kv_cache_is_that_of_the_fullest_server() -> None:
    samples = (
        sample(1.0, pod="a", kv_cache=0.2),
        sample(1.0, pod="b", kv_cache=0.9),
    )
    assert (
        figures(
            [Window("server", samples, (), expected=2.0, servers=2)]
        ).kv_cache_max_percent
        == 90.0
    )


def test_every_role_has_its_own_window_and_edges() -> None:
    servers = (
        edge("p", before={START_TIME: 1.0}, role="prefill"),
        edge(
            "d", before={START_TIME: 2.0}, rises={PREEMPTIONS: 7.0}, role="decode"
        ),
        edge("x", role="proxy"),
    )
    samples = (
        sample(1001, role="prefill", pod="p", start_time=1.0),
        sample(1001, role="decode", pod="d", start_time=2.0),
    )
    found = stage_windows(record(servers=servers), samples, scrape_interval=1.0)
    assert [(w.role, w.edges) for w in found] == [
        ("prefill", servers[:1]),
        ("decode", servers[1:2]),
    ]


@pytest.mark.parametrize(
    ("expected", "servers"),
    [
        pytest.param((), (), id="no edges either: nothing to say"),
        pytest.param(
            (Window("server", (), (edge(),), 10.0),),
            (edge(),),
            id="the edges alone",
        ),
    ],
)
def test_without_samples_the_window_has_its_edges_only(
    expected: tuple[Window, ...], servers: Any
) -> None:
    assert (
        stage_windows(record(servers=servers), (), scrape_interval=1.0) == expected
    )


@dataclass(frozen=True)
class Second:
    """One second of the server's life; `stage` is None between stages."""

    stage: int | None
    tokens: float
    running: float


@st.composite
def lives(draw: st.DrawFn) -> list[Second]:
    """A warm-up, then stages of prefill and decode with pauses between; tokens only rise."""
    life = [
        Second(None, 0.0, 0.0),
        Second(None, 49.0, 1.0),
        Second(None, 50.0, 0.0),
    ]
    tokens = 50.0
    for stage in range(draw(st.integers(1, 4))):
        running = float(draw(st.integers(1, 9)))
        life += [Second(stage, tokens, running)] * draw(st.integers(0, 3))
        for _ in range(draw(st.integers(1, 6))):
            tokens += draw(st.integers(1, 100))
            life.append(Second(stage, tokens, running))
        # The last token of the stage comes with its last answer: from then on the server is idle.
        tokens += 1
        life += [Second(None, tokens, 0.0)] * draw(st.integers(0, 3))
    return life


def stages_of(life: list[Second], *, client_is_ahead: float) -> list[StageRecord]:
    """What the client would report of it."""
    found = []
    before = 50.0  # what the warm-up generated
    for stage in sorted(
        {second.stage for second in life if second.stage is not None}
    ):
        at = [i for i, second in enumerate(life) if second.stage == stage]
        after = life[at[-1]].tokens + 1
        found.append(
            record(
                f"chat/rate={stage + 1}/r1",
                scalars={"duration": float(len(at))},
                servers=(
                    edge(
                        before={GENERATION_TOKENS: before},
                        rises={GENERATION_TOKENS: after - before},
                    ),
                ),
                first_send_unix_us=int((1000 + at[0] + client_is_ahead) * 1e6),
                last_receive_unix_us=int((1000 + at[-1] + client_is_ahead) * 1e6),
            )
        )
        before = after
    return found


def samples_of(life: list[Second]) -> list[Sample]:
    """What the operator would read, once a second."""
    return [
        sample(1000.0 + i, generation_tokens=second.tokens, running=second.running)
        for i, second in enumerate(life)
    ]


@given(lives(), st.sampled_from([0.0, 30.0]))
def test_every_sample_lands_in_its_stage(
    life: list[Second], client_is_ahead: float
) -> None:
    samples = samples_of(life)
    for number, stage in enumerate(
        stages_of(life, client_is_ahead=client_is_ahead)
    ):
        (window,) = stage_windows(stage, samples, scrape_interval=1.0)
        assert [life[int(s.at - 1000)].stage for s in window.samples] == [
            number
        ] * len(window.samples)
        assert len(window.samples) == sum(second.stage == number for second in life)


@given(lives())
def test_figures_are_those_of_the_stage(life: list[Second]) -> None:
    samples = samples_of(life)
    for number, stage in enumerate(stages_of(life, client_is_ahead=30.0)):
        found = figures(stage_windows(stage, samples, scrape_interval=1.0))
        running = {second.running for second in life if second.stage == number}
        assert {found.running_mean, found.running_max} == running
        assert found.coverage_percent == 100.0


@given(lives(), st.integers(2, 4))
def test_a_scraper_that_misses_samples_shows_in_the_coverage(
    life: list[Second], every: int
) -> None:
    kept = [latest for i, latest in enumerate(samples_of(life)) if i % every == 0]
    for number, stage in enumerate(stages_of(life, client_is_ahead=0.0)):
        (window,) = stage_windows(stage, kept, scrape_interval=1.0)
        seconds = [i for i, second in enumerate(life) if second.stage == number]
        expected = 100 * sum(i % every == 0 for i in seconds) / len(seconds)
        assert figures([window]).coverage_percent == pytest.approx(expected)


def replica(pod: str, first: int, last: int) -> list[Sample]:
    """Samples of one replica, one a second."""
    return [
        sample(
            float(at), pod=pod, start_time=float(ord(pod)), generation_tokens=9.0
        )
        for at in range(first, last + 1)
    ]


@pytest.mark.parametrize(
    ("at_once", "spans"),
    [
        pytest.param((None, None), [(990, 1020)], id="one"),
        pytest.param((None, None), [(990, 1020), (988, 1020)], id="two"),
        pytest.param((1, 2), [(990, 1020), (1005, 1020)], id="one comes"),
        pytest.param((1, 2), [(990, 1020), (990, 1005)], id="one goes"),
        pytest.param((1, 2), [(990, 1004), (1005, 1020)], id="one for another"),
        pytest.param(
            (1, 3), [(990, 1020), (1004, 1020), (1008, 1020)], id="one by one"
        ),
        pytest.param(
            (None, None), [(990, 1020), (980, 997)], id="gone before the stage"
        ),
        pytest.param(
            (None, None), [(990, 1004), (990, 1005)], id="none is read any more"
        ),
        pytest.param(
            (None, None), [(1005, 1020), (1007, 1020)], id="none was read before"
        ),
    ],
)
def test_replicas_that_come_and_go_are_counted(
    at_once: tuple[int | None, int | None], spans: list[tuple[int, int]]
) -> None:
    samples = [
        each
        for pod, (first, last) in zip("abc", spans, strict=False)
        for each in replica(pod, first, last)
    ]
    found = only(record(servers=(edge(),)), *samples)
    assert (found.servers_min, found.servers_max) == at_once
