"""`spec.baseline` and `spec.cost`, `status.comparison` and `status.cost`.

The keys of the metrics that are compared and priced are here too.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from benchrun_client.engines import Effect
from pydantic import Field

from benchrun.api.base import (
    AT_MOST_100,
    SET,
    Decimal,
    DnsLabel,
    PositiveDecimal,
    SpecModel,
    StatusModel,
    Unique,
    entries,
    exactly_one,
)
from benchrun.api.price import Price
from benchrun.names import MAX_RUN_NAME

ComparedMetric = Literal[
    "OutputThroughput",
    "RequestThroughput",
    "TotalTokenThroughput",
    "MeanTTFT",
    "MeanTPOT",
    "MeanITL",
    "MeanE2EL",
    "P95TTFT",
    "P95TPOT",
    "P95ITL",
    "P95E2EL",
    "P99TTFT",
    "P99TPOT",
    "P99ITL",
    "P99E2EL",
    "TimeToReady",
]
"""Figures with one value a stage, so that repeats and servers show their noise. Percentiles need
`MIN_SERVERS_OF_PERCENTILES` servers a side. TimeToReady has one value a server."""
TIME_TO_READY: ComparedMetric = "TimeToReady"
STARTUP = "startup"
"""Stands in place of a load point where the start of servers is compared. No load point has this
id: they begin with a workload and a slash."""
_LATENCIES: Mapping[Any, str] = {
    f"{statistic}{latency}": f"{statistic}_{latency}_ms".lower()
    for statistic in ("Mean", "P95", "P99")
    for latency in ("TTFT", "TPOT", "ITL", "E2EL")
}
KEYS: Mapping[ComparedMetric, str] = {
    "OutputThroughput": "output_throughput",
    "RequestThroughput": "request_throughput",
    "TotalTokenThroughput": "total_token_throughput",
    **_LATENCIES,
    TIME_TO_READY: "time_to_ready_s",
}
"""vLLM's own names, which are the keys in the results; of a start, that in a sweep's rows."""


_OF_TOKENS = frozenset({KEYS["MeanTTFT"], KEYS["OutputThroughput"]})


def are_of_whole_answers(*figures: Mapping[str, float | None]) -> bool:
    """Return whether figures are of answers that came as a whole and have no tokens (embeddings).

    Such figures have neither a TTFT nor an output throughput, not even as unknown. `figures` are
    those of a stage or load point and of its steady part; either may have lost some to the other.
    """
    names = frozenset[str]().union(*figures)
    return KEYS["MeanE2EL"] in names and not _OF_TOKENS & names


HIGHER_IS_BETTER: frozenset[ComparedMetric] = frozenset(
    {"OutputThroughput", "RequestThroughput", "TotalTokenThroughput"}
)
THROUGHPUTS: tuple[str, ...] = (
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
)
PER_GPU = "output_throughput_per_gpu"
"""Key that exists only if the servers are known to hold a GPU."""
OUTPUT_COST = "cost_per_million_output_tokens"
TOTAL_COST = "cost_per_million_total_tokens"
COSTS: tuple[str, ...] = (OUTPUT_COST, TOTAL_COST)
"""Keys that exist only if the spec names a price; the values are in its currency."""
# There only where the power of GPUs is known.
TOKENS_PER_JOULE = "output_tokens_per_joule"
MIN_SERVERS_OF_PERCENTILES = 5
"""Least number of servers a side. Percentiles have a skewed distribution: with fewer values,
Student's test does not hold for them."""
DEFAULT_METRICS: tuple[ComparedMetric, ...] = (
    "OutputThroughput",
    "RequestThroughput",
    "MeanTTFT",
    "MeanTPOT",
    "MeanE2EL",
)
SWEPT_PERCENTILES: tuple[ComparedMetric, ...] = ("P99TTFT", "P99TPOT")


def swept_metrics(runs: int) -> tuple[ComparedMetric, ...]:
    """Return the metrics that a sweep with this number of runs a side compares."""
    return DEFAULT_METRICS + (
        SWEPT_PERCENTILES if runs >= MIN_SERVERS_OF_PERCENTILES else ()
    )


DEFAULT_MAX_REGRESSION_PERCENT = "5"
DEFAULT_EQUIVALENCE_PERCENT = "1"
"""The least change that matters. Two starts of one server usually differ by more (1.5 %), so nobody
would choose a server by less."""

Scope = Literal["WithinOneServer", "BetweenServers"]
SCOPES: Mapping[Scope, str] = {
    "WithinOneServer": (
        "within one server: the intervals hold the noise of repeats on one server a side. Another "
        "start of the same server may differ by more"
    ),
    "BetweenServers": "between servers: the intervals hold the noise of fresh servers",
}
"""Which noise a comparison takes into account, in words."""
Word = Literal[
    "Better",
    "Worse",
    "Equivalent",
    "NoDetectableDifference",
    "NotComparable",
    "Unknown",
]
Outcome = Literal[
    "Better",
    "Worse",
    "Mixed",
    "Equivalent",
    "NoDetectableDifference",
    "NotComparable",
    "Unknown",
]
Gate = Literal[
    "NotRegressed",
    "Regressed",
    "NotRegressedHere",
    "RegressedHere",
    "Underpowered",
    "Inconclusive",
]
"""RegressedHere, NotRegressedHere: with one server a side, so it holds for these two servers
only."""
ThroughputOf = Literal["Plateau", "Arrivals", "Stage"]
"""The part of a stage from which the throughput of a load point is taken, wherever throughputs are
compared, priced or shown."""
ReasonText = Annotated[str, Field(max_length=300)]


class Baseline(SpecModel):
    """The runs are compared when all is measured.

    NotRegressed is False if a figure is worse by more than is allowed.
    """

    name: Annotated[DnsLabel, Field(max_length=MAX_RUN_NAME)]
    """Another BenchmarkRun of the namespace. It must have finished when this run does."""
    max_regression_percent: Annotated[Decimal, AT_MOST_100] = (
        DEFAULT_MAX_REGRESSION_PERCENT
    )
    """How much worse, in percent of the baseline, a figure may get before the condition
    NotRegressed is False."""
    equivalence_percent: Annotated[PositiveDecimal, AT_MOST_100] = (
        DEFAULT_EQUIVALENCE_PERCENT
    )
    """The least change that matters, in percent: a figure that certainly changed by less is
    Equivalent."""
    metrics: Annotated[
        list[ComparedMetric], Field(min_length=1, max_length=16), Unique()
    ] = Field(list(DEFAULT_METRICS))
    """Figures to compare at every load point. Each further figure widens all intervals. Percentiles
    need five servers a side. TimeToReady is compared once, as load point startup."""
    one_server_is_enough: bool = False
    """A run and its baseline are one server a side, and servers of one definition differ: by
    default NotRegressed is then False or Unknown (OneServerASide), never True. With true it is True
    if these two servers show no regression."""


class ComparedRun(StatusModel):
    """The run as it was when it was compared."""

    name: str = Field(max_length=253, description="Name of the run.")
    uid: str | None = Field(
        None,
        max_length=64,
        description="Uid of the run; absent if there was no such run.",
    )
    digest: str | None = Field(
        None, max_length=80, description="Digest of the run's results at that time."
    )


class Change(StatusModel):
    """One figure of one load point, with the values of baseline and candidate."""

    metric: ComparedMetric = Field(description="Which figure.")
    baseline: float | None = Field(
        None,
        description="The baseline's figure; over several runs, the geometric mean.",
    )
    value: float | None = Field(None, description="This run's figure.")
    change_percent: float | None = Field(
        None, description="Change against the baseline, in percent of the baseline."
    )
    low_percent: float | None = Field(
        None, description="Lower end of the change's interval."
    )
    high_percent: float | None = Field(
        None, description="Upper end of the change's interval."
    )
    word: Word
    """Better or Worse: it changed. Equivalent: it changed by less than matters. Unknown: the noise
    is not known."""
    reason: ReasonText | None = Field(
        None, description="Why it is Unknown or NotComparable."
    )
    price: Price | None = None
    """What would decide it, if it is not detected or Unknown; absent if that is not known."""


class ComparedLoadPoint(StatusModel):
    """One load point, compared between baseline and candidate."""

    load_point: str = Field(
        max_length=160,
        description="Workload and load point, for example chat/rate=4; or startup.",
    )
    paired: bool = Field(
        False, description="Whether both sides sent equal traffic, by its digests."
    )
    reason: ReasonText | None = Field(
        None, description="Why it is not comparable; absent if it is."
    )
    throughput_of: ThroughputOf | None = Field(
        None, description="Which throughput was compared, as in results."
    )
    changes: list[Change] = entries(
        16, "What changed, one entry a figure.", key="metric"
    )


SettingWord = Literal["Same", "Differs", "Unknown"]
MAX_SETTINGS = 40  # More than a server has.


class ComparedSetting(StatusModel):
    """Engine, release or a setting of the servers, as both sides really ran."""

    setting: str = Field(
        max_length=60, description="What is compared, for example prefix cache."
    )
    baseline: str | None = Field(
        None, max_length=60, description="The baseline's; absent: not known."
    )
    value: str | None = Field(
        None, max_length=60, description="This side's; absent: not known."
    )
    word: SettingWord = Field(
        description="Unknown: at least one side does not say it."
    )
    on_purpose: bool = Field(
        False, description="Whether it differs because the specs say so."
    )
    changes: list[Effect] = Field(
        default_factory=list, max_length=3, json_schema_extra=SET
    )
    """What it can change where it differs: what is answered, how fast, the memory it takes."""

    @property
    def is_half_known(self) -> bool:
        """Return whether the setting is known of one side only."""
        return (self.baseline is None) != (self.value is None)


class Comparison(StatusModel):
    """If both sides have equal servers, some outcome is wrong with a probability of at most 5 %.

    With scope WithinOneServer, a restart alone may make a difference.
    """

    baseline: ComparedRun = Field(description="The other run.")
    scope: Scope | None = None
    """WithinOneServer: the intervals hold the noise of repeats on one server each; another start of
    the same server may differ by more. BetweenServers: they hold the noise of fresh servers. Absent
    if nothing is comparable."""
    outcome: Outcome = Field(
        description="All words in one; Mixed if some figures are Better and some Worse."
    )
    gate: Gate | None = Field(
        None,
        description="The result of the check against the largest regression allowed.",
    )
    detectable_percent: float | None = None
    """Change of the noisiest figure that this comparison detects with 80 % probability, by the
    noise measured."""
    gate_price: Price | None = None
    """What would decide the gate; absent if it is decided, or if that is not known. Of one server a
    side, where one is not enough, a usual noise between servers is assumed (a CV of 1.5 %)."""
    message: Annotated[str, Field(max_length=1024)] = Field(
        description="The outcome and its reasons, in a sentence."
    )
    settings: list[ComparedSetting] = entries(MAX_SETTINGS, key="setting")
    """How the servers of the two sides compare; the result document also has what is the same, and
    what neither side says."""
    load_points: list[ComparedLoadPoint] = entries(
        128, "The load points, in the order of the baseline.", key="loadPoint"
    )


Currency = Annotated[str, Field(min_length=3, max_length=3, pattern=r"^[A-Z]{3}$")]


class TokenPrices(SpecModel):
    """Prices of tokens, whatever servers cost."""

    input: Decimal = Field(
        description="Price of a million prompt tokens that are not cached."
    )
    cached_input: Decimal = Field(
        description="Price of a million cached prompt tokens."
    )
    output: Decimal = Field(description="Price of a million output tokens.")


class Cost(SpecModel):
    """Exactly one price. It does not affect the measurement."""

    rules = (exactly_one("per_gpu_hour", "per_hour", "per_million_tokens"),)
    per_gpu_hour: PositiveDecimal | None = None
    """Cost of a GPU hour with its share of the node: 2.49."""
    per_hour: PositiveDecimal | None = None
    """Cost of an hour of all servers together: for servers without GPUs, and for endpoints."""
    per_million_tokens: TokenPrices | None = None
    currency: Currency = Field(
        "USD",
        description="Currency of the price, as three capital letters (ISO 4217).",
    )


class CostStatus(StatusModel):
    """What the servers cost, if the spec names a price."""

    currency: str = Field(
        max_length=3, description="Currency of every cost in this status."
    )
    per_hour: float | None = None
    """Cost of an hour of all servers together; absent if the price is per GPU and no server holds a
    GPU."""
    per_million_tokens: str | None = Field(
        None, max_length=100, description="Token prices, used instead."
    )
