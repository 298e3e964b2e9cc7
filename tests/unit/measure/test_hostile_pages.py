"""Pages of a server that means harm: values that no server can have are no figures, and no page
costs much."""

import contextlib
import math
import time
import tracemalloc

import pytest
from benchrun.measure import (
    GREATEST,
    decode,
    encode,
    gpu_values,
    is_believable,
    metrics_page,
)
from benchrun.measure.metrics_page import (
    MAX_LABELS,
    MAX_LINE_CHARS,
    MAX_LINES,
    Sample,
    UnreadableMetrics,
    parse_facts,
    parse_sample,
)
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st

VLLM = ENGINES["VLLM"]

INFO = "vllm:cache_config_info"
RUNNING = "vllm:num_requests_running"
POWER = 'DCGM_FI_DEV_POWER_USAGE{gpu="%d",namespace="lab",pod="chat-0"} %s\n'
PAGE_BYTES = 2 * 1024 * 1024


def read(text: str) -> Sample:
    return parse_sample(text, VLLM, at=5.0, role="server", pod="p")


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-Inf", "-1", "1e308", "1e999", "1.1e15", "-0.001"]
)
def test_a_value_that_no_server_can_have_is_no_figure(value: str) -> None:
    sample = read(f"{RUNNING} {value}\nvllm:num_requests_waiting 2\n")
    assert (sample.running, sample.waiting) == (None, 2.0)


@pytest.mark.parametrize("value", ["NaN", "1e308", "-1"])
def test_the_sum_of_engines_of_which_one_has_no_value_is_unknown(
    value: str,
) -> None:
    sample = read(
        f'{RUNNING}{{engine="0"}} 3\n{RUNNING}{{engine="1"}} {value}\nvllm:num_requests_waiting 2\n'
    )
    assert (sample.running, sample.waiting) == (None, 2.0)


def test_a_sum_that_no_server_can_have_is_no_figure() -> None:
    assert (
        read(
            f'{RUNNING}{{engine="0"}} 9e14\n{RUNNING}{{engine="1"}} 9e14\n'
        ).running
        is None
    )


def test_the_largest_figures_go_into_a_timeline_and_come_back() -> None:
    sample = read(
        f"{RUNNING} {GREATEST:.0f}\nprocess_start_time_seconds {GREATEST:.0f}\n"
    )
    assert decode(encode((sample,))) == (sample,)


def test_tokens_that_no_cache_holds_are_left_out() -> None:
    labels = 'num_gpu_blocks="999999999999999",block_size="999999999999999"'
    assert (
        parse_facts(f"vllm:cache_config_info{{{labels}}} 1\n", VLLM).kv_cache_tokens
        is None
    )
    many = "".join(
        f'vllm:cache_config_info{{engine="{n}",kv_cache_size_tokens="{10**15 - 1}"}} 1\n'
        for n in range(3)
    )
    assert parse_facts(many, VLLM).kv_cache_tokens is None


def test_what_a_server_reports_steers_no_terminal() -> None:
    page = 'vllm:cache_config_info{cache_dtype="\x1b[31mfp8"} 1\n'
    assert parse_facts(page, VLLM).reported == {"cache_dtype": "fp8"}


@pytest.mark.parametrize("value", ["NaN", "1e308", "-5"])
def test_the_sum_of_gpus_of_which_one_has_no_value_is_unknown(value: str) -> None:
    clocks = "".join(
        POWER.replace("POWER_USAGE", "SM_CLOCK") % (gpu, "1980") for gpu in range(2)
    )
    found = gpu_values(
        POWER % (0, "300") + POWER % (1, value) + clocks,
        namespace="lab",
        pod="chat-0",
    )
    assert (found["gpu_watts"], found["sm_clock_mhz"]) == (None, 1980)
    of_another = POWER.replace("chat-0", "chat-1") % (1, value)
    assert (
        gpu_values(POWER % (0, "300") + of_another, namespace="lab", pod="chat-0")[
            "gpu_watts"
        ]
        == 300
    )


def test_a_page_of_gpus_that_reports_nothing_believable_is_rejected() -> None:
    with pytest.raises(UnreadableMetrics):
        gpu_values(POWER % (0, "NaN"), namespace="lab", pod="chat-0")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f'{INFO}{{a="{"x" * MAX_LINE_CHARS}"}} 1', id="a long line"),
        pytest.param(
            f"{INFO}{{" + 'a="",' * (MAX_LABELS + 1) + "} 1", id="many labels"
        ),
        pytest.param(INFO + "{} 1 2 3", id="three numbers"),
        pytest.param(INFO + '{a="b"', id="labels without an end"),
        pytest.param(INFO + '{a="b\\"} 1', id="a value without an end"),
        pytest.param(INFO + '{a="1"b="2"} 1', id="labels without a comma"),
    ],
)
def test_a_wanted_line_that_cannot_be_parsed_refuses_the_page(line: str) -> None:
    with pytest.raises(UnreadableMetrics) as refusal:
        parse_facts(line + "\n", VLLM)
    assert len(str(refusal.value)) < 200


def test_labels_of_a_figure_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "_labels", pytest.fail)
    assert read(f'{RUNNING}{{a="b",engine="0"}} 3\n').running == 3


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('a\\"b', 'a"b'),
        ("a\\\\n", "a\\n"),
        ("a\\nb", "a\nb"),
        ("{},=", "{},="),
        ("\\\\\\\\", "\\\\"),
    ],
)
def test_labels_are_unescaped(written: str, value: str) -> None:
    assert parse_facts(
        f'vllm:cache_config_info{{x="{written}",y="1"}} 1\n', VLLM
    ).reported == {
        "x": value,
        "y": "1",
    }


WIDE = RUNNING + '{a="' + '\\"' * 4000 + '"} 1\n'
HOSTILE = {
    "one line": "#" * PAGE_BYTES,
    "empty lines": "\n" * PAGE_BYTES,
    "tiny series": "a 1\n" * (PAGE_BYTES // 4),
    "as many lines as may be": ("x" * 61 + " 1\n") * MAX_LINES,
    "one label": f'{RUNNING}{{a="{"x" * PAGE_BYTES}"}} 1\n',
    "quotes": WIDE * (PAGE_BYTES // len(WIDE)),
    "braces": (RUNNING + "{" + "}" * 8000 + " 1 \n") * 500,
    "labels": (RUNNING + "{" + 'a="",' * 127 + "} 1\n") * 4000,
    "spaces": (RUNNING + "{" + " " * 8000 + "} 1\n") * 500,
    "many engines": "".join(
        f'{RUNNING}{{engine="{n}",model_name="{"m" * 900}"}} 1\n'
        for n in range(4096)
    ),
    "no name": "a" * PAGE_BYTES + "!",
    "wide characters": "\U0001f600" * (PAGE_BYTES // 4),
}


@pytest.mark.parametrize("page", HOSTILE.values(), ids=HOSTILE)
def test_no_page_costs_much(page: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        for reader in (read, lambda page: parse_facts(page, VLLM)):
            with contextlib.suppress(UnreadableMetrics):
                reader(page)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 * 1024 * 1024
    assert time.process_time() - began < 10, (
        "a generous bound: tracing makes it several times slower"
    )


@given(st.floats() | st.integers())
def test_believable_numbers_are_finite_and_not_below_0(value: float) -> None:
    assert is_believable(value) == (math.isfinite(value) and 0 <= value <= 1e15)


@given(
    st.lists(
        st.sampled_from(
            [RUNNING, "vllm:kv_cache_usage_perc", "process_start_time_seconds"]
        ),
        max_size=8,
    ),
    st.data(),
)
def test_whatever_numbers_a_page_has_its_sample_can_be_stored(
    names: list[str], data: st.DataObject
) -> None:
    numbers = (
        st.floats().map(repr)
        | st.integers(-(10**20), 10**20).map(str)
        | st.sampled_from(["1e999", "-1e999"])
    )
    page = "# page\n" + "".join(
        f'{name}{{engine="{n}"}} {data.draw(numbers)}\n'
        for n, name in enumerate(names)
    )
    assert len(decode(encode((read(page),)))) == 1


def test_a_page_cut_within_its_last_number_is_refused_by_every_reader() -> None:
    page = f"{RUNNING} 12345\n"
    assert read(page).running == 12345
    gpu = POWER % (0, "412.5")
    for cut in range(1, 5):
        with pytest.raises(UnreadableMetrics, match="cut"):
            read(page[:-cut])
        with pytest.raises(UnreadableMetrics, match="cut"):
            parse_facts(page[:-cut], VLLM)
        with pytest.raises(UnreadableMetrics, match="cut"):
            gpu_values(gpu[:-cut], namespace="lab", pod="chat-0")
