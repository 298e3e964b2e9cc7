"""What a profile says, by its numbers alone; and that no figure of the measurement depends on
it."""

from pathlib import Path
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Bottleneck,
    Judgement,
    ProfileStatus,
    Result,
    RunIdentity,
)
from benchrun.judge.explain.profile import backed, profile_status
from benchrun.judge.judged_run import Surroundings, judged_run, rejudge
from benchrun.judge.thresholds import (
    PROFILE_HOST_PERCENT,
    PROFILE_STEP_TOKENS,
    Thresholds,
)
from benchrun_client.contract import (
    PROFILE_STAGE,
    GapCounts,
    ProfileResult,
    RequestColumns,
    StageRecord,
    TraceSummary,
)
from unit.measure.records import record


def summary(**changes: Any) -> TraceSummary:
    """Four seconds of a GPU that is never idle."""
    return TraceSummary(
        **{
            "trace": "rank0.1.pt.trace.json.gz",
            "trace_bytes": 9_000_000,
            "device": "GPU",
            "window_us": 4_000_000,
            "busy_us": 3_900_000,
            "kernels_us": 4_000_000,
            "kernels": (
                {"name": "gemm_bf16", "total_us": 3_000_000, "count": 40},
                {"name": "flash_fwd", "total_us": 600_000, "count": 10},
            ),
            "steps": 50,
            "step_tokens": 2048,
            **changes,
        }
    )


def status(**changes: Any) -> ProfileStatus:
    return profile_status(
        ProfileResult(workload="chat", concurrency=4, summary=summary(**changes))
    )


@pytest.mark.parametrize(
    ("limit", "changes"),
    [
        ("Compute", {}),
        ("Compute", {"step_tokens": 256}),
        ("Unknown", {"step_tokens": 255}),
        ("Unknown", {"step_tokens": 129}),
        ("Memory", {"step_tokens": 128}),
        ("Memory", {"step_tokens": 0}),
        ("Host", {"busy_us": 2_000_000}),
        ("Compute", {"busy_us": 2_000_001}),
        ("Host", {"busy_us": 0, "step_tokens": None}),
        ("Unknown", {"steps": 0, "step_tokens": None}),
        ("Compute", {"device": "CPU", "step_tokens": 64}),
        ("Unknown", {"device": "CPU", "step_tokens": 63}),
        ("Memory", {"device": "CPU", "step_tokens": 16}),
        ("Unknown", {"kernels": ()}),
        ("Unknown", {"window_us": 0}),
    ],
)
def test_limit(limit: str, changes: dict[str, Any]) -> None:
    assert status(**changes).limit == limit


def test_shares_are_of_the_time_of_all_kernels_and_the_numbers_are_evidence() -> (
    None
):
    found = status()
    assert found.kernels == {"gemm_bf16": 75.0, "flash_fwd": 15.0}
    assert {
        name: found.evidence[name]
        for name in ("hostPercent", "windowSeconds", "stepTokens", "workload")
    } == {
        "hostPercent": 2.5,
        "windowSeconds": 4.0,
        "stepTokens": 2048,
        "workload": "chat",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"busy_us": 10**16, "kernels_us": 0},
        {"kernels_us": 0, "kernels": ({"name": "", "total_us": 0, "count": 0},)},
        {
            "kernels": (
                {
                    "name": "\x1b[31m\n" + "n" * 150,
                    "total_us": 10**16,
                    "count": 10**12,
                },
            )
            * 12
        },
        {"window_us": 1, "busy_us": 10**16, "trace": "\x00" * 300},
    ],
)
def test_numbers_that_contradict_each_other_raise_nothing(
    changes: dict[str, Any],
) -> None:
    """The reader is in a tenant's pod."""
    found = status(**changes)
    assert found.evidence["hostPercent"] == pytest.approx(0.0, abs=100)
    assert all(
        0 <= share <= 100 and len(name) <= 80 and name.isprintable()
        for name, share in found.kernels.items()
    )
    assert len(found.model_dump_json()) < 4000


@pytest.mark.parametrize(
    "found",
    [
        None,
        ProfileResult(workload="chat", concurrency=1, problem="no /start_profile"),
    ],
)
def test_without_a_summary_the_reason_is_reported(
    found: ProfileResult | None,
) -> None:
    status = profile_status(found)
    assert (status.limit, status.kernels, status.evidence) == ("Unknown", {}, {})
    assert ("no /start_profile" in status.sentence) == (found is not None)


# ---- of a run
# ------------------------------------------------------------------------------------------------------


def spec(**measurement: Any) -> BenchmarkRunSpec:
    return BenchmarkRunSpec.model_validate(
        {
            "model": {"name": "Qwen/Qwen3-4B"},
            "endpoint": {"url": "http://llm.example"},
            "workloads": [
                {
                    "name": "chat",
                    "dataset": {"random": {}},
                    "load": {"requestRates": ["4"]},
                    "requests": 100,
                }
            ],
            "measurement": measurement,
        }
    )


def profile_record(**changes: Any) -> StageRecord:
    nothing = RequestColumns.model_validate(
        dict.fromkeys(RequestColumns.model_fields, ())
    )
    found = ProfileResult(
        workload="chat", concurrency=4, summary=summary(), **changes
    )
    fields = {
        "stage_id": PROFILE_STAGE,
        "sequence": 1,
        "requests": nothing,
        "gaps": GapCounts(),
        "profile": found,
    }
    return StageRecord.model_validate(
        record().model_copy(update=fields).model_dump(by_alias=True)
    )


def judged(run_spec: BenchmarkRunSpec, *records: StageRecord) -> Judgement:
    run = Surroundings(
        identity=RunIdentity(namespace="lab", name="qwen", uid="uid")
    )
    return judged_run(run, run_spec, records, ()).judgement


def test_every_figure_is_the_same_with_the_profile_as_without() -> None:
    measured = record()
    without = judged(spec(), measured)
    found = judged(spec(profile={}), measured, profile_record())
    assert (found.profile is None, without.profile) == (False, None)
    assert found.model_copy(update={"profile": None}) == without


def test_a_profile_that_never_came_leaves_the_run_as_it_was() -> None:
    found = judged(spec(profile={}), record())
    assert found.profile is not None
    assert found.model_copy(update={"profile": None}) == judged(spec(), record())


def test_a_profile_alone_is_no_measurement() -> None:
    assert judged(spec(profile={}), profile_record()).measured_anything is False


def rows(limit: str = "Compute") -> list[Result]:
    def row(value: str, workload: str = "chat") -> Result:
        why = Bottleneck.model_validate(
            {"limit": limit, "sentence": "Flat.", "evidence": {"a": 1}}
        )
        return Result(
            load_point=f"{workload}/rate={value}",
            workload=workload,
            axis="RequestRate",
            value=value,
            repeats=1,
            repeats_planned=1,
            verdict="Valid",
            bottleneck=why,
        )

    return [row("4"), row("16"), row("8"), row("32", "other")]


@pytest.mark.parametrize(
    ("profile", "word"), [({}, "agrees"), ({"step_tokens": 8}, "says Memory")]
)
def test_the_sentence_on_compute_is_backed_at_the_load_that_was_profiled(
    profile: dict[str, Any], word: str
) -> None:
    found = backed(rows(), status(**profile))
    before = rows()
    assert [after == was for after, was in zip(found, before, strict=True)] == [
        True,
        False,
        True,
        True,
    ]
    why = found[1].bottleneck
    assert why is not None
    assert (word in why.sentence, why.evidence["profile"]) == (
        True,
        status(**profile).limit,
    )


def test_other_sentences_stay_as_they_are() -> None:
    assert backed(rows("KVMemory"), status()) == rows("KVMemory")
    assert backed(rows(), None) == rows()
    assert backed(rows(), profile_status(None)) == rows()


def test_a_re_evaluation_keeps_the_profile() -> None:
    stored = BenchmarkRunStatus(
        results=judged(spec(profile={}), record()).results, profile=status()
    )
    rejudged = rejudge(
        spec(profile={}), stored, [record()], (), thresholds=Thresholds()
    )
    assert rejudged.status.profile == status()


def test_the_page_states_the_thresholds() -> None:
    text = " ".join(
        (Path(__file__).parents[4] / "docs/profile.md")
        .read_text(encoding="utf-8")
        .split()
    )
    (memory, compute) = PROFILE_STEP_TOKENS["GPU"]
    of_cpu = PROFILE_STEP_TOKENS["CPU"]
    assert f"at least {PROFILE_HOST_PERCENT:.0f} % of the time" in text
    assert (
        f"from {compute} on `Compute`, up to {memory} `Memory` (on a CPU {of_cpu[1]} and "
        f"{of_cpu[0]})" in text
    )
