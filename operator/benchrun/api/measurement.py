"""`spec.measurement`, `spec.objectives`, `spec.validity`, `spec.client`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import DIFFERENT_NUMBERS, NUMBER, Decimal, Percentile, SpecModel, Text
from benchrun.api.rules import Rule, Unique, exactly_one
from benchrun.api.server import PodOverrides, Resources

AT_MOST_100 = Rule(
    cel=f"!self.matches({NUMBER}) || double(self) <= 100.0",
    holds=lambda text: float(text) <= 100,
    message="must be at most 100",
)


class AutoWarmup(SpecModel):
    """Sends twice the workload's highest concurrency (16 where none is set), at the workload's own lengths."""

    max_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=60, description="Ends the warm-up of a workload after this long."
    )


class NoWarmup(SpecModel):
    """The first stage meets a cold server."""


class Warmup(SpecModel):
    """Exactly one of `auto` and `none`."""

    rules = (exactly_one("auto", "none"),)
    auto: AutoWarmup | None = Field(default=None, description="Warm up each workload before the first stage.")
    none: NoWarmup | None = Field(default=None, description="Do not warm up.")


class Measurement(SpecModel):
    """How the measurement is taken."""

    percentiles: Annotated[list[Percentile], Field(min_length=1, max_length=8), Unique(), DIFFERENT_NUMBERS] = Field(
        default=["50", "95", "99"], description="Percentiles of every latency in the results."
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=1, description="Seed of all traffic. Equal seeds on fresh servers mean equal traffic."
    )
    scrape_interval_seconds: Annotated[int, Field(ge=1, le=60)] = Field(
        default=1, description="How often each server's metrics page is read."
    )
    warmup: Warmup = Field(
        default_factory=lambda: Warmup(auto=AutoWarmup()), description="Requests before the first stage, not measured."
    )


class Objective(SpecModel):
    """A limit that a latency percentile must keep."""

    metric: Literal["TTFT", "TPOT", "ITL", "E2EL"] = Field(
        description="Time to first token, time per output token, inter-token latency or end-to-end latency."
    )
    percentile: Percentile = Field(default="99", description="Which percentile of it.")
    max_milliseconds: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        description="Largest value that still meets the objective."
    )


class Validity(SpecModel):
    """When a number stops being trustworthy."""

    max_failed_percent: Annotated[Decimal, AT_MOST_100] = Field(
        default="1",
        description="Share of failed requests above which a stage is Invalid: failed requests are missing from every latency.",
    )


class Client(SpecModel):
    """The pod that generates the load."""

    image: Text | None = Field(default=None, description="Client image; the operator's default if left out.")
    resources: Resources = Field(
        default_factory=Resources, description="What the client container gets; set CPU for busy loads."
    )
    pod: PodOverrides = Field(default_factory=PodOverrides, description="The client's pod.")
