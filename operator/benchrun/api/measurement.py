"""`spec.measurement`, `spec.objectives`, `spec.validity`, `spec.client`."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from benchrun.api import row_figures
from benchrun.api.base import (
    AT_MOST_100,
    DIFFERENT_NUMBERS,
    Decimal,
    Percentile,
    Rule,
    SpecModel,
    Text,
    Unique,
    WorkloadName,
    exactly_one,
    plain_text,
    refused,
)
from benchrun.api.codes import FIXED, Code
from benchrun.api.expressions import MAX_LENGTH, ExpressionError, compiled
from benchrun.api.server import Env, PodOverrides, Profile, Resources

AUTO = "Auto"
MAX_PROCESSES = 16


def number_or_auto(most: int) -> WrapValidator:
    """Build a validator of a number or Auto that has one problem, not one for each of the two."""

    def checked(value: object, either: ValidatorFunctionWrapHandler) -> object:
        try:
            return either(value)
        except ValidationError:
            text = f"must be a whole number from 1 to {most}, or {AUTO}"
            raise PydanticCustomError(
                "number_or_auto", "{text}", {"text": text}
            ) from None

    return WrapValidator(checked)


Auto = Annotated[str, Field(max_length=4, pattern=f"^{AUTO}$")]
Parallelism = Annotated[
    Annotated[int, Field(ge=1, le=MAX_PROCESSES)] | Auto,
    number_or_auto(MAX_PROCESSES),
]

_PROFILE = "self.measurement.profile"
_ONE = f"self.client.parallelism == '{AUTO}' || self.client.parallelism == 1"

MEASUREMENT_RULES = (
    Rule(
        cel=f"{_ONE} || self.workloads.all(w, !has(w.load.search))",
        message="load.search needs client.parallelism 1; or list the loads instead",
        path=".client.parallelism",
    ),
    Rule(
        cel=f"{_ONE} || self.workloads.all(w, !has(w.load.sessions))",
        message="load.sessions needs client.parallelism 1: one process knows when turns are due",
        path=".client.parallelism",
    ),
    Rule(
        cel=f"{_ONE} || !has(self.offline)",
        message="offline needs client.parallelism 1",
        path=".client.parallelism",
    ),
    Rule(
        cel=(
            f"!has({_PROFILE}) || (has(self.server) ? !has(self.server.disaggregated) : "
            f"!has(self.offline) && !has({_PROFILE}.claimName)) && self.workloads.all(w, "
            "!has(w.load.search))"
        ),
        message=(
            "measurement.profile can't be taken with offline, disaggregated or load.search: remove "
            "measurement.profile; with an endpoint remove measurement.profile.claimName"
        ),
        path=".measurement.profile",
    ),
)


class AutoWarmup(SpecModel):
    """Sends as many requests at once as the workload's highest load point may have in flight.

    It sends at most 1,024 if nothing bounds them, and up to 32 more after those.
    """

    max_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        60, description="Longest warm-up of a workload."
    )


class NoWarmup(SpecModel):
    """The first stage meets a cold server."""


class Warmup(SpecModel):
    """Exactly one of `auto` and `none`."""

    rules = (exactly_one("auto", "none"),)
    auto: AutoWarmup | None = Field(
        None, description="Warm up each workload before the first stage."
    )
    none: NoWarmup | None = Field(None, description="Do not warm up.")


CachePolicy = Literal["Isolate", "Reset", "Share"]
Order = Literal["Shuffled", "AsListed"]


class Measurement(SpecModel):
    """How the measurement is taken."""

    percentiles: Annotated[
        list[Percentile],
        Field(min_length=1, max_length=8),
        Unique(),
        DIFFERENT_NUMBERS,
    ] = Field(
        ["50", "95", "99"],
        description="Percentiles of every latency in the results.",
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    """Seed of all traffic. Equal seeds on fresh servers mean equal traffic."""
    scrape_interval_seconds: Annotated[int, Field(ge=1, le=60)] = 1
    """How often each server's metrics endpoint is scraped."""
    warmup: Warmup = Field(default_factory=lambda: Warmup(auto=AutoWarmup()))
    """Requests before the first stage."""
    order: Order = "Shuffled"
    """Order of the load points within each repeat: shuffled by the seed, so that a drift of the
    hardware does not look like an effect of the load, or as listed. All load points are measured
    once before any is repeated."""
    cache_policy: CachePolicy = "Isolate"
    """Isolate: no prompt shares its beginning with another, so the prefix cache stays cold. Reset:
    the servers' prefix caches are emptied before each stage. Share: every stage of a workload sends
    the same prompts, as scripts with a fixed seed do; what the cache serves is shown and judged."""
    profile: Profile | None = Field(
        None, description="Profile the server at the end; this changes no figure."
    )


class Objective(SpecModel):
    """A limit that a latency percentile must keep."""

    metric: Literal["TTFT", "TPOT", "ITL", "E2EL", "TTFRT", "TTFAT"]
    """Time to first token, time per output token, inter-token latency, end-to-end latency, time to
    the first token of reasoning, or of the answer after it."""
    percentile: Percentile = Field("99", description="Percentile of the metric.")
    max_milliseconds: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        description="Largest value that meets the objective."
    )


CHANGEABLE = tuple(sorted(code.value for code in Code if code not in FIXED))


def _known_code(text: str) -> str:
    if text not in CHANGEABLE:
        raise ValueError(f"must be one of {', '.join(CHANGEABLE)}")
    return text


ChangeableCode = Annotated[
    str,
    AfterValidator(_known_code),
    WithJsonSchema({"type": "string", "enum": list(CHANGEABLE)}),
]


class RuleSeverity(SpecModel):
    """Another severity for one finding."""

    code: ChangeableCode = Field(description="Code of the finding.")
    severity: Literal["Off", "Note", "Suspect", "Invalid"] = Field(
        description="Off: the rule is not applied."
    )


def _figure_of_a_row(name: str) -> str:
    if problem := row_figures.figure_problem(name):
        raise refused(problem)
    return name


def _condition(text: str) -> str:
    try:
        compiled(text, row_figures.ENVIRONMENT)
    except ExpressionError as problem:
        raise refused(str(problem)) from None
    return text


def _one_line(text: str) -> str:
    return " ".join(plain_text(text).split())


FigureName = Annotated[
    str,
    Field(min_length=1, max_length=80, pattern=r"^[a-zA-Z][a-zA-Z0-9_.]*$"),
    AfterValidator(_figure_of_a_row),
]
"""The name of a figure of a row. That it exists is checked before anything is created."""


class UserRule(SpecModel):
    """A rule of your own about one figure of every row.

    Exactly one of `above` and `below`.
    """

    rules = (exactly_one("above", "below"),)
    name: WorkloadName = Field(
        description="Its findings have the code UserRule/NAME."
    )
    metric: FigureName
    """The figure: a name in results[].metrics, as p99_ttft_ms; of a role, as
    server.kvCacheMaxPercent; or of the repeats, as repeatCvPercent.mean_ttft_ms."""
    relative_to: FigureName | None = Field(
        None, description="Compare the ratio of metric to this figure."
    )
    when: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_LENGTH),
            AfterValidator(_condition),
        ]
        | None
    ) = None
    """Rows that the rule is for: CEL over workload, axis, load (a double), repeats, metrics,
    repeatCvPercent and the roles. Left out: all."""
    above: Decimal | None = Field(None, description="Found above this value.")
    below: Decimal | None = Field(None, description="Found below this value.")
    severity: Literal["Note", "Suspect", "Invalid"] = Field(
        "Suspect", description="Severity of its findings."
    )
    message: (
        Annotated[
            str, Field(min_length=1, max_length=300), AfterValidator(_one_line)
        ]
        | None
    ) = Field(None, description="Sentence of its findings, before the figures.")

    @property
    def metrics(self) -> Iterator[tuple[str, str]]:
        """Yield each field that names metrics of a row, with each of these names."""
        yield "metric", self.metric
        if self.relative_to is not None:
            yield "relativeTo", self.relative_to
        if self.when is not None:
            for group, key in compiled(self.when, row_figures.ENVIRONMENT).figures:
                if group == row_figures.METRICS:
                    yield "when", key


MAX_RULES = 16


class Validity(SpecModel):
    """Limits and severities of findings."""

    max_failed_percent: Annotated[Decimal, AT_MOST_100] = "1"
    """Share of failed requests above which a stage is Invalid: failed requests are missing from
    every latency."""
    severities: Annotated[
        list[RuleSeverity], Field(max_length=32), Unique("code")
    ] = Field(default_factory=list)
    """Other severities for findings, or Off."""
    user_rules: Annotated[
        list[UserRule], Field(max_length=MAX_RULES), Unique("name")
    ] = Field(default_factory=list, alias="rules")
    """Rules of your own."""


class Client(SpecModel):
    """The pod that generates the load."""

    image: Text | None = Field(
        None, description="Client image; the operator's default if left out."
    )
    parallelism: Parallelism = 1
    """Processes that send the load together, each a share; every stage has one record of all
    requests. Auto: as many as the highest load listed needs. A pod has as many processes as its
    container has whole cores; there are as many pods as that takes."""
    env: Env = Field(default_factory=list)
    """Environment variables of the client. A proxy in them is on the way of the load, too: it would
    be measured with the server."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of the client's container; set CPU for busy loads. With parallelism, of the
    container in each client pod."""
    pod: PodOverrides = Field(
        default_factory=PodOverrides, description="The client's pod."
    )
