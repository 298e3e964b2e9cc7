"""Sweeps that have not ended, and their runs, as objects."""

from collections.abc import Sequence

from benchrun import names
from benchrun.api import BenchmarkRunStatus
from unit.plan.specs import Json
from unit.report.finished_sweeps import sweep_object
from unit.report.going_on import BEGIN, run_body
from unit.sweep.sweeps import (
    NAME,
    THREE,
    a_run,
    decided,
    ended,
    failed,
    later,
    sweep_body,
)

SPEC = sweep_body(THREE)
"""Three variants, one run each."""
VARIANTS = ("base", "wide", "wider")


def sweep_going_on(
    *, done: Sequence[str] = (), under_way: int = 1, **spec: object
) -> Json:
    """Build a sweep with some runs ended and the next ones under way; accepted at BEGIN.

    `done` holds how the first runs ended: "" for complete, otherwise the reason of failure.
    """
    written = {**SPEC, **spec}
    ends = [ended() if not reason else failed(reason) for reason in done]
    runs = [
        a_run(f"{NAME}-v{number}-r1", status=status)
        for number, status in enumerate(ends, start=1)
    ]
    runs += [
        a_run(f"{NAME}-v{number}-r1")
        for number in range(len(done) + 1, len(done) + under_way + 1)
    ]
    status = decided(written, runs, now=later(0)).status.model_copy(
        update={"accepted_time": BEGIN.isoformat()}
    )
    return sweep_object(
        status.model_dump(mode="json", by_alias=True, exclude_none=True),
        spec=written,
    )


def run_of_sweep(number: int, status: BenchmarkRunStatus) -> Json:
    """Build the run of the variant of that number."""
    body = run_body(status, name=f"{NAME}-v{number}-r1")
    metadata = {
        "labels": {names.LABEL_SWEEP: NAME},
        "annotations": {names.ANNOTATION_VARIANT: VARIANTS[number - 1]},
    }
    return {**body, "metadata": body["metadata"] | metadata}
