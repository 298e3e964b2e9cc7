"""What pages say of the lines that rules draw is what the rules compare with."""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from benchrun.api import Code
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import least_count

from dev.generate import findings_page

PAGES = Path(__file__).parents[4] / "docs/findings"
VALUES: Mapping[str, float] = asdict(Thresholds())
LINES: Mapping[Code, tuple[str, ...]] = {
    Code.REQUESTS_FAILED: ("max_failed_percent",),
    Code.FOREIGN_TRAFFIC: ("foreign_invalid_percent",),
    Code.PREFIX_CACHE_CONTAMINATED: (
        "prefix_hits_suspect_percent",
        "prefix_hits_invalid_percent",
    ),
    Code.OUTPUT_TOO_SHORT: (
        "output_suspect_percent",
        "output_invalid_percent",
        "stopped_suspect_percent",
    ),
    Code.REQUESTS_ABORTED: ("aborted_suspect_percent",),
    Code.PROMPT_TOKENS_DISAGREE: ("prompt_tokens_suspect_percent",),
    Code.USERS_IN_STEP: ("in_step_note_percent", "in_step_ttft_factor"),
    Code.GPU_SLOWED: (
        "gpu_slowed_suspect_percent",
        "gpu_clock_suspect_percent",
        "gpu_clock_chance",
        "gpu_power_cap_note_percent",
    ),
    Code.GPU_SHARED: ("gpu_memory_margin_percent", "gpu_memory_margin_mib"),
    Code.WARMUP_INCOMPLETE: ("warmup_batch_factor", "warmup_batch_errors"),
    Code.SERVER_THROTTLED: (
        "throttled_suspect_percent",
        "cpu_waiting_suspect_percent",
    ),
    Code.STREAM_TRUNCATED: ("truncated_invalid_percent",),
    Code.RATE_NOT_ACHIEVED: (
        "sent_rate_suspect_percent",
        "sent_rate_invalid_percent",
    ),
    Code.CONCURRENCY_NOT_REACHED: ("concurrency_suspect_percent", "think_errors"),
    Code.CLIENT_SATURATED: (
        "ttft_gap_suspect_ms",
        "ttft_gap_suspect_percent",
        "client_lag_suspect_ms",
        "client_lag_suspect_percent",
        "client_cores_suspect",
        "client_cores_with_gap",
        "client_turns",
        "client_invalid_factor",
        "path_round_trips",
    ),
    Code.PATH_SLOW: (
        "path_suspect_ms",
        "ttft_gap_suspect_percent",
        "lost_segments_suspect",
        "lost_segments_suspect_percent",
    ),
    Code.FRONTEND_SATURATED: (
        "frontend_cores_suspect",
        "path_round_trips",
        "ttft_gap_suspect_ms",
        "ttft_gap_suspect_percent",
    ),
    Code.CLIENT_SERVER_GAP: (
        "frontend_cores_suspect",
        "path_round_trips",
        "ttft_gap_suspect_ms",
        "ttft_gap_suspect_percent",
    ),
    Code.SHARDS_OUT_OF_STEP: ("skew_suspect_ms",),
    Code.KV_RECOMPUTED: (
        "recomputed_suspect_percent",
        "recomputed_invalid_percent",
    ),
    Code.PROXY_SATURATED: (
        "proxy_added_suspect_ms",
        "proxy_added_suspect_percent",
        "proxy_cores_suspect",
    ),
    Code.ROLE_IDLE: ("idle_samples_percent",),
    Code.REPLICAS_UNEQUAL: ("unknown_servers_invalid_percent",),
    Code.LOAD_UNEVEN: ("uneven_suspect_percent", "uneven_chance"),
    Code.COLD_START: (
        "cold_start_factor",
        "cold_start_floor_ms",
        "chance_of_alarm",
    ),
    Code.NOT_STEADY_STATE: (
        "steady_change_percent",
        "steady_tpot_percent",
        "steady_completed_percent",
        "queue_growth_percent",
        "standstill_factor",
        "standstill_suspect_percent",
        "chance_of_alarm",
    ),
    Code.FIRST_PART_DIFFERS: ("first_part_percent", "chance_of_alarm"),
    Code.DRIFT: ("drift_percent", "drift_order_chance", "chance_of_alarm"),
    Code.REPEATS_DISAGREE: ("repeats_cv_percent", "chance_of_alarm"),
    Code.LITTLES_LAW_BROKEN: (
        "littles_law_suspect_percent",
        "littles_law_floor_ms",
        "littles_law_steps",
        "littles_law_errors",
        "littles_law_samples",
    ),
    Code.TOKEN_COUNTS_DISAGREE: ("token_difference_suspect_percent",),
    Code.PREEMPTED: ("preempted_suspect_percent",),
    Code.WINDOW_TOO_SHORT: (
        "requests_a_user",
        "fewest_requests_a_user",
        "rounds_seconds",
        "window_seconds",
    ),
    Code.CHUNKS_ARE_NOT_TOKENS: ("chunks_a_token_note",),
    Code.QUEUE_WAIT_HIDDEN: ("queue_wait_note_ms", "queue_wait_note_percent"),
    Code.SCRAPE_COVERAGE_LOW: ("scrape_coverage_note_percent",),
}
"""Thresholds that a rule compares with, by its code; rules that are not here compare with none."""
ALSO_SAID: Mapping[Code, set[float]] = {
    Code.CLIENT_SERVER_GAP: {1},
    Code.PATH_SLOW: {200},
    Code.TOO_FEW_SAMPLES: {95},
    Code.PREEMPTED: {100},
}
"""Percentages and times on a page that are no thresholds."""
IN_WORDS: Mapping[str, float] = {
    "two": 2,
    "three": 3,
    "four": 4,
    "ten": 10,
    "by more than its mean": 100,
}
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
SAID = [(code, name) for code, names in LINES.items() for name in names]


def detection(code: Code) -> str:
    """The section of the page that tells how the rule decides."""
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    return " ".join(
        text.split("## How it is detected")[1].split("\n## ")[0].split()
    )


def numbers(text: str) -> set[float]:
    """Every number of a text, written in digits or in words."""
    digits = {float(each.replace(",", "")) for each in re.findall(_NUMBER, text)}
    return digits | {
        value for word, value in IN_WORDS.items() if re.search(rf"\b{word}\b", text)
    }


def spoken(name: str) -> float:
    """The number that says a threshold: a chance of 0.001 is "once in 1,000"."""
    return round(1 / VALUES[name]) if "chance" in name else VALUES[name]


def test_every_threshold_belongs_to_a_page() -> None:
    assert {name for _, name in SAID} == {
        field.name for field in fields(Thresholds)
    }


@pytest.mark.parametrize(("code", "name"), SAID, ids=lambda value: str(value))
def test_the_page_states_the_threshold(code: Code, name: str) -> None:
    text = detection(code)
    assert spoken(name) in numbers(text), (
        f"{code}.md does not say {name}, {VALUES[name]:g}: {text}"
    )


@pytest.mark.parametrize("code", list(Code))
def test_the_page_states_no_other_threshold(code: Code) -> None:
    known = {spoken(name) for name in LINES.get(code, ())} | ALSO_SAID.get(
        code, set()
    )
    text = detection(code)
    words = "|".join(IN_WORDS)
    with_unit = set(re.findall(rf"({_NUMBER}|{words}) (?:%|ms\b|seconds\b)", text))
    chances = set(
        re.findall(
            rf"(?:(?:once|one) in|one of(?= \d)) ({_NUMBER}|{words})\b", text
        )
    )
    assert {
        number for each in with_unit | chances for number in numbers(each)
    } <= known


@pytest.mark.parametrize("percentile", ["50", "90", "95", "99", "99.9"])
def test_the_table_of_samples_says_the_least_that_bounds_a_percentile(
    percentile: str,
) -> None:
    names, needed = re.findall(
        r"^\| (?:percentile|requests needed) \|(.*)\|$",
        _few_samples(),
        re.MULTILINE,
    )
    by_name = dict(
        zip(
            names.replace(" ", "").split("|"),
            needed.replace(" ", "").split("|"),
            strict=True,
        )
    )
    least = int(by_name[f"p{percentile}"])
    assert least_count(float(percentile)) == least


def _few_samples() -> str:
    return (PAGES / f"{Code.TOO_FEW_SAMPLES}.md").read_text(encoding="utf-8")


# ---- the list
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(Code))
def test_the_list_has_a_row_for_the_page(code: Code) -> None:
    (row,) = (
        line
        for line in findings_page().splitlines()
        if line.startswith(f"| [{code}]({code}.md) |")
    )
    summary = row.split("|")[3].strip()
    assert 20 < len(summary) < 120
    assert summary.endswith(".")


def test_the_list_is_up_to_date() -> None:
    written = (PAGES / "README.md").read_text(encoding="utf-8")
    assert written == findings_page(), "run: python -m dev.generate"
