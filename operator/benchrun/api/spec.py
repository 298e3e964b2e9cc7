"""`BenchmarkRun.spec`: the whole experiment, and what may still change once it is written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api import measurement, run_size, workloads
from benchrun.api.base import ATOMIC, Rule, SpecModel, Unique, exactly_one
from benchrun.api.comparison import Baseline, Cost
from benchrun.api.measurement import Client, Measurement, Objective, Validity
from benchrun.api.model_source import Model
from benchrun.api.server import DEVELOPMENT_MODE, Endpoint, Offline, Server, Started
from benchrun.api.workloads import MAX_CELLS, MAX_STAGES, MAX_WORKLOADS, Load, Workload

MUTABLE_FIELDS = (
    "suspend",
    "cancel",
    "pendingDeadlineSeconds",
    "startupDeadlineSeconds",
    "runDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
"""Everything else is immutable: a new measurement is a new object."""

Deadline = Annotated[int, Field(ge=0, le=604_800)]

_RATES, _USERS, _SEARCH = "w.load.requestRates", "w.load.concurrencies", "w.load.search"
_SPEEDS, _BATCHES = "w.load.traceSpeeds", "w.load.batchSizes"
_POINTS = (
    f"(has({_RATES}) ? size({_RATES}) : has({_USERS}) ? size({_USERS}) : "
    f"has({_SEARCH}) ? {_SEARCH}.maxProbes : has({_SPEEDS}) ? size({_SPEEDS}) : has({_BATCHES}) ? size({_BATCHES}) : 0)"
)
_CELLS = f"self.workloads.map(w, {_POINTS}).sum()"
_STAGES = workloads.search_stages("self.workloads", listed=_POINTS)


def _cells(spec: BenchmarkRunSpec) -> int:
    return sum(
        load.search.max_probes
        if load.search is not None
        else len(load.request_rates or load.concurrencies or load.trace_speeds or load.batch_sizes or ())
        for load in (workload.load for workload in spec.workloads)
    )


def _stages(spec: BenchmarkRunSpec) -> int:
    """With a search each load point is listed once: repeats are 1."""
    searches = [w.load.search for w in spec.workloads if w.load.search is not None]
    return _cells(spec) + sum(s.max_probes * (s.max_repeats - 1) for s in searches)


_NO_RESET = "self.measurement.cachePolicy != 'Reset'"


def _may_reset(spec: BenchmarkRunSpec) -> bool:
    return spec.measurement.cache_policy != "Reset" or spec.endpoint is None or spec.endpoint.allow_cache_reset


def _can_reset(spec: BenchmarkRunSpec) -> bool:
    if spec.measurement.cache_policy != "Reset" or spec.server is None:
        return True
    return all(v.value == "1" for v in spec.server.env if v.name == DEVELOPMENT_MODE)


def _is_given_whole(load: Load) -> bool:
    """Whether an engine without an API server can be given this load."""
    all_at_once = load.request_rates is not None and all(rate == "inf" for rate in load.request_rates)
    shaped = load.max_concurrency is not None or load.burstiness is not None
    return load.batch_sizes is not None or (all_at_once and not shaped)


class BenchmarkRunSpec(SpecModel):
    """A benchmark: this server (or endpoint), this traffic, these objectives."""

    rules = (
        exactly_one("server", "endpoint", "offline"),
        Rule(
            cel=f"{_CELLS} <= {MAX_CELLS}",
            holds=lambda spec: _cells(spec) <= MAX_CELLS,
            message=f"too many load points over all workloads; the limit is {MAX_CELLS}",
            cel_message=f"'workloads have %d load points in all; the limit is {MAX_CELLS}'.format([{_CELLS}])",
            python_message=lambda spec: f"workloads have {_cells(spec)} load points in all; the limit is {MAX_CELLS}",
            path=".workloads",
        ),
        Rule(
            cel=f"{_CELLS} * self.repeats <= {MAX_STAGES}",
            holds=lambda spec: _cells(spec) * spec.repeats <= MAX_STAGES,
            message=f"too many stages (load points x repeats); the limit is {MAX_STAGES}",
            cel_message=f"'%d load points x %d repeats = %d stages; the limit is {MAX_STAGES}'"
            f".format([{_CELLS}, self.repeats, {_CELLS} * self.repeats])",
            python_message=lambda spec: (
                f"{_cells(spec)} load points x {spec.repeats} repeats = "
                f"{_cells(spec) * spec.repeats} stages; the limit is {MAX_STAGES}"
            ),
            path=".repeats",
        ),
        Rule(
            cel=f"!self.workloads.exists(w, has({_SEARCH})) || {_STAGES} <= {MAX_STAGES}",
            holds=lambda spec: all(w.load.search is None for w in spec.workloads) or _stages(spec) <= MAX_STAGES,
            message=f"too many stages: a search may need maxProbes x maxRepeats; the limit is {MAX_STAGES} over all workloads",
            path=".workloads",
        ),
        *run_size.rules(_POINTS),
        *workloads.WORKLOAD_RULES,
        *measurement.MEASUREMENT_RULES,
        Rule(
            cel=f"has(self.offline) || self.workloads.all(w, !has({_BATCHES}))",
            holds=lambda spec: spec.offline is not None or all(w.load.batch_sizes is None for w in spec.workloads),
            message="load.batchSizes needs offline, where the engine is given a whole batch; use concurrencies with a server",
            path=".workloads",
        ),
        Rule(
            cel=f"!has(self.offline) || self.workloads.all(w, has({_BATCHES}) || (has({_RATES}) && {_RATES}.all(r, r == 'inf') "
            "&& !has(w.load.maxConcurrency) && !has(w.load.burstiness)))",
            holds=lambda spec: spec.offline is None or all(_is_given_whole(w.load) for w in spec.workloads),
            message='offline gives the engine a whole load: load is {requestRates: ["inf"]}, all prompts in one call, '
            "or batchSizes",
            path=".workloads",
        ),
        Rule(
            cel=f"{_NO_RESET} || !has(self.offline)",
            holds=lambda spec: spec.measurement.cache_policy != "Reset" or spec.offline is None,
            message="measurement.cachePolicy Reset needs a server to ask; with offline use Isolate, or turn the prefix cache off",
            path=".measurement.cachePolicy",
        ),
        Rule(
            cel=f"{_NO_RESET} || !has(self.endpoint) || self.endpoint.allowCacheReset",
            holds=_may_reset,
            message="measurement.cachePolicy Reset empties the prefix cache of a server that others may use: "
            "set endpoint.allowCacheReset: true to have it emptied, or cachePolicy: Isolate",
            path=".endpoint.allowCacheReset",
        ),
        Rule(
            cel="!has(self.endpoint) || !has(self.cost) || has(self.cost.perHour)",
            holds=lambda spec: spec.endpoint is None or spec.cost is None or spec.cost.per_hour is not None,
            message="the GPUs behind an endpoint are not known: set cost.perHour, the price of all its servers together",
            path=".cost",
        ),
        Rule(
            cel=f"{_NO_RESET} || !has(self.server) || !has(self.server.env) || self.server.env.all(v, "
            f"v.name != '{DEVELOPMENT_MODE}' || (has(v.value) && v.value == '1'))",
            holds=_can_reset,
            message=f"measurement.cachePolicy Reset needs {DEVELOPMENT_MODE}=1 and sets it: "
            "take it out of server.env, or give it the value 1",
            path=".server.env",
        ),
    )
    model: Model = Field(description="The model under test.")
    server: Server | None = Field(default=None, description="The vLLM server this run starts, measures and removes.")
    endpoint: Endpoint | None = Field(default=None, description="An existing server to measure instead.")
    offline: Offline | None = Field(
        default=None, description="vLLM's engine to measure instead, without an API server: how fast is it by itself?"
    )
    workloads: Annotated[list[Workload], Field(min_length=1, max_length=MAX_WORKLOADS), Unique("name")] = Field(
        description="Traffic to send; each workload is measured at each of its load points."
    )
    repeats: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1,
        description="How often each load point is measured; with other prompts each time, unless cachePolicy is Share.",
    )
    client: Client = Field(default_factory=Client, description="The pod that generates the load.")
    measurement: Measurement = Field(default_factory=Measurement, description="How the measurement is taken.")
    objectives: Annotated[list[Objective], Field(max_length=16, json_schema_extra=ATOMIC)] = Field(
        default_factory=list, description="Latency limits to judge every load point by."
    )
    baseline: Baseline | None = Field(default=None, description="Another run that this one is held against.")
    validity: Validity = Field(default_factory=Validity, description="When a number stops being trustworthy.")
    cost: Cost | None = Field(
        default=None,
        description="What the servers cost an hour, to tell what a million tokens cost at each load point.",
    )
    suspend: bool = Field(default=False, description="Create nothing yet. Has no effect once the server exists.")
    cancel: bool = Field(default=False, description="End the run and free its GPU. One way.")
    pending_deadline_seconds: Deadline = Field(
        default=0, description="How long the server may wait for a node (a GPU); 0 is no limit."
    )
    startup_deadline_seconds: Deadline = Field(
        default=1800, description="How long the server may take from being scheduled to being healthy; 0 is no limit."
    )
    run_deadline_seconds: Deadline = Field(
        default=14_400, description="How long warm-up and stages may take in all; 0 is no limit."
    )
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=31_536_000)] | None = Field(
        default=None,
        description="Delete this object (and its results) so long after it finished; kept for ever if left out.",
    )

    @property
    def started(self) -> Started | None:
        """What this run starts, measures and removes; None against an endpoint."""
        return self.server or self.offline

    @property
    def started_field(self) -> str:
        """Where it is described, for messages."""
        return f"spec.{self.started_name}"

    @property
    def started_name(self) -> Literal["server", "offline"]:
        """Which of the two it is."""
        return "server" if self.offline is None else "offline"
