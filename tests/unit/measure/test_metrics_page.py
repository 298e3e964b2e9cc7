"""A metrics page read: figures of every vLLM since 0.8, missing ones as None, anything else
refused."""

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from benchrun.api import (
    CPU_SERIES,
    GPU_SERIES,
    ROLE_FIGURES,
    SAMPLE_FIGURES,
    server_figures,
)
from benchrun.api.server_figures import ComputedFrom
from benchrun.measure import GpuFigures
from benchrun.measure.metrics_page import (
    MAX_REPORTED,
    Sample,
    ServerFacts,
    UnreadableMetrics,
    parse_facts,
    parse_sample,
)
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st

VLLM = ENGINES["VLLM"]

REAL_PAGE = (Path(__file__).parent / "pages" / "vllm-0.32.0.txt").read_text(
    encoding="utf-8"
)


def read(text: str) -> Sample:
    return parse_sample(text, VLLM, at=5.0, role="server", pod="p")


def test_a_real_page_of_vllm_0_32_after_one_request_of_6_and_20_tokens() -> None:
    assert read(REAL_PAGE) == Sample(
        at=5.0,
        role="server",
        pod="p",
        running=0.0,
        waiting=0.0,
        kv_cache=0.0,
        generation_tokens=20.0,
        prompt_tokens=6.0,
        requests_finished=1.0,
        preemptions=0.0,
        prefix_queries=6.0,
        prefix_hits=0.0,
        start_time=1795260325.97,
    )


@pytest.mark.parametrize(
    ("figure", "expected", "page"),
    [
        pytest.param(
            "running", 3.0, "vllm:num_requests_running 3", id="without labels"
        ),
        pytest.param(
            "running",
            5.0,
            'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 3',
            id="engines are summed",
        ),
        pytest.param(
            "kv_cache",
            0.9,
            'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9',
            id="KV usage is that of the fullest engine",
        ),
        pytest.param(
            "kv_cache",
            0.7,
            'vllm:gpu_cache_usage_perc{engine="0"} 0.7',
            id="the old name of KV usage",
        ),
        pytest.param(
            "kv_cache",
            0.2,
            "vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.2",
            id="old and new name count once, as the new one",
        ),
        pytest.param(
            "prefix_hits",
            4.0,
            "vllm:gpu_prefix_cache_hits_total 4",
            id="the old name of prefix hits",
        ),
        pytest.param(
            "prefix_queries",
            9.0,
            "vllm:gpu_prefix_cache_queries 9",
            id="the old name without _total",
        ),
        pytest.param(
            "generation_tokens",
            7.0,
            "vllm:generation_tokens 7",
            id="a counter without _total",
        ),
        pytest.param(
            "requests_finished",
            6.0,
            'vllm:request_success_total{finished_reason="stop"} 2\nvllm:request_success_total{finished_reason="length"} 4',
            id="finished for any reason",
        ),
        pytest.param(
            "waiting",
            1.0,
            'vllm:num_requests_waiting 1\nvllm:num_requests_waiting_by_reason{reason="capacity"} 1',
            id="the split by reason is not counted again",
        ),
        pytest.param(
            "generation_tokens",
            None,
            "vllm:generation_tokens_created 1.7e9",
            id="_created is no count",
        ),
        pytest.param(
            "running",
            None,
            "python_info 1",
            id="a page without log stats has no figure",
        ),
        pytest.param("running", None, "", id="nor has an empty page"),
        pytest.param(
            "running", None, "vllm:num_requests_running NaN", id="NaN is no figure"
        ),
        pytest.param(
            "running", None, "vllm:num_requests_running +Inf", id="nor is infinity"
        ),
        pytest.param(
            "running", 0.0, "vllm:num_requests_running 0", id="0 is a figure"
        ),
        pytest.param(
            "running",
            2.0,
            '\n# HELP x y\nvllm:num_requests_running{m="a}b\\"c"} 2 1395066363000',
            id="odd labels",
        ),
        pytest.param(
            "start_time",
            1.5e9,
            "process_start_time_seconds 1.5e+09",
            id="start of the process",
        ),
    ],
)
def test_a_figure(figure: str, expected: float | None, page: str) -> None:
    assert getattr(read(page + "\n"), figure) == expected


@pytest.mark.parametrize(
    ("complaint", "page"),
    [
        pytest.param(
            "not the text of a metrics endpoint",
            "<html><body>502 Bad Gateway</body></html>",
            id="HTML",
        ),
        pytest.param(
            "not the text of a metrics endpoint",
            '{"detail":"Not Found"}',
            id="JSON",
        ),
        pytest.param(
            "not the text of a metrics endpoint",
            "\n\nupstream connect error",
            id="a proxy's words",
        ),
        pytest.param(
            "can't be parsed",
            "# page\nvllm:num_requests_running{engine= 3\n",
            id="a broken line",
        ),
        pytest.param(
            "can't be parsed",
            "# page\nvllm:num_requests_running three\n",
            id="a word for a number",
        ),
        pytest.param(
            "can't be parsed",
            "# page\nvllm:num_requests_running 1_0\n",
            id="what only Python takes for a number",
        ),
        pytest.param(
            "at most", "vllm:num_requests_running 1\n" * 5000, id="too many series"
        ),
    ],
)
def test_a_page_without_metrics_is_rejected(complaint: str, page: str) -> None:
    with pytest.raises(UnreadableMetrics, match=complaint) as refusal:
        read(page)
    assert len(str(refusal.value)) < 200


@given(st.text())
def test_any_text_is_a_sample_or_refused(text: str) -> None:
    try:
        found = read(text)
    except UnreadableMetrics:
        return
    assert (found.at, found.role, found.pod) == (5.0, "server", "p")


@given(st.text(alphabet='{}="\\, \n#0123456789.eE+-NaInf', max_size=40))
def test_any_ending_of_a_wanted_line_is_a_figure_or_refused(end: str) -> None:
    try:
        found = read(f"vllm:num_requests_running{end}\n")
    except UnreadableMetrics:
        return
    assert found.running is None or found.running == found.running


def test_facts_of_a_real_page() -> None:
    facts = parse_facts(REAL_PAGE, VLLM)
    assert (facts.kv_cache_tokens, facts.reported["block_size"]) == (1048576, "128")
    assert facts.reported["enable_prefix_caching"] == "True"
    assert facts.reported["gpu_memory_utilization"] == "0.92"


def test_empty_facts_are_left_out() -> None:
    reported = parse_facts(REAL_PAGE, VLLM).reported
    assert "engine" not in reported
    assert not [key for key in reported if key.startswith("_")]
    assert not [value for value in reported.values() if value in ("", "None")]


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        pytest.param(
            (4096,),
            ['kv_cache_size_tokens="4096",num_gpu_blocks="1",block_size="16"'],
            id="its own word",
        ),
        pytest.param(
            (1600,),
            ['num_gpu_blocks="100",block_size="16"'],
            id="older servers: blocks x block size",
        ),
        pytest.param(
            (None,),
            ['num_gpu_blocks="None",block_size="16"'],
            id="blocks not yet known",
        ),
        pytest.param((None,), ['cache_dtype="auto"'], id="neither"),
        pytest.param(
            (300,),
            [
                'engine="0",kv_cache_size_tokens="100"',
                'engine="1",kv_cache_size_tokens="200"',
            ],
            id="all engines",
        ),
        pytest.param(
            (None,),
            ['engine="0",kv_cache_size_tokens="100"', 'engine="1"'],
            id="one engine silent",
        ),
    ],
)
def test_kv_cache_tokens(tokens: tuple[int | None], labels: list[str]) -> None:
    page = "".join(f"vllm:cache_config_info{{{each}}} 1.0\n" for each in labels)
    assert (parse_facts(page, VLLM).kv_cache_tokens,) == tokens


def test_facts_of_a_page_without_them_are_empty() -> None:
    assert parse_facts("python_info 1\n", VLLM) == ServerFacts()


def test_facts_are_bounded() -> None:
    labels = ",".join(f'k{i:03d}="{"v" * 300}"' for i in range(20)) + "".join(
        f',m{i:03d}="w"' for i in range(90)
    )
    reported = parse_facts(f"vllm:cache_config_info{{{labels}}} 1\n", VLLM).reported
    assert len(reported) == MAX_REPORTED
    assert {len(value) for value in reported.values()} == {253, 1}


def test_facts_of_garbage_are_rejected() -> None:
    with pytest.raises(UnreadableMetrics):
        parse_facts("<html>", VLLM)


def test_every_source_of_a_figure_is_declared() -> None:
    derived = {"gpu_pods", "gpu_slowed", "gpu_power_capped", "gpu_memory_total_mib"}
    assert {*VLLM.sample_series, *GPU_SERIES, *CPU_SERIES, *derived} == set(
        SAMPLE_FIGURES
    )
    figures = ROLE_FIGURES.values()
    assert {figure.sample for figure in figures if figure.sample} <= set(
        SAMPLE_FIGURES
    )
    counters = {
        name
        for figure in figures
        for name in (*figure.counters, figure.percent_of, figure.where)
        if name
    }
    assert counters <= set(VLLM.counter_series)
    computed = {
        source: {
            n
            for n, figure in ROLE_FIGURES.items()
            if figure.computed_from == source
        }
        for source in get_args(ComputedFrom)
    }
    assert computed == {
        "Exporters": {each.name for each in fields(GpuFigures)} & set(ROLE_FIGURES),
        "Scrapes": {"coverage_percent"},
    }


@pytest.mark.parametrize(
    "sources", [{}, {"sample": "running", "computed_from": "Scrapes"}]
)
def test_a_figure_without_exactly_one_source_is_refused(
    sources: dict[str, Any],
) -> None:
    with pytest.raises(TypeError, match=r"exactly one of sample, counters"):
        server_figures._figure("Nobody fills it in.", **sources)


SGLANG_PAGE = """\
# HELP sglang:num_running_reqs The number of running requests.
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"} 3.0
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="1"} 2.0
sglang:num_queue_reqs{model_name="m",tp_rank="0",dp_rank="0"} 1.0
sglang:token_usage{model_name="m",tp_rank="0",dp_rank="0"} 0.25
sglang:token_usage{model_name="m",tp_rank="0",dp_rank="1"} 0.75
sglang:max_total_num_tokens{model_name="m",tp_rank="0",dp_rank="0"} 1000.0
sglang:max_total_num_tokens{model_name="m",tp_rank="0",dp_rank="1"} 1000.0
sglang:prompt_tokens_total{model_name="m"} 640.0
"""


def test_a_page_of_another_engine_gives_its_figures_and_none_that_it_has_not() -> (
    None
):
    sglang = ENGINES["SGLang"]
    sample = parse_sample(SGLANG_PAGE, sglang, at=1.0, role="server", pod="p")
    assert (sample.running, sample.waiting, sample.prompt_tokens) == (
        5.0,
        1.0,
        640.0,
    )
    assert sample.kv_cache == 0.75
    assert (sample.preemptions, sample.prefix_hits, sample.start_time) == (
        None,
        None,
        None,
    )
    assert parse_facts(SGLANG_PAGE, sglang) == ServerFacts(kv_cache_tokens=2000)


def test_series_of_one_engine_are_none_of_another() -> None:
    sample = parse_sample(SGLANG_PAGE, VLLM, at=1.0, role="server", pod="p")
    assert (sample.running, sample.waiting, sample.kv_cache) == (None, None, None)


EXEMPLAR = ' # {trace_id="4bf9"} 1.0 1700000000.0'


@pytest.mark.parametrize("labels", ["", '{engine="0"}'])
def test_an_exemplar_is_not_the_value(labels: str) -> None:
    line = f"vllm:generation_tokens_total{labels} 123456.0{EXEMPLAR}\n"
    assert read(line + "# EOF\n").generation_tokens == 123456.0
