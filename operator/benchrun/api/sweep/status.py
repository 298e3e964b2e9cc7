"""`BenchmarkSweep.status`: the table, its summary, and the parts of runs' statuses in its rows."""

from typing import Annotated, Literal

from benchrun_client.contract import Axis
from benchrun_client.engines import ENGINES
from pydantic import Field

from benchrun.api import comparison
from benchrun.api.base import SET, StatusModel, entries
from benchrun.api.comparison import (
    MAX_SETTINGS,
    Change,
    ComparedSetting,
    Outcome,
    Scope,
    ThroughputOf,
)
from benchrun.api.conditions import Conditions, Reason
from benchrun.api.price import Price
from benchrun.api.server_figures import SHOWN_FIGURES, answering
from benchrun.api.status import (
    STEADY_REQUESTS,
    BenchmarkRunStatus,
    Bottleneck,
    Instant,
    Metrics,
    Result,
    ServerStatus,
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
    """Why a sweep is in its current phase: a reason that runs have too, or one of these."""

    ENDING = "Ending"
    RUN_REFUSED = "RunRefused"
    RUNS_FAILED = "RunsFailed"
    ALL_FAILED = "AllFailed"
    TOO_MANY_FAILED = "TooManyFailed"
    BUDGET_SPENT = "GPUSecondsBudgetSpent"
    RUN_INVALID = "RunInvalid"


class SweepEstimate(StatusModel):
    """Variants, runs, stages and requests, known before anything is created."""

    variants: int = Field(description="Variants of the matrix.")
    runs: int = Field(description="Runs: variants x replications.")
    stages: int = Field(description="Stages of all runs.")
    requests: int = Field(description="Measured requests of all runs.")


class RunCounts(StatusModel):
    """The runs of the sweep, counted by state."""

    running: int = Field(0, description="Created and not ended.")
    completed: int = Field(0, description="Measured to their end.")
    failed: int = Field(0, description="Ended early, but not cancelled.")
    cancelled: int = Field(0, description="Cancelled.")
    skipped: int = Field(
        0,
        description="Not started: the variant's settings made an earlier run fail.",
    )
    waiting: int = Field(
        0, description="Not created yet; after the sweep's end: never started."
    )
    lost: int = 0
    """Runs lost with a server or client and retried (spec.maxRetries); not in the other counts."""
    tabled: int = Field(
        0,
        description="Ended runs that are in the table, with their figures or their reason.",
    )
    summary: str = Field(
        "",
        max_length=40,
        description="Ended runs out of all, for a printer column.",
    )


class FoundLoad(StatusModel):
    """The loads that a variant's runs found for a workload with load.search."""

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    axis: Axis = Field(description="What was varied.")
    loads: list[Annotated[str, Field(max_length=24)]] = entries(MAX_REPLICATIONS)
    """Highest load that met every objective, one entry a run; or `none`."""


class VariantStatus(StatusModel):
    """One variant of a sweep, and the state of the variant's runs."""

    name: Variant = Field(description="Name of the variant.")
    number: int
    """Number of the variant, from 1. Its runs are called SWEEP-v<number>-r<replication>, with
    replications from 1; the names of retried runs end in -a2, -a3 and so on."""
    gpus: int = Field(0, description="GPUs that its server requests.")
    completed: int = Field(0, description="Runs measured to their end.")
    failed: int = Field(
        0, description="Runs that ended early; lost runs are not counted."
    )
    lost: int = Field(
        0,
        description="Runs that were lost with a server or client and are retried.",
    )
    verdict: Verdict | None = Field(
        None, description="The worst verdict of its rows."
    )
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Why a run of the variant failed: the reason of the run's condition Failed."""
    run: Annotated[str, Field(max_length=40)] | None = None
    """The run that failed first; it keeps its records and the last lines of its server's log."""
    message: str | None = Field(
        None,
        max_length=200,
        description="Message of that run, cut to 200 characters.",
    )
    searches: list[FoundLoad] = entries(16, key="workload")
    """The highest loads that the variant's runs found, one entry a workload with load.search."""
    settings: list[ComparedSetting] = entries(MAX_SETTINGS, key="setting")
    """What differs between its servers and the baseline's, on purpose or not, or is known of one of
    them only."""
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
    """One load point of a variant, with the figures of all runs of this variant together."""

    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(
        description="Workload and load point, for example chat/rate=4; or startup."
    )
    runs: int = Field(
        0, description="Runs behind these figures, each a fresh server."
    )
    left_out: int = 0
    """Runs that were measured to their end but left out of these figures: they are Invalid here, or
    lack this load point. The row is then Suspect at best."""
    metrics: Metrics = Field(
        default_factory=dict,
        description=(
            "Figures under vLLM's own names, the geometric mean over the runs; "
            "time_to_ready_s at startup; "
            "also output_throughput_per_gpu if every variant has GPUs, and the costs of a run's "
            "rows if the template names a price. Then the figures that servers report: "
            f"{_MEANS}, the mean over the runs, and {_MAXIMA}, the highest of any run."
        ),
    )
    throughput_of: ThroughputOf | None = None
    """The part of the stage that throughput, costs and tokens per joule are taken from, as in a
    run's rows."""
    changes: list[Change] = entries(7, key="metric")
    """Change against the baseline's row, with interval and outcome. If all servers of a sweep are
    equal, some outcome in it is wrong with a probability of at most 5 %. With scope
    WithinOneServer, a restart alone may make a difference."""
    paired: bool = Field(
        False,
        description="Whether it was sent the same traffic as the baseline, by digests.",
    )
    limit: Bottleneck | None = None
    """The server's bottleneck, if this variant and the baseline show it together: more requests ran
    at once, and throughput stayed or the KV cache was full."""
    verdict: Verdict
    """The worst verdict of the runs behind these figures; Unknown if nothing was measured. Invalid
    only if no run can be trusted here."""
    reason: ShortReason | None = Field(
        None,
        description=(
            "Why figures are missing or not comparable, or what else differs from the baseline."
        ),
    )


class UndecidedVariant(StatusModel):
    """A variant that may be better than the best, but it is not certain."""

    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(
        description="Its load point with the highest throughput among these."
    )
    throughput: float = Field(description="Output tokens a second there.")
    throughput_per_gpu: float | None = Field(
        None, description="The same per GPU; absent unless every variant has GPUs."
    )
    why: ShortReason = Field(
        description="What is not certain, or why its figures do not count."
    )
    price: Price | None = None
    """What each of its runs would take at this load point to decide it: the most of any of them;
    absent if it is not known, or more requests do not help."""

    @property
    def decided_by(self) -> str:
        """Return what would decide on it; if unknown, why it is undecided."""
        if self.price is None:
            return self.why
        return f"about {self.price.in_words} a run would decide it"


# The objective of a best variant that has no other condition.
THROUGHPUT = "throughput"


class BestVariant(StatusModel):
    """The best variant by one objective in one workload, and the undecided ones beside it."""

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    objective: Annotated[str, Field(max_length=80)]
    """The limit that must be kept, for example TTFT p99 <= 500 ms; `every objective`; or
    `throughput` if there is no limit."""
    variant: Variant | None = None
    """The variant that keeps the limit with certainty and has the most output tokens a second, per
    GPU if every variant has GPUs. Absent if none keeps it with certainty."""
    load_point: LoadPointId | None = Field(
        None, description="The load point at which it does."
    )
    throughput: float | None = None
    """Output tokens a second there, of the part of the stage that all load points of its workload
    have."""
    throughput_per_gpu: float | None = Field(
        None, description="The same per GPU; absent unless every variant has GPUs."
    )
    tied_with: list[Variant] = Field(
        default_factory=list, max_length=MAX_VARIANTS, json_schema_extra=SET
    )
    """Other variants that keep the limit and may be the best: with 95 % certainty the best one is
    among these and `variant`."""
    optimism_percent: float | None = None
    """By how much the best figure is too high on average if all load points that may be the best
    are equal."""
    undecided: list[UndecidedVariant] = entries(MAX_UNDECIDED)
    """Variants with more throughput than the best whose objective is neither met nor missed with
    certainty, or whose load point is Invalid; the highest first."""
    more_undecided: int = Field(
        0, description="Further undecided variants, without room in the list."
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
    """A load point on the Pareto front.

    No other load point of the workload is better on one axis and at least equal on the other.
    Values that differ by less than noise or 1 % are equal.
    """

    workload: Annotated[str, Field(max_length=40)] = Field(
        description="Name of the workload."
    )
    variant: Variant = Field(description="Name of the variant.")
    load_point: LoadPointId = Field(description="Its load point.")
    throughput: float | None = Field(None, description="Output tokens a second.")
    throughput_per_gpu: float | None = Field(
        None, description="The same per GPU; absent unless every variant has GPUs."
    )
    mean_tpot_ms: float = Field(
        description="Mean time per output token, in milliseconds."
    )
    is_distinct: bool | None = None
    """Whether it certainly has more throughput and a higher TPOT than the point before it; false if
    the noise is not known."""


class BenchmarkSweepStatus(StatusModel):
    """What the operator found."""

    observed_generation: int = Field(
        -1, description="Generation of the spec this status is about; -1: none yet."
    )
    phase: SweepPhase | None = Field(
        None,
        description="Current phase, for people; programs read the conditions.",
    )
    conditions: Conditions = Field(
        (), description="Observations about the sweep, one a type."
    )
    message: StatusText | None = Field(
        None,
        description="What happens now, or why the sweep ended; in a sentence.",
    )
    accepted_time: Instant | None = Field(
        None, description="When the operator accepted the spec."
    )
    completion_time: Instant | None = Field(
        None, description="When the sweep ended, in whatever way."
    )
    estimate: SweepEstimate | None = Field(
        None, description="How large the sweep is."
    )
    baseline: Variant | None = Field(
        None, description="Variant that the others are compared with."
    )
    currency: Annotated[str, Field(max_length=3)] | None = None
    """Currency of every cost in this status, if the template names a price."""
    runs: RunCounts | None = Field(
        None, description="How many runs are in each state."
    )
    gpu_seconds: float = Field(
        0, description="GPU-seconds of the runs that have released their GPUs."
    )
    variants: list[VariantStatus] = entries(MAX_VARIANTS, key="name")
    """The variants, as listed in the matrix. A variant with a failed run has a reason."""
    scope: Scope | None = None
    """WithinOneServer: intervals hold the noise of repeats on one server a variant; another start
    of the same server may differ by more. BetweenServers: they hold the noise of fresh servers.
    Absent if nothing is comparable."""
    detectable_percent: float | None = None
    """Change of the noisiest figure that is detected with 80 % probability, by the noise
    measured."""
    results: list[SweepRow] = entries(
        MAX_ROWS, "The table, one entry a variant and load point."
    )
    best: list[BestVariant] = entries(
        MAX_BEST, "The best variant by each objective, and by throughput alone."
    )
    front: list[FrontPoint] = entries(MAX_FRONT)
    """Pareto front of throughput against TPOT, from the lowest TPOT on; per GPU if every variant
    has GPUs."""
    verdict: Verdict | None = Field(
        None, description="The worst verdict of all rows."
    )
    truncated: list[Truncated] = entries(
        16, "Lists above that were cut to keep this object small.", key="field"
    )


class TabledRun(StatusModel):
    """A run whose results are in the table; it had a fresh server of its own."""

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
    """The verdicts of the variants that have figures."""
    outcomes: Annotated[dict[Variant, Outcome], Field(max_length=MAX_VARIANTS)] = (
        Field(default_factory=dict)
    )
    """The outcomes of the variants; the baseline has none."""
    searches: Annotated[
        dict[Variant, list[FoundLoad]], Field(max_length=MAX_VARIANTS)
    ] = Field(default_factory=dict)
    """The loads found, by variant."""
    settings: Annotated[
        dict[Variant, list[ComparedSetting]], Field(max_length=MAX_VARIANTS)
    ] = Field(default_factory=dict)
    """How the servers of variants differ from the baseline's."""
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


def _effective(server: ServerStatus) -> dict[str, str]:
    """Return what a server reports of its settings, without what else it reports."""
    names = {*ENGINES[server.engine].reported_settings.values()}
    return {k: v for k, v in server.reported.items() if k in names}


def essence(status: BenchmarkRunStatus) -> BenchmarkRunStatus:
    """Return the status with only the fields that comparisons read."""
    return BenchmarkRunStatus(
        conditions=status.conditions,
        phase=status.phase,
        completion_time=status.completion_time,
        scheduled_time=status.scheduled_time,
        start_time=status.start_time,
        server_released_time=status.server_released_time,
        client=status.client,
        servers=[
            each.model_copy(
                update={
                    "args": [],
                    "reported": _effective(each),
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
                    if key in (*comparison.KEYS.values(), STEADY_REQUESTS)
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
