"""`BenchmarkSweep.spec`: a run template, what is varied in it, and how far the sweep may go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import SpecModel
from benchrun.api.rules import Rule
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.sweep.matrix import MAX_VARIANTS, Matrix, count, count_cel, named

KIND = "BenchmarkSweep"
PLURAL = "benchmarksweeps"
SHORT_NAME = "bms"
MAX_NAME = 29
"""Children are called NAME-v32-r10-a4 at the longest, and a run's name has at most 40 characters."""
MAX_REPLICATIONS = 10
MAX_RETRIES = 3
MAX_RUNS = 128

MUTABLE_FIELDS = ("maxParallel", "maxRetries", "maxFailed", "gpuSecondsBudget", "suspend", "cancel")
"""Everything else is immutable: other variants are another sweep."""

Order = Literal["RandomisedBlocks", "AsListed"]

_VARIANTS = count_cel("self.matrix")
_RUNS = f"{_VARIANTS} * self.replications"
_PARTS = "self.baseline.split(',')"
_NAMED = f"((a.name + '=' + v.name) in {_PARTS})"
_PLACE = f"a.values.map(v, {_NAMED}).indexOf(true)"
_FIRST = _PLACE.replace("a.", "self.matrix.zip[0].", 1).replace("(a.name", "(self.matrix.zip[0].name")
_IN_GRID = f"size({_PARTS}) == size(self.matrix.grid) && self.matrix.grid.all(a, a.values.exists(v, {_NAMED}))"
_IN_ZIP = f"size({_PARTS}) == size(self.matrix.zip) && self.matrix.zip.all(a, {_PLACE} >= 0 && {_PLACE} == {_FIRST})"
_IN_VARIANTS = "self.matrix.variants.exists(v, v.name == self.baseline)"
_BASELINE = (
    "!has(self.baseline) || (has(self.matrix.variants) ? "
    f"{_IN_VARIANTS} : has(self.matrix.zip) ? ({_IN_ZIP}) : has(self.matrix.grid) && {_IN_GRID})"
)


def _of_the_sweep(field: str) -> Rule:
    """A switch of the template that the sweep has itself."""
    return Rule(
        cel=f"!self.template.{field}",
        holds=lambda spec: not getattr(spec.template, field),
        message=f"set {field} of the sweep, not of its template",
        path=f".template.{field}",
    )


class BenchmarkSweepSpec(SpecModel):
    """Runs that differ in what the matrix varies, each on a fresh server, compared with a baseline."""

    rules = (
        Rule(
            cel="has(self.template.server) || has(self.template.offline)",
            holds=lambda spec: spec.template.started is not None,
            message="a sweep starts a fresh server for every run; its template needs one, or offline",
            path=".template.server",
        ),
        _of_the_sweep("suspend"),
        _of_the_sweep("cancel"),
        Rule(
            cel="!has(self.template.ttlSecondsAfterFinished)",
            holds=lambda spec: spec.template.ttl_seconds_after_finished is None,
            message="runs live as long as their sweep; remove ttlSecondsAfterFinished",
            path=".template.ttlSecondsAfterFinished",
        ),
        Rule(
            # Of too many variants the matrix speaks itself.
            cel=f"{_VARIANTS} > {MAX_VARIANTS} || {_RUNS} <= {MAX_RUNS}",
            holds=lambda spec: count(spec.matrix) * spec.replications <= MAX_RUNS,
            message=f"too many runs (variants x replications); the limit is {MAX_RUNS}",
            cel_message=f"'%d variants x %d replications = %d runs; the limit is {MAX_RUNS}'"
            f".format([{_VARIANTS}, self.replications, {_RUNS}])",
            python_message=lambda spec: (
                f"{count(spec.matrix)} variants x {spec.replications} replications = "
                f"{count(spec.matrix) * spec.replications} runs; the limit is {MAX_RUNS}"
            ),
            path=".replications",
        ),
        Rule(
            cel=_BASELINE,
            holds=lambda spec: spec.baseline is None or named(spec.matrix, spec.baseline) is not None,
            message="no variant of the matrix has this name",
            cel_message="'no variant of the matrix is called %s'.format([self.baseline])",
            python_message=lambda spec: f"no variant of the matrix is called {spec.baseline}",
            path=".baseline",
        ),
    )
    template: BenchmarkRunSpec = Field(
        description="Spec of every run, before its variant is laid over it. Its server is started anew for each."
    )
    matrix: Matrix = Field(description="What is varied.")
    baseline: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        default=None, description="Variant that the others are compared with; the first one if left out."
    )
    replications: Annotated[int, Field(ge=1, le=MAX_REPLICATIONS)] = Field(
        default=1,
        description="Runs of each variant, on a fresh server each: the unit of comparison. With 1, all that is known of the "
        "noise are the repeats within one server.",
    )
    order: Order = Field(
        default="RandomisedBlocks",
        description="RandomisedBlocks: every variant once before any is replicated, shuffled within each such block by "
        "template.measurement.seed, so that a drift of the hardware does not pass for an effect. AsListed: in blocks too, "
        "not shuffled.",
    )
    max_parallel: Annotated[int, Field(ge=1, le=32)] = Field(
        default=1, description="Runs at the same time. Runs that share a node or a network disturb each other."
    )
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = Field(
        default=1,
        description="How often a run is measured anew that was lost: its server or client was deleted, evicted or killed, or the "
        "server restarted while it was measured. Each time it is a run of its own, on a fresh server, whose name ends in -a2 "
        "and so on. A run that is lost once more has failed. Other failures are not tried again.",
    )
    max_failed: Annotated[int, Field(ge=0, le=MAX_RUNS)] | None = Field(
        default=None,
        description="How many runs may fail; one more ends the sweep and cancels what runs. Any number if left out. A run that "
        "is lost and measured anew has not failed.",
    )
    gpu_seconds_budget: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        default=None,
        description="No run is started that would take the sweep beyond it, by the mean of the runs that have ended. Runs "
        "that were started go on to their end. Counted are GPUs x seconds from a server's scheduling to its release.",
    )
    suspend: bool = Field(default=False, description="Start no further runs. Those that were started go on.")
    cancel: bool = Field(default=False, description="End the sweep and cancel its runs. One way.")
