"""`spec.measurement`, `spec.objectives`, `spec.validity`, `spec.client`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from benchrun.api.base import (
    DIFFERENT_NUMBERS,
    NUMBER,
    Decimal,
    Percentile,
    Rule,
    SpecModel,
    Text,
    Unique,
    exactly_one,
)
from benchrun.api.codes import FIXED, Code
from benchrun.api.server import Env, PodOverrides, Profile, Resources

AUTO = "Auto"
MAX_PROCESSES = 16

Parallelism = (
    Annotated[int, Field(ge=1, le=MAX_PROCESSES)]
    | Annotated[str, Field(max_length=4, pattern=f"^{AUTO}$")]
)

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


AT_MOST_100 = Rule(
    cel=f"!self.matches({NUMBER}) || double(self) <= 100.0",
    message="must be at most 100",
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


class Validity(SpecModel):
    """Limits and severities of findings."""

    max_failed_percent: Annotated[Decimal, AT_MOST_100] = "1"
    """Share of failed requests above which a stage is Invalid: failed requests are missing from
    every latency."""
    severities: Annotated[
        list[RuleSeverity], Field(max_length=32), Unique("code")
    ] = Field(default_factory=list)
    """Other severities for findings, or Off."""


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
