"""The whole table of a sweep whose status could not hold it, made again of the runs' own results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from benchrun.api import names
from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.sweep.essence import essence
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.kubectl_errors import KubectlError
from benchrun.decide.acceptance import Unacceptable, accept_sweep
from benchrun.decide.sweep.decision import SweepCollected, SweepWorld, TableMade
from benchrun.decide.sweep.situation import SweepSituation
from benchrun.decide.sweep.tabling import is_tabled, table_wanted, tabled, to_read
from benchrun.judge.sweep.tabled import sweep_table
from benchrun.observe import raw
from benchrun.observe.swept_runs import swept_runs
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run, Sweep


def whole_table(
    sweep: Sweep, status: BenchmarkSweepStatus, runs_of: Callable[[Sweep], Sequence[raw.Object]]
) -> BenchmarkSweepStatus:
    """The status with all rows and figures, if its runs can be had; else as it is. They are asked for where they are needed."""
    if not status.truncated:
        return status
    runs = [run for run in map(run_of, runs_of(sweep)) if run.sweep_uid == sweep.uid]
    collected = SweepCollected(measured=_measured(runs))
    return _untruncated(SweepWorld(sweep, swept_runs(runs), collected, datetime.now(UTC)), status) or status


def _untruncated(world: SweepWorld, status: BenchmarkSweepStatus) -> BenchmarkSweepStatus | None:
    """None: runs that the table was made of are not there, or not all that they measured."""
    try:
        spec, variants = accept_sweep(world.sweep)
    except Unacceptable:
        return None
    situation = SweepSituation(world=world, spec=spec, variants=variants, status=status)
    if not is_tabled(situation) or to_read(situation):
        return None
    wanted = table_wanted(situation)
    table = sweep_table(
        spec,
        wanted.runs,
        world.collected.measured,
        baseline=wanted.baseline,
        missing=dict(wanted.missing),
        whole=True,
    )
    return tabled(situation, TableMade(wanted, table))


def runs_in_cluster(sweep: Sweep, kubectl: Kubectl) -> Sequence[raw.Object]:
    """Of the sweep; none where they are not to be seen."""
    try:
        return kubectl.runs(selector=f"{names.LABEL_SWEEP}={sweep.name}")
    except KubectlError:
        return []  # who may read sweeps may perhaps not read runs


def _measured(runs: Sequence[Run]) -> Mapping[str, BenchmarkRunStatus]:
    """By uid, of those that can be read: the others were written by another version of the API."""
    found = {}
    for run in runs:
        try:
            found[run.uid] = essence(BenchmarkRunStatus.model_validate(run.status))
        except ValidationError:
            continue
    return found
