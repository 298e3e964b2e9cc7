"""`BenchmarkSweep.status`: the table, its summary, and what is kept of a run to make it."""

from typing import Annotated, Literal

from benchrun_client.contract import Axis
from pydantic import Field

from benchrun.api import comparison
from benchrun.api.base import SET, StatusModel, entries
from benchrun.api.comparison import Change, Outcome, Scope, ThroughputOf
from benchrun.api.conditions import Conditions, Reason
from benchrun.api.server_figures import SHOWN_FIGURES, answering
from benchrun.api.status import (
    BenchmarkRunStatus,
    Bottleneck,
    Instant,
    Metrics,
    Result,
    StatusText,
    Truncated,
)
from benchrun.api.sweep.spec import MAX_REPLICATIONS, MAX_VARIANTS
from benchrun.api.verdicts import Verdict

MAX_ROWS = 256
MAX_BEST = 64
MAX_FRONT = 128
MAX_UNDECIDED = 8

SweepPhase = Literal[
    "Pending", "Suspended", "Running", "Completed", "Failed", "Cancelled"
]
Variant = Annotated[str, Field(max_length=253)]
LoadPointId = Annotated[str, Field(max_length=160)]
ShortReason = Annotated[str, Field(max_length=300)]


class SweepReason(Reason):
    """Why a sweep is where it is: a reason that runs have too, or one of these."""

    ENDING = "Ending"
    RUN_REFUSED = "RunRefused"
    RUNS_FAILED = "RunsFailed"
    ALL_FAILED = "AllFailed"
    TOO_MANY_FAILED = "TooManyFailed"
    BUDGET_SPENT = "GPUSecondsBudgetSpent"
    RUN_INVALID = "RunInvalid"


class SweepEstimate(StatusModel):
    """What the sweep will ask for, known before anything is created."""

    variants: int = Field(description="Variants of the matrix.")
    runs: int = Field(description="Runs: variants x replications.")
    stages: int = Field(description="Stages of all runs.")
    requests: int = Field(description="Measured requests of all runs.")


class RunCounts(StatusModel):
    """The runs of the sweep, each in one of these."""

    running: int = Field(0, description="Created and not ended.")
    completed: int = Field(0, description="Measured to their end.")
    failed: int = Field(0, description="Ended early, by themselves.")
    cancelled: int = Field(0, description="Cancelled.")
    skipped: int = Field(
        0,
        description="Not started: the variant's settings made an earlier run fail.",
    )
    waiting: int = Field(
        0, description="Not created yet; after the sweep's end: never started."
    )
    lost: int = 0
    """Runs lost with a server or client and retried (spec.maxRetries); not among those above."""
    tabled: int = Field(
        0,
        description="Ended runs that are in the table, with their figures or their reason.",
    )
    summary: str = Field(
        "", max_length=40, description="Ended runs of all, for the printer column."
    )


class FoundLoad(StatusModel):
    """What the searches of a variant's runs found for a workload with load.search."""

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    axis: Axis = Field(description="What was varied.")
    loads: list[Annotated[str, Field(max_length=24)]] = entries(MAX_REPLICATIONS)
    """Highest load that met every objective, one entry a run; or `none`."""


class VariantStatus(StatusModel):
    """One variant: how its runs fared."""

    name: Variant = Field(description="Name of the variant.")
    number: int
    """Its number, from 1: its runs are called SWEEP-v<number>-r<replication>, replications from 1;
    those that are measured anew end in
    -a2, -a3 and so on."""
    gpus: int = Field(0, description="GPUs its server asks for.")
    completed: int = Field(0, description="Runs measured to their end.")
    failed: int = Field(
        0, description="Runs that ended early, but for those that were lost."
    )
    lost: int = Field(
        0,
        description="Runs that were lost with a server or client and are retried.",
    )
    verdict: Verdict | None = Field(
        None, description="The worst verdict of its rows."
    )
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Why a run of it failed, in the stable word that the run's condition Failed carries."""
    run: Annotated[str, Field(max_length=40)] | None = None
    """The run that failed first; it keeps its records and the last lines of its server's log."""
    message: str | None = Field(
        None, max_length=200, description="Its message, cut to 200 characters."
    )
    searches: list[FoundLoad] = entries(16, key="workload")
    """The highest loads that its runs found, one entry a workload with load.search."""
    outcome: Outcome | None = Field(
        None, description="Summary of the comparison; absent for the baseline."
    )


_MEANS, _MAXIMA = (
    ", ".join(
        name
        for name, figure in SHOWN_FIGURES.items()
        if (figure.by == "max") == is_most
    )
    for is_most in (False, True)
)


class SweepRow(StatusModel):
    """One variant at one load point: its runs together."""

    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(
        description="Workload and load point, for example chat/rate=4."
    )
    runs: int = Field(
        0, description="Runs behind these figures, each a fresh server."
    )
    left_out: int = 0
    """Runs that were measured to their end and are not behind them: Invalid here, or without this
    load point. The row is Suspect then, at best."""
    metrics: Metrics = Field(
        default_factory=dict,
        description=(
            "Figures under vLLM's own names, the geometric mean over the runs; "
            "output_throughput_per_gpu beside them where every variant has GPUs, and the costs of "
            "a run's rows where the template names a price. Then the servers' own words: "
            f"{_MEANS}, the mean over the runs, and {_MAXIMA}, the highest of any run."
        ),
    )
    throughput_of: ThroughputOf | None = None
    """What its throughput, costs and tokens per joule are those of, as in a run's rows."""
    changes: list[Change] = entries(7, key="metric")
    """Change against the baseline's row, with interval and word. Of sweeps of equal servers, at
    most 5 % have a wrong word anywhere; with scope WithinOneServer, a restart alone may make a
    difference."""
    paired: bool = Field(
        False,
        description="Whether it was sent the same as the baseline, by digests.",
    )
    limit: Bottleneck | None = None
    """The server's bottleneck, where this variant and the baseline show it together: more ran at
    once, and throughput stayed or the KV cache was full."""
    verdict: Verdict
    """The worst verdict of the runs behind it; Unknown where nothing was measured. Invalid only
    where no run can be trusted here."""
    reason: ShortReason | None = Field(
        None,
        description=(
            "Why figures are missing or not comparable, or what else differs from the baseline."
        ),
    )


class UndecidedVariant(StatusModel):
    """A variant that would be better than the best if it were decided."""

    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(
        description="Its load point with the highest throughput among these."
    )
    throughput: float = Field(description="Output tokens a second there.")
    throughput_per_gpu: float | None = Field(
        None, description="The same by GPU; absent unless every variant has GPUs."
    )
    why: ShortReason = Field(
        description="What is not certain, or why its figures do not count."
    )
    requests_to_decide: int | None = None
    """About how many requests each of its runs needs at this load point, over all repeats, to
    decide it; absent where it is not known, or more requests do not help."""

    @property
    def decided_by(self) -> str:
        """Return what would decide on this variant, or why it is undecided if that is unknown."""
        if self.requests_to_decide is None:
            return self.why
        about = float(f"{self.requests_to_decide:.2g}")
        return f"about {about:,.0f} requests a run would decide it"


# The objective of a best variant that has no other condition.
THROUGHPUT = "throughput"


class BestVariant(StatusModel):
    """Who did best by one objective, in one workload; who would be better if it were decided."""

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    objective: Annotated[str, Field(max_length=80)]
    """The limit that had to be kept, for example TTFT p99 <= 500 ms; `every objective`; or
    `throughput`, where none had to be."""
    variant: Variant | None = None
    """The one that kept it with certainty and has the most output tokens a second; per GPU where
    every variant has GPUs. Absent if none kept it with certainty."""
    load_point: LoadPointId | None = Field(
        None, description="The load point at which it did."
    )
    throughput: float | None = None
    """Output tokens a second there, of the part of the stage that all load points of its workload
    have."""
    throughput_per_gpu: float | None = Field(
        None, description="The same by GPU; absent unless every variant has GPUs."
    )
    tied_with: list[Variant] = Field(
        default_factory=list, max_length=MAX_VARIANTS, json_schema_extra=SET
    )
    """Variants that kept it too and may be the best: with 95 % the best one is among these and this
    one."""
    optimism_percent: float | None = None
    """By how much the figure of the best is too high on average if all load points that may be the
    best are equal."""
    undecided: list[UndecidedVariant] = entries(MAX_UNDECIDED)
    """Variants with more throughput than the best whose objective is neither met nor missed with
    certainty, or whose load point is Invalid; the highest first."""
    more_undecided: int = Field(
        0, description="Further ones, which have no room in the list."
    )

    @property
    def undecided_text(self) -> str | None:
        """Return a sentence on the undecided variant that may be the best one.

        Return None if no variant is undecided.
        """
        if not self.undecided:
            return None
        first, *others = self.undecided
        more = len(others) + self.more_undecided
        names = f"{first.variant} at {first.load_point}" + (
            f" (and {more} more)" if more else ""
        )
        certain = (
            f"better than {self.variant}"
            if self.variant is not None
            else "the best"
        )
        return f"{self.objective}: {names} may be {certain}; {first.decided_by}"


class FrontPoint(StatusModel):
    """A load point of the workload that none of the front beats.

    None is better on one axis, and at least equal on the other. Values that differ by less than
    noise or 1 % are equal.
    """

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(description="Its load point.")
    throughput: float | None = Field(None, description="Output tokens a second.")
    throughput_per_gpu: float | None = Field(
        None, description="The same by GPU; absent unless every variant has GPUs."
    )
    mean_tpot_ms: float = Field(
        description="Mean time per output token, in milliseconds."
    )
    is_distinct: bool | None = None
    """Whether it is shown to have more throughput and a higher TPOT than the point before it; false
    where the noise is not known."""


class BenchmarkSweepStatus(StatusModel):
    """What the operator found."""

    observed_generation: int = Field(
        -1, description="Generation of the spec this status is about; -1: none yet."
    )
    phase: SweepPhase | None = Field(
        None,
        description="Where the sweep is, for people; programs read the conditions.",
    )
    conditions: Conditions = Field(
        (), description="Observations about the sweep, one a type."
    )
    message: StatusText | None = Field(
        None, description="What goes on, or why the sweep ended; in a sentence."
    )
    accepted_time: Instant | None = Field(
        None, description="When the spec was found good."
    )
    completion_time: Instant | None = Field(
        None, description="When the sweep ended, however it did."
    )
    estimate: SweepEstimate | None = Field(
        None, description="How large the sweep is."
    )
    baseline: Variant | None = Field(
        None, description="Variant that the others are compared with."
    )
    currency: Annotated[str, Field(max_length=3)] | None = None
    """Currency of every cost in this status, where the template names a price."""
    runs: RunCounts | None = Field(None, description="How many runs are where.")
    gpu_seconds: float = Field(
        0, description="GPU-seconds of the runs that have released their GPUs."
    )
    variants: list[VariantStatus] = entries(MAX_VARIANTS, key="name")
    """The variants, as listed in the matrix. A failed one has a reason."""
    scope: Scope | None = None
    """WithinOneServer: intervals hold the noise of repeats on one server a variant; another start
    of the same server may differ by more. BetweenServers: they hold that of fresh servers. Absent
    where nothing is comparable."""
    detectable_percent: float | None = None
    """Change of the noisiest figure that is found with 80 % probability, by the noise measured."""
    results: list[SweepRow] = entries(
        MAX_ROWS, "The table, one entry a variant and load point."
    )
    best: list[BestVariant] = entries(
        MAX_BEST, "The best variant by each objective, and by throughput alone."
    )
    front: list[FrontPoint] = entries(MAX_FRONT)
    """Pareto front of throughput against TPOT, from the lowest TPOT on; per GPU where every variant
    has GPUs."""
    verdict: Verdict | None = Field(
        None, description="The worst verdict of all rows."
    )
    truncated: list[Truncated] = entries(
        16, "Lists above that were cut to keep this object small.", key="field"
    )


class TabledRun(StatusModel):
    """A run that the table is made of: one fresh server."""

    variant: Variant
    name: str = Field(max_length=253)
    uid: str = Field(max_length=253)


class SweepTable(StatusModel):
    """The table of a sweep."""

    results: list[SweepRow] = Field(default_factory=list)
    best: list[BestVariant] = Field(default_factory=list)
    front: list[FrontPoint] = Field(default_factory=list)
    scope: Scope | None = None
    detectable_percent: float | None = None
    verdict: Verdict | None = None  # The worst of all rows.
    verdicts: Annotated[dict[Variant, Verdict], Field(max_length=MAX_VARIANTS)] = (
        Field(default_factory=dict)
    )
    """By variant, of those that have figures."""
    outcomes: Annotated[dict[Variant, Outcome], Field(max_length=MAX_VARIANTS)] = (
        Field(default_factory=dict)
    )
    """By variant; the baseline has none."""
    searches: Annotated[
        dict[Variant, list[FoundLoad]], Field(max_length=MAX_VARIANTS)
    ] = Field(default_factory=dict)
    """By variant."""
    truncated: Annotated[list[Truncated], Field(max_length=16)] = Field(
        default_factory=list
    )


CHOSEN = ("attention_backend", "moe_backend", "dtype", "quantization")
"""Settings that a server may fall back from, as its log reports them."""

_KEYS = {
    *comparison.KEYS.values(),
    "completed",
    "failed",
    *comparison.COSTS,
    comparison.TOKENS_PER_JOULE,
}

_COMPARED = (
    "load_point",
    "workload",
    "axis",
    "value",
    "repeats",
    "repeats_planned",
    "traffic",
    "objectives",
    "verdict",
    "findings",
    "throughput_of",
    "uncertain",
)


def essence(status: BenchmarkRunStatus) -> BenchmarkRunStatus:
    """Return the status with only what comparisons read."""
    return BenchmarkRunStatus(
        conditions=status.conditions,
        phase=status.phase,
        completion_time=status.completion_time,
        client=status.client,
        servers=[
            each.model_copy(
                update={
                    "args": [],
                    "reported": {
                        k: v for k, v in each.reported.items() if k in CHOSEN
                    },
                }
            )
            for each in status.servers
        ],
        results=[
            Result(
                **{name: getattr(row, name) for name in _COMPARED},
                metrics={
                    key: value for key, value in row.metrics.items() if key in _KEYS
                },
                steady={
                    key: value
                    for key, value in row.steady.items()
                    if key in comparison.THROUGHPUTS
                },
                repeat_cv_percent={
                    key: value
                    for key, value in row.repeat_cv_percent.items()
                    if key in _KEYS
                },
                roles=[role] if (role := answering(row.roles)) is not None else [],
            )
            for row in status.results
        ],
        searches=status.searches,
        profile=status.profile,
        result_document=status.result_document,
    )
