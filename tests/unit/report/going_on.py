"""Runs that have not ended, as statuses and as objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

from benchrun.api import BenchmarkRunStatus, Condition, Live, Progress
from benchrun.report.watch_state import FollowedRun
from unit.plan.specs import Json, spec_body

BEGIN = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return the instant so many seconds after the run was accepted, in the status's form."""
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def live(seconds: float = 80, **figures: Any) -> Live:
    values: Json = {
        "running": 8,
        "waiting": 2,
        "kv_cache_percent": 40,
        "generation_tokens_per_second": 500,
    }
    return Live(at=at(seconds), **(values | figures))


def running(
    *,
    done: int = 1,
    total: int = 4,
    stage: str | None = "chat/rate=8/r1",
    **changes: Any,
) -> BenchmarkRunStatus:
    """Build the status of a run that is measuring.

    The client was ready after 10 s, a node was there after 12, the server after 60, stages since
    70.
    """
    values: Json = {
        "observed_generation": 1,
        "phase": "Running",
        "message": f"measuring {stage}; {done} of {total} stages are done",
        "accepted_time": at(0),
        "scheduled_time": at(12),
        "server_ready_time": at(60),
        "start_time": at(70),
        "conditions": (
            Condition(
                type="ClientReady",
                status="True",
                reason="Ready",
                last_transition_time=at(10),
            ),
        ),
        "progress": Progress(
            stages_total=total,
            stages_done=done,
            stage=stage,
            summary=f"{done}/{total}",
        ),
        "live": live(),
    }
    return BenchmarkRunStatus(**(values | changes))


def followed(
    status: BenchmarkRunStatus | None = None, **changes: Any
) -> FollowedRun:
    """Build a followed run that was just seen."""
    status = running() if status is None else status
    samples = (status.live,) if status.live is not None else ()
    values: Json = {"name": "chat", "status": status, "samples": samples}
    return FollowedRun(**(values | changes))


def run_body(
    status: BenchmarkRunStatus, *, name: str = "chat", namespace: str = "lab"
) -> Json:
    """Build the object in the form of `kubectl get -o json`."""
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": at(0),
        },
        "spec": spec_body(),
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def ended(word: str = "Valid", **changes: Any) -> BenchmarkRunStatus:
    """Build the status of an ended run; `word` is the verdict, or Failed or Cancelled."""
    early = word in ("Failed", "Cancelled")
    rows = (
        [("Failed", "True", "Cancelled" if word == "Cancelled" else "CrashLoop")]
        if early
        else [
            ("Complete", "True", "Measured"),
            ("Valid", "False" if word == "Invalid" else "True", word),
        ]
    )
    values: Json = {
        "phase": word if early else "Completed",
        "verdict": None if early else word,
        "message": f"ended: {word}",
        "completion_time": at(200),
        "live": None,
        "progress": Progress(stages_total=4, stages_done=4, summary="4/4"),
        "conditions": tuple(
            Condition(type=type_, status=status, reason=why)
            for type_, status, why in rows
        ),
    }
    return running(**(values | changes))
