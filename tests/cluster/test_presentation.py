"""What people see of a run: `kubectl explain`, `kubectl get`, and a whole status written and read
again."""

import json
import re

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Condition,
    Finding,
    Headline,
    Judge,
    Live,
    ObjectiveResult,
    Progress,
    Result,
    RoleFigures,
    ServerStatus,
)
from benchrun.api.sweep import BenchmarkSweepStatus
from kit.kubectl import RUN, SWEEP, Namespace
from pydantic import BaseModel
from unit.api.filled import filled
from unit.api.spec_cases import Spec, minimal
from unit.sweep.spec_cases import sweep

NOW = "2026-01-02T03:04:05Z"
STATUS = BenchmarkRunStatus(
    observed_generation=1,
    phase="Completed",
    answer="Met",
    message="6 of 6 stages measured",
    conditions=(
        Condition(
            type="Complete",
            status="True",
            reason="Measured",
            observed_generation=1,
            last_transition_time=NOW,
        ),
        Condition(
            type="Failed",
            status="False",
            reason="Measured",
            observed_generation=1,
            last_transition_time=NOW,
        ),
    ),
    accepted_time=NOW,
    servers=[
        ServerStatus(
            engine="VLLM",
            role="server",
            ready=True,
            gpu="NVIDIA-H100",
            version="0.32.0",
            args=["--a=b"],
            seconds_to_ready=31.5,
        )
    ],
    progress=Progress(stages_total=6, stages_done=6, summary="6/6"),
    live=Live(at=NOW, running=3.0, kv_cache_percent=12.5),
    headline=Headline(
        load_point="chat/rate=4", throughput="512.3", p99_ttft="87.1"
    ),
    results=[
        Result(
            load_point="chat/rate=4",
            workload="chat",
            axis="RequestRate",
            value="4",
            repeats=3,
            repeats_planned=3,
            metrics={"p99_ttft_ms": 87.1, "mean_tpot_ms": None, "completed": 1200},
            roles=[RoleFigures(role="server", running_mean=2.5, samples=300)],
            objectives=[
                ObjectiveResult(
                    metric="TTFT",
                    percentile="99",
                    max_milliseconds=500,
                    measured_milliseconds=87.1,
                    outcome="Met",
                )
            ],
            verdict="Suspect",
            findings=["TooFewSamples"],
        )
    ],
    findings=[
        Finding(
            code="TooFewSamples",
            severity="Note",
            count=3,
            worst_stage="chat/rate=4/r1",
            evidence={"samples": 300.0, "percentile": "99", "note": None},
            sentence="Percentile 99 can't be relied on.",
            meaning="The tail rests on few requests.",
            remedy="Send more.",
        )
    ],
    verdict="Suspect",
    judge=Judge(version="1", thresholds_digest="sha256:0"),
)
WRITTEN = STATUS.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.fixture(scope="module")
def finished(namespace: Namespace) -> str:
    """Name of a run whose status is full."""
    namespace.apply(
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "done"},
            "spec": minimal(),
        }
    )
    run = namespace.get(RUN, "done") | {"status": WRITTEN}
    namespace.kubectl(
        "replace", "--subresource=status", "--filename=-", stdin=json.dumps(run)
    )
    return "done"


def test_a_status_is_stored_and_read_as_it_was(
    namespace: Namespace, finished: str
) -> None:
    stored = namespace.get(RUN, finished)["status"]
    assert stored == WRITTEN
    assert BenchmarkRunStatus.model_validate(stored) == STATUS


@pytest.mark.parametrize(
    ("kind", "plural", "spec", "status"),
    [
        pytest.param(
            "BenchmarkRun", RUN, minimal(), filled(BenchmarkRunStatus), id="run"
        ),
        pytest.param(
            "BenchmarkSweep",
            SWEEP,
            sweep({"suspend": True}),
            filled(BenchmarkSweepStatus),
            id="sweep",
        ),
    ],
)
def test_no_field_that_a_status_can_have_is_dropped_by_the_api_server(
    namespace: Namespace, kind: str, plural: str, spec: Spec, status: BaseModel
) -> None:
    written = status.model_dump(mode="json", by_alias=True)
    namespace.apply(
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": "full"},
            "spec": spec,
        }
    )
    there = namespace.get(plural, "full") | {"status": written}
    namespace.kubectl(
        "replace", "--subresource=status", "--filename=-", stdin=json.dumps(there)
    )
    assert namespace.get(plural, "full")["status"] == written
    namespace.delete(plural, "full")


def test_get_shows_the_figures_that_matter(
    namespace: Namespace, finished: str
) -> None:
    head, row = namespace.kubectl("get", "bmr", finished).splitlines()
    assert head.split("  ")[0] == "NAME"
    assert [word.strip() for word in head.split("   ") if word.strip()] == [
        "NAME", "PHASE", "PROGRESS", "VERDICT", "ANSWER", "TOK/S", "P99 TTFT", "AGE",
    ]  # fmt: skip
    assert row.split()[:7] == [
        "done",
        "Completed",
        "6/6",
        "Suspect",
        "Met",
        "512.3",
        "87.1",
    ]


def test_wide_adds_what_stands_behind_them(
    namespace: Namespace, finished: str
) -> None:
    head, row = namespace.kubectl(
        "get", "bmr", finished, "--output=wide"
    ).splitlines()
    names = re.findall(r"\S+(?: \S+)*", head)
    edges = [head.index(name) for name in names]
    cells = [
        row[begin:end].strip()
        for begin, end in zip(edges, [*edges[1:], None], strict=True)
    ]
    shown = dict(zip(names, cells, strict=True))
    assert list(shown)[-9:] == [
        "LOAD POINT",
        "VERSION",
        "GPU",
        "ARCHIVED",
        "ENDED",
        "TTL",
        "OBSERVED",
        "DOCUMENT",
        "MESSAGE",
    ]
    assert [
        shown[name] for name in ("LOAD POINT", "VERSION", "GPU", "MESSAGE")
    ] == [
        "chat/rate=4",
        "0.32.0",
        "NVIDIA-H100",
        "6 of 6 stages measured",
    ]


def test_wait_finds_the_condition(namespace: Namespace, finished: str) -> None:
    assert "condition met" in namespace.kubectl(
        "wait", f"bmr/{finished}", "--for=condition=Complete", "--timeout=30s"
    )


@pytest.fixture(scope="module")
def finished_sweep(namespace: Namespace) -> str:
    """Name of a sweep whose status has phase and verdict."""
    namespace.apply(
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": "BenchmarkSweep",
            "metadata": {"name": "swept"},
            "spec": sweep({"suspend": True}),
        }
    )
    ended = {"status": {"phase": "Completed", "verdict": "Suspect"}}
    namespace.patch(SWEEP, "swept", ended, subresource="status")
    return "swept"


@pytest.mark.parametrize(
    ("selector", "is_selected"),
    [
        ("status.phase=Completed", True),
        ("status.phase!=Completed", False),
        ("status.verdict=Suspect", True),
        ("status.verdict=Valid", False),
        ("status.phase=Completed,status.verdict!=Valid", True),
    ],
)
def test_runs_and_sweeps_are_selected_by_phase_and_verdict(
    namespace: Namespace,
    finished: str,
    finished_sweep: str,
    selector: str,
    is_selected: bool,
) -> None:
    for kind, name in ((RUN, finished), (SWEEP, finished_sweep)):
        found = namespace.kubectl(
            "get", kind, f"--field-selector={selector}", "--output=name"
        )
        assert (f"/{name}" in found) == is_selected


def test_explain_lists_the_fields_of_the_load(namespace: Namespace) -> None:
    text = namespace.kubectl("explain", "bmr.spec.workloads.load", "--recursive")
    for line in (
        "requestRates\t<[]string>",
        "concurrencies\t<[]integer>",
        "maxConcurrency\t<integer>",
        "burstiness\t<string>",
    ):
        assert line in text
    assert "request rates (open loop)" in " ".join(text.split())


def test_explain_describes_a_field(namespace: Namespace) -> None:
    text = " ".join(namespace.kubectl("explain", "bmr.spec.model.source").split())
    assert (
        "Where the files come from. Exactly one of `hub`, `pvc`, `imageVolume` and `path`."
        in text
    )
    assert (
        "Server and client each download the files, unless there is a cacheClaim."
        in text
    )
