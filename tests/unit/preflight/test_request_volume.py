"""What is said of too few requests, held against what they take."""

import re
from typing import Any

import pytest
from benchrun.preflight.remark import Remark
from benchrun.preflight.request_volume import sample_remarks, volume_of
from benchrun_client.contract import least_count
from hypothesis import given, strategies as st
from unit.api.spec_cases import absent, workload
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages, spec

PERCENTILES = st.lists(
    st.sampled_from(["1", "5", "50", "75", "90", "95", "99", "99.9"]),
    min_size=1,
    max_size=4,
    unique=True,
)


def warnings(changes: dict[str, Any]) -> list[Remark]:
    return [
        remark
        for remark in sample_remarks(spec(changes))
        if remark.level == "Warning"
    ]


def run_changes(
    requests: int, repeats: int, percentiles: list[str]
) -> dict[str, Any]:
    return {
        "workloads.0.requests": requests,
        "repeats": repeats,
        "measurement": {"percentiles": percentiles},
    }


def number_after(text: str, words: str) -> int:
    found = re.search(rf"{words} ([\d,]+)", text)
    assert found is not None
    return int(found[1].replace(",", ""))


@given(st.integers(1, 5000), st.integers(1, 5), PERCENTILES)
def test_a_percentile_is_named_exactly_where_too_few_values_are_beyond_it(
    requests: int, repeats: int, percentiles: list[str]
) -> None:
    short = [
        p for p in percentiles if requests * repeats < (least_count(float(p)) or 0)
    ]
    found = warnings(run_changes(requests, repeats, percentiles))
    assert bool(found) is bool(short)
    if found:
        named = re.search(r"bound (.*): p", found[0].text)
        assert named is not None
        assert named[1].split(", ") == [f"p{p}" for p in sorted(short, key=float)]


@given(st.integers(1, 5000), st.integers(1, 5), PERCENTILES)
def test_as_many_requests_as_it_says_are_enough_and_one_fewer_is_not(
    requests: int, repeats: int, percentiles: list[str]
) -> None:
    found = warnings(run_changes(requests, repeats, percentiles))
    if not found:
        return
    text = found[0].text
    needed = number_after(text, r"takes at least")
    assert needed == max(least_count(float(p)) or 0 for p in percentiles)
    if repeats > 1:
        a_stage = int(
            text.split(" a stage")[0].rpartition(", ")[2].replace(",", "")
        )
        assert a_stage * repeats >= needed > (a_stage - 1) * repeats


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        (
            run_changes(100, 1, ["50", "90", "99.9"]),
            "spec.workloads[0].requests",
            "100 requests a load point are too few to bound p99.9: "
            "p99.9 takes at least 5,000, all in the steady part; up to p95 is bounded; "
            "this takes about 5,600 requests, 93 min",
        ),
        (
            run_changes(1000, 1, ["99.9"]),
            "spec.workloads[0].requests",
            "1,000 requests a load point are too few to bound p99.9: "
            "p99.9 takes at least 5,000, all in the steady part; up to p99 is bounded; "
            "this takes about 5,600 requests, 93 min",
        ),
        (
            run_changes(20, 2, ["1", "99"]),
            "spec.workloads[0].requests",
            "20 x 2 repeats = 40 requests a load point are too few to bound p1, p99: "
            "p1 takes at least 500, 250 a stage, all in the steady part; "
            "this takes about 560 requests in 2 repeats, 9.3 min",
        ),
        (
            run_changes(10, 1, ["99"]),
            "spec.workloads[0].requests",
            "10 requests a load point are too few to bound p99: "
            "p99 takes at least 500, all in the steady part; up to p50 is bounded; "
            "this takes about 560 requests, 9.3 min",
        ),
        (
            {
                "workloads.0.requests": absent(),
                "workloads.0.durationSeconds": 60,
                "workloads.0.load": {"requestRates": ["0.5", "10"]},
                "measurement": {"percentiles": ["95"]},
                "repeats": 2,
            },
            "spec.workloads[0].durationSeconds",
            "30 x 2 repeats = 60 requests at 0.5/s are too few to bound p95: "
            "p95 takes at least 100, 50 a stage, all in the steady part; up to p90 is bounded; "
            "this takes about 110 requests in 2 repeats, 3.7 min",
        ),
        (
            {
                "workloads": [
                    workload("a", requests=1000),
                    workload("b", requests=9),
                ],
                "measurement": {"percentiles": ["90"]},
            },
            "spec.workloads[1].requests",
            "9 requests a load point are too few to bound p90: "
            "p90 takes at least 50, all in the steady part; "
            "this takes about 56 requests, 0.93 min",
        ),
    ],
)
def test_the_warning_has_this_text(
    changes: dict[str, Any], field: str, text: str
) -> None:
    assert [(remark.path, remark.text) for remark in warnings(changes)] == [
        (field, text)
    ]


@pytest.mark.parametrize(
    ("objectives", "unmet"),
    [
        ([("TTFT", "99"), ("TPOT", "50")], "TTFT p99"),
        (
            [("TTFT", "99"), ("E2EL", "99"), ("ITL", "99.9")],
            "TTFT p99, E2EL p99, ITL p99.9",
        ),
        ([("TTFT", "90")], None),
    ],
)
def test_unmeetable_objectives_are_named_without_their_percentile(
    objectives: list[tuple[str, str]], unmet: str | None
) -> None:
    listed = [
        {"metric": metric, "percentile": p, "maxMilliseconds": 9}
        for metric, p in objectives
    ]
    found = warnings(run_changes(100, 1, ["50"]) | {"objectives": listed})
    texts = [remark.text for remark in found if remark.path == "spec.objectives"]
    assert len(texts) == (unmet is not None)
    assert all(f" {unmet} " in text for text in texts)


@pytest.mark.parametrize(
    ("load", "repeats", "is_warned"),
    [
        ({"requestRates": ["inf"]}, 2, True),
        ({"requestRates": ["inf"]}, 3, False),
        ({"requestRates": ["inf"], "maxConcurrency": 8}, 2, False),
        ({"requestRates": ["4"]}, 2, False),
    ],
)
def test_loads_sent_at_once_take_three_repeats(
    load: dict[str, Any], repeats: int, is_warned: bool
) -> None:
    objectives = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 9}]
    of_all = spec(
        {
            "workloads": [workload("a", load=load, requests=900)],
            "objectives": objectives,
            "repeats": repeats,
        }
    )
    levels = [
        remark.level
        for remark in sample_remarks(of_all)
        if remark.path == "spec.repeats"
    ]
    assert levels == (["Warning"] if is_warned else [])


@pytest.mark.parametrize(
    "same",
    [
        {"measurement": {"cachePolicy": "Share"}},
        {
            "measurement": {"cachePolicy": "Reset"},
            "dataset": {"random": {"generator": "VLLM", "seed": 7}},
        },
        {
            "measurement": {"cachePolicy": "Reset"},
            "dataset": {"shareGPT": {"file": {"path": "/data/x"}, "seed": 7}},
        },
        {
            "measurement": {"cachePolicy": "Reset"},
            "dataset": {
                "texts": {
                    "file": {"path": "/data/x"},
                    "column": "a",
                    "order": "File",
                }
            },
        },
    ],
)
def test_repeats_that_send_the_same_count_as_one(same: dict[str, Any]) -> None:
    """Of 100 requests in five repeats, and of five loads sent at once."""
    data = same.get("dataset", {"random": {"inputTokens": 9, "outputTokens": 9}})
    at_once = workload(
        "a", load={"requestRates": ["inf"]}, dataset=data, requests=100
    )
    objectives = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 9}]
    measurement = {"percentiles": ["99"], **same["measurement"]}
    made = spec(
        {
            "workloads": [at_once],
            "objectives": objectives,
            "repeats": 5,
            "measurement": measurement,
        }
    )
    paths = [
        remark.path for remark in sample_remarks(made) if remark.level == "Warning"
    ]
    assert paths == [
        "spec.repeats",
        "spec.workloads[0].requests",
        "spec.objectives",
    ]


def test_repeats_are_requested_where_something_is_listed_beside_a_search() -> None:
    search = {"search": {"axis": "Concurrency", "from": "1", "to": "8"}}
    objectives = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 9}]
    both = spec(
        {
            "workloads": [workload("a", load=search), workload("b")],
            "objectives": objectives,
        }
    )
    alone = spec(
        {"workloads": [workload("a", load=search)], "objectives": objectives}
    )
    assert "spec.repeats" in [remark.path for remark in sample_remarks(both)]
    assert "spec.repeats" not in [remark.path for remark in sample_remarks(alone)]


def gate_remarks(**changes: object) -> dict[str, str]:
    baseline = {
        "name": "before",
        "metrics": ["MeanTTFT"],
        "oneServerIsEnough": True,
        **changes.pop("baseline", {}),  # type: ignore[dict-item]
    }
    remarks = sample_remarks(spec({"baseline": baseline, **changes}))
    return {
        remark.level: remark.text
        for remark in remarks
        if remark.path.startswith("spec.baseline")
    }


def test_what_the_gate_can_find_is_told_before_it_takes_a_gpu() -> None:
    remarks = gate_remarks(repeats=5)
    assert list(remarks) == ["Note"]
    assert list(
        gate_remarks(repeats=5, baseline={"maxRegressionPercent": "3"})
    ) == ["Warning"]
    assert list(gate_remarks(repeats=1)) == ["Warning"]
    golden(remarks["Note"])


def test_a_gate_that_can_only_fail_is_warned_of() -> None:
    remarks = gate_remarks(repeats=5, baseline={"oneServerIsEnough": False})
    assert list(remarks) == ["Warning", "Note"]
    golden(remarks["Warning"])


def test_a_gate_on_percentiles_is_warned_of_since_one_run_a_side_never_passes_it() -> (
    None
):
    def paths(*metrics: str) -> list[tuple[str, str]]:
        baseline = {
            "name": "before",
            "metrics": list(metrics),
            "oneServerIsEnough": True,
        }
        remarks = sample_remarks(spec({"repeats": 5, "baseline": baseline}))
        return [
            (r.level, r.path) for r in remarks if r.path.startswith("spec.baseline")
        ]

    mixed = ("P99TTFT", "MeanTTFT")
    alone = ("P95ITL",)
    assert paths(*mixed) == [
        ("Warning", "spec.baseline.metrics"),
        ("Note", "spec.baseline"),
    ]
    assert paths(*alone) == [("Warning", "spec.baseline.metrics")], (
        "no other question, whose power could be told"
    )
    assert paths("MeanTTFT") == [("Note", "spec.baseline")]


def test_a_search_takes_care_of_itself() -> None:
    search = {"axis": "Concurrency", "from": "1", "to": "64"}
    objectives = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]
    found = checked(
        {"workloads.0.load": {"search": search}, "objectives": objectives}
    )
    assert messages(found, "Warning") == {}
    assert "spec.repeats" not in messages(found, "Note")


# How large a run is.

DEADLINE = "spec.runDeadlineSeconds"


def test_stages_requests_time_and_gpus_are_counted() -> None:
    found = volume_of(
        spec(
            {
                "workloads.0.load": {"requestRates": ["1", "4", "inf"]},
                "workloads.0.requests": 400,
                "repeats": 3,
                "server.resources": {"limits": {"nvidia.com/gpu": 2}},
            }
        )
    )
    assert (found.stages, found.requests, found.open_stages, found.gpus) == (
        9,
        3600,
        6,
        2,
    )
    assert (found.least_seconds, found.gpu_seconds, found.warmup_seconds) == (
        3 * (400 + 100),
        2 * 1500,
        60,
    )


def test_a_closed_loop_has_no_known_duration() -> None:
    found = volume_of(
        spec(
            {
                "workloads.0.load": {"concurrencies": [4]},
                "measurement": {"warmup": {"none": {}}},
            }
        )
    )
    assert (
        found.open_stages,
        found.least_seconds,
        found.gpu_seconds,
        found.warmup_seconds,
    ) == (
        0,
        0,
        None,
        0,
    )


def test_a_search_counts_its_maximum_of_requests() -> None:
    search = {
        "axis": "Concurrency",
        "from": "1",
        "to": "64",
        "maxProbes": 6,
        "maxRepeats": 2,
    }
    objectives = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]
    found = volume_of(
        spec({"workloads.0.load": {"search": search}, "objectives": objectives})
    )
    assert (found.stages, found.probe_stages, found.requests) == (
        6 + 3 * 2,
        12,
        1200,
    )


@pytest.mark.parametrize(
    ("deadline", "level"),
    [(124, "Error"), (125, "Warning"), (184, "Warning"), (185, None), (0, None)],
)
def test_a_deadline_before_the_end_is_reported(
    deadline: int, level: str | None
) -> None:
    # 100 requests at 1/s and at 4/s; warm-up up to 60 s.
    found = checked({"runDeadlineSeconds": deadline})
    assert (DEADLINE in messages(found, "Error")) is (level == "Error")
    assert (DEADLINE in messages(found, "Warning")) is (level == "Warning")


AUTO = {
    "repeats": "Auto",
    "objectives": [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 200}],
    "budget": {"requests": 1000},
}


def test_auto_tells_the_least_and_the_most_it_takes() -> None:
    (remark,) = [r for r in sample_remarks(spec(AUTO)) if r.path == "spec.repeats"]
    assert remark.level == "Note"
    assert number_after(remark.text, "takes from") == 200
    assert number_after(remark.text, "once\\) to") == 1000
    volume = volume_of(spec(AUTO))
    assert (volume.requests, volume.stages, volume.repeated_stages) == (
        1000,
        18,
        16,
    )
    # Of which only the first repeat is certain: a hundred requests at one a second, and at four.
    assert (volume.open_stages, volume.least_seconds) == (2, 125)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"budget.requests": 599}, "spec.budget.requests"),
        ({"budget.gpuSeconds": 60}, "spec.budget.gpuSeconds"),
        ({"budget.seconds": 14_401}, "spec.budget.seconds"),
    ],
)
def test_a_budget_that_decides_little_or_never_ends_is_told(
    changes: dict[str, Any], path: str
) -> None:
    known = {remark.path for remark in warnings(AUTO)}
    assert path not in known
    assert path in {remark.path for remark in warnings(AUTO | changes)}
