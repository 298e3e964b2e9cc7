"""Reading a metrics page: the wanted counters, summed over engines; anything else is None and never
an error."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.engines import ENGINES
from benchrun_client.server.counter_snapshots import (
    Snapshot,
    Snapshots,
    parse_metrics,
    take,
    take_idle,
    take_settled,
)
from unit.client.servers import Handler, answering, serving

VLLM = ENGINES["VLLM"]

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
PAGE = """\
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="a b} c"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="a b} c"} 4.0
vllm:request_success_total{engine="1",finished_reason="stop",model_name="a b} c"} 5.0
vllm:request_success_created{engine="0"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0"} 1.6e+02
vllm:prefix_cache_hits_total_other{engine="0"} 99.0
vllm:num_preemptions_total{engine="0"} NaN
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_running{engine="1"} 1.0
vllm:time_to_first_token_seconds_bucket{le="0.1"} 5.0
vllm:time_to_first_token_seconds_sum{engine="0"} 0.25
vllm:time_to_first_token_seconds_count{engine="0"} 12.0 1700000000
vllm:generation_tokens_total 17
vllm:request_queue_time_seconds_sum{engine="0"} 0.5
vllm:request_queue_time_seconds_sum{engine="1"} 0.25
vllm:request_queue_time_seconds_count{engine="0"} 7.0
vllm:request_queue_time_seconds_count{engine="1"} 5.0
vllm:external_prefix_cache_queries_total{engine="0"} 64.0
vllm:external_prefix_cache_hits_total{engine="0"} 16.0
vllm:admission_rejections_total{engine="0",reason="requests"} 2.0
vllm:admission_rejections_total{engine="0",reason="tokens"} 1.0
process_start_time_seconds 1.7e+09
process_cpu_seconds_total 41.5
process_cpu_seconds_total_other 9.0
python_info{version="3.12"} 1.0
"""


def page(successes: float, running: float = 0.0) -> str:
    return f"vllm:request_success_total {successes}\nvllm:num_requests_running {running}\n"


def showing(*pages: str) -> Handler:
    """One page after the other; the last one stays."""
    rest: Iterator[str] = iter(pages[:-1])

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=next(rest, pages[-1]))

    return answer


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_the_sum_of_engines_of_which_one_has_no_value_is_unknown(
    value: str,
) -> None:
    page = f'vllm:generation_tokens_total{{engine="0"}} 17\nvllm:generation_tokens_total{{engine="1"}} {value}\n'
    assert parse_metrics(page + "vllm:request_success_total 2\n", VLLM) == Snapshot(
        {"request_success_total": 2.0}, None
    )


def snapshot(successes: float) -> Snapshot:
    return Snapshot({"request_success_total": successes}, 0.0)


def test_wanted_counters_are_summed_over_engines_and_labels() -> None:
    assert parse_metrics(PAGE, VLLM) == Snapshot(
        counters={
            "request_success_total": 12.0,
            "finished_stop_total": 8.0,
            "finished_length_total": 4.0,
            "prefix_cache_hits_total": 160.0,
            "time_to_first_token_seconds_sum": 0.25,
            "time_to_first_token_seconds_count": 12.0,
            "generation_tokens_total": 17.0,
            "request_queue_time_seconds_sum": 0.75,
            "request_queue_time_seconds_count": 12.0,
            "external_prefix_cache_queries_total": 64.0,
            "external_prefix_cache_hits_total": 16.0,
            "admission_rejections_total": 3.0,
            "process_start_time_seconds": 1.7e9,
            "process_cpu_seconds_total": 41.5,
        },
        running=3.0,
    )


def test_a_recorded_page_has_a_counter_for_each_reason() -> None:
    read = parse_metrics(
        (Path(__file__).parents[2] / "measure/pages/vllm-0.32.0.txt").read_text(
            encoding="utf-8"
        ),
        VLLM,
    )
    assert read is not None
    reasons = {
        name: value
        for name, value in read.counters.items()
        if name.startswith("finished_")
    }
    assert reasons == {
        f"finished_{reason}_total": float(reason == "length")
        for reason in FINISH_REASONS
    }
    assert read.counters["request_success_total"] == 1.0


def test_a_reason_in_a_models_name_is_no_reason() -> None:
    line = 'vllm:request_success_total{finished_reason="odd",model_name="finished_reason=\\"stop\\""} 3\n'
    assert parse_metrics(line, VLLM) == Snapshot(
        {"request_success_total": 3.0}, None
    )


def test_a_counter_that_a_server_does_not_have_is_absent_and_not_0() -> None:
    read = parse_metrics("vllm:generation_tokens_total 17\n", VLLM)
    assert read is not None
    assert read.counters == {"generation_tokens_total": 17.0}


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e16", "+Inf", "NaN"])
def test_a_counter_that_nobody_can_reckon_with_is_left_out(value: str) -> None:
    read = parse_metrics(
        f"vllm:generation_tokens_total 17\nvllm:prompt_tokens_total {value}\n", VLLM
    )
    assert read == Snapshot({"generation_tokens_total": 17.0}, None)


def test_counters_that_are_too_large_together_are_left_out() -> None:
    engines = "".join(
        f'vllm:prompt_tokens_total{{engine="{n}"}} 1e308\n' for n in range(3)
    )
    assert parse_metrics(
        engines + "vllm:generation_tokens_total 17\n", VLLM
    ) == Snapshot({"generation_tokens_total": 17.0}, None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(
            "process_start_time_seconds 1.0\nprocess_cpu_seconds_total 2.0\nother_total 3\n",
            id="another-server",
        ),
        pytest.param(
            "vllm:request_success_total\nvllm:num_requests_running{ x\n",
            id="cut-short",
        ),
        pytest.param('vllm:request_success_total{a="b"} much\n', id="no-number"),
        pytest.param("\x00\ufffd" * 100, id="garbage"),
    ],
)
def test_a_page_without_vllms_counters_is_none(text: str) -> None:
    assert parse_metrics(text, VLLM) is None


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"vllm:request_success_total 1\n" * 4096)


async def silent(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(answering(500, text=PAGE), id="error"),
        pytest.param(
            answering(200, text="<html>", content_type="text/html"), id="html"
        ),
        pytest.param(endless, id="endless"),
        pytest.param(silent, id="silent"),
    ],
)
async def test_a_page_that_cannot_be_read_is_none_and_another_servers_is_read(
    handler: Handler,
) -> None:
    async with (
        serving(metrics=handler) as bad,
        serving(metrics=showing(page(3))) as good,
        aiohttp.ClientSession() as session,
    ):
        assert await take(session, [f"{bad}/metrics", f"{good}/metrics"], VLLM) == [
            None,
            snapshot(3),
        ]


async def test_a_server_that_is_gone_is_none() -> None:
    async with serving() as url:
        pass
    async with aiohttp.ClientSession() as session:
        assert await take(session, [f"{url}/metrics"], VLLM) == [None]


async def settled(before: float, completed: int, handler: Handler) -> Snapshots:
    async with aiohttp.ClientSession() as session, serving(metrics=handler) as url:
        return await take_settled(
            session,
            [f"{url}/metrics"],
            VLLM,
            before=[snapshot(before)],
            completed=completed,
            answering=[True],
        )


@pytest.mark.parametrize(
    ("successes", "pages", "taken"),
    [
        pytest.param(
            3,
            (page(11), page(12), page(13)),
            13,
            id="until all successes are counted",
        ),
        pytest.param(
            0, (page(10, running=1), page(10)), 10, id="until nothing runs"
        ),
        pytest.param(
            1, ("garbage", page(11)), 11, id="through a page that fails once"
        ),
        pytest.param(5, (page(12),), 12, id="no longer when the count never comes"),
    ],
)
async def test_a_snapshot_waits(
    successes: int, pages: tuple[str, ...], taken: int
) -> None:
    assert await settled(10, successes, showing(*pages)) == [snapshot(taken)]


async def test_a_server_that_cannot_be_read_any_more_is_waited_for_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "benchrun_client.server.counter_snapshots.SETTLE_SECONDS", 0.01
    )
    assert await settled(10, 3, showing(*["garbage"] * 9, page(0))) == [snapshot(0)]


async def test_a_server_that_does_not_come_back_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "benchrun_client.server.counter_snapshots.GONE_SECONDS", 0.1
    )
    assert await settled(10, 3, showing("garbage")) == [None]


async def test_a_server_that_counts_nothing_is_not_waited_for() -> None:
    reads: list[float] = []

    async def counting(_: web.Request) -> web.Response:
        reads.append(0)
        return web.Response(text="no counters")

    async with serving(metrics=counting) as url, aiohttp.ClientSession() as session:
        assert await take_settled(
            session,
            [f"{url}/metrics"],
            VLLM,
            before=[None],
            completed=5,
            answering=[True],
        ) == [None]
    assert len(reads) == 1


async def test_servers_are_idle_when_none_runs_a_request() -> None:
    async with (
        serving(
            metrics=showing(page(1, running=2), page(2, running=1), page(3))
        ) as busy,
        serving(metrics=answering(500, text="")) as mute,
        aiohttp.ClientSession() as session,
    ):
        assert await take_idle(
            session, [f"{busy}/metrics", f"{mute}/metrics"], VLLM
        ) == [
            snapshot(3),
            None,
        ]


async def test_a_server_that_never_idles_is_not_waited_for_any_longer() -> None:
    async with (
        serving(metrics=showing(page(1, running=1))) as url,
        aiohttp.ClientSession() as session,
    ):
        (taken,) = await take_idle(session, [f"{url}/metrics"], VLLM)
    assert taken == Snapshot({"request_success_total": 1.0}, 1.0)


async def test_successes_are_counted_over_all_servers() -> None:
    async with (
        serving(metrics=showing(page(1), page(2))) as a,
        serving(metrics=showing(page(1), page(4))) as b,
        aiohttp.ClientSession() as session,
    ):
        urls = [f"{a}/metrics", f"{b}/metrics"]
        taken = await take_settled(
            session,
            urls,
            VLLM,
            before=[snapshot(0), snapshot(0)],
            completed=6,
            answering=[True, True],
        )
    assert taken == [snapshot(2), snapshot(4)]


OLDER = """\
vllm:num_requests_running{model_name="m"} 0.0
vllm:gpu_prefix_cache_queries_total{engine="0"} 60000.0
vllm:gpu_prefix_cache_queries_total{engine="1"} 40000.0
vllm:gpu_prefix_cache_hits_total{engine="0"} 90000.0
vllm:prompt_tokens{model_name="m"} 100000.0
"""


def test_a_counter_is_read_by_each_name_that_it_had() -> None:
    snapshot = parse_metrics(OLDER, VLLM)
    assert snapshot is not None
    assert snapshot.counters == {
        "prefix_cache_queries_total": 100_000.0,
        "prefix_cache_hits_total": 90_000.0,
        "prompt_tokens_total": 100_000.0,
    }


def test_a_counter_with_two_names_counts_once() -> None:
    snapshot = parse_metrics(
        OLDER + 'vllm:prefix_cache_queries_total{engine="0"} 1600000.0\n', VLLM
    )
    assert snapshot is not None
    assert snapshot.counters["prefix_cache_queries_total"] == 1_600_000.0


def test_client_and_operator_know_a_counter_by_the_same_names() -> None:
    """Two readers of one page must not differ."""
    figures = {
        "generation_tokens": "generation_tokens_total",
        "prompt_tokens": "prompt_tokens_total",
        "requests_finished": "request_success_total",
        "preemptions": "num_preemptions_total",
        "prefix_queries": "prefix_cache_queries_total",
        "prefix_hits": "prefix_cache_hits_total",
    }
    for figure, counter in figures.items():
        assert VLLM.sample_series[figure] == VLLM.counter_series[counter]


SGLANG = ENGINES["SGLang"]


def test_a_counter_that_appears_with_its_first_event_is_0_before() -> None:
    ended = 'sglang:num_requests_total{model_name="m"} 2.0\n'
    hits = 'sglang:cached_tokens_total{cache_source="device",model_name="m"} 64.0\n'
    none = parse_metrics(ended, SGLANG)
    some = parse_metrics(ended + hits, SGLANG)
    assert none is not None
    assert some is not None
    assert none.counters == {
        "request_success_total": 2.0,
        "prefix_cache_hits_total": 0.0,
    }
    assert some.counters["prefix_cache_hits_total"] == 64.0


def test_a_page_without_the_engines_series_has_no_counter() -> None:
    assert parse_metrics("vllm:prompt_tokens_total 3.0\n", SGLANG) is None


@pytest.mark.parametrize("labels", ["", '{engine="0"}'])
def test_an_exemplar_is_not_the_value(labels: str) -> None:
    line = (
        f'vllm:generation_tokens_total{labels} 123456.0 # {{trace_id="4bf9"}} 1.0\n'
    )
    found = parse_metrics(line + "# EOF\n", VLLM)
    assert found is not None
    assert found.counters["generation_tokens_total"] == 123456.0


@pytest.mark.parametrize("cut", range(1, len("12345.0\n")))
async def test_a_page_cut_within_its_last_number_is_not_read(cut: int) -> None:
    whole = "vllm:num_requests_running 0\nvllm:generation_tokens_total 12345.0\n"
    found = parse_metrics(whole, VLLM)
    assert found is not None
    assert found.counters == {"generation_tokens_total": 12345.0}
    assert parse_metrics(whole[:-cut], VLLM) is None
    async with (
        serving(metrics=showing(whole[:-cut])) as url,
        aiohttp.ClientSession() as session,
    ):
        assert await take(session, [f"{url}/metrics"], VLLM) == [None]
