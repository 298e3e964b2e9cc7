"""`BenchmarkRun.spec`: the whole experiment, and what may still change once it is written."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from benchrun_client.engines import ENGINES, Engine, EngineName, RequestField
from pydantic import Field, model_validator

from benchrun.api import measurement, workloads
from benchrun.api.base import (
    NUMBER,
    Rule,
    SpecModel,
    Unique,
    entries,
    exactly_one,
    refused,
)
from benchrun.api.comparison import Baseline, Cost
from benchrun.api.measurement import AUTO, Client, Measurement, Objective, Validity
from benchrun.api.queueing import WhenEvicted
from benchrun.api.repeats import (
    AUTO_RULES,
    MAX_LOAD_POINT_REQUESTS,
    Budget,
    Repeats,
    Width,
    most_repeats,
)
from benchrun.api.row_figures import percentile_of
from benchrun.api.server import (
    ChatTemplate,
    Endpoint,
    Model,
    Offline,
    Server,
    Started,
    engines_with,
)
from benchrun.api.workloads import (
    MAX_LOAD_POINTS,
    MAX_STAGES,
    MAX_WORKLOADS,
    SENT_ONCE,
    Workload,
)

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

_RATES = "w.load.requestRates"
_SEARCH = "w.load.search"
_BATCHES = "w.load.batchSizes"
_POINTS = f"({workloads.LISTED_POINTS}has({_SEARCH}) ? {workloads.MOST_PROBES} : 0)"
_LOAD_POINTS = f"self.workloads.map(w, {_POINTS}).sum()"
_STAGES = f"self.workloads.map(w, has({_SEARCH}) ? {workloads.MOST_STAGES} : {_POINTS}).sum()"

MAX_RUN_REQUESTS = 1_000_000
"""Most requests of a run. All records are kept until the run is judged: some 70 MB in the cluster,
and some ten seconds of judging."""
_EACH_RATE = f"{_RATES}.map(r, r.matches({NUMBER}) && r != 'inf' ? double(r) : 0.0)"
_HIGHEST = f"(has({_SEARCH}) && {_SEARCH}.to.matches({NUMBER}) ? double({_SEARCH}.to) : 0.0)"
_BY_DURATION = "double(has(w.durationSeconds) ? w.durationSeconds : 0)"
# The budget bounds what Auto takes.
# A word is refused by its pattern; the API server evaluates rules all the same.
_LEAST_REPEATS = (
    "(string(self.repeats).matches('^[0-9]+$') ? int(self.repeats) : 1)"
)
_REPEATS = f"double(has({_SEARCH}) ? {_SEARCH}.maxRepeats : {_LEAST_REPEATS})"
# An empty list is refused by its bound; max() would fail on it, and say so beside that.
_LOAD_POINT_REQUESTS = (
    f"(self.workloads.map(w, (has(w.requests) ? double(w.requests) : {_BY_DURATION} * "
    f"(has({_RATES}) ? ({_EACH_RATE} + [0.0]).max() : {_HIGHEST})) * {_REPEATS}) + [0.0]).max()"
)
_ALL_STAGES = f"double(has({_SEARCH}) ? {workloads.MOST_STAGES} : {_POINTS} * {_LEAST_REPEATS})"
_RUN_REQUESTS = (
    f"self.workloads.map(w, has(w.requests) ? double(w.requests) * {_ALL_STAGES} : "
    f"{_BY_DURATION} * (has({_RATES}) ? {_EACH_RATE}.sum() * double({_LEAST_REPEATS}) : "
    f"{_HIGHEST} * {_ALL_STAGES})).sum()"
)

_NO_RESET = "self.measurement.cachePolicy != 'Reset'"
_SAID: Mapping[RequestField, str] = {
    "priority": "has(w.request.priority)",
    "adapters": "has(w.request.adapters)",
    "responseFormat": "has(w.request.responseFormat) && w.api == 'Completions'",
}
"""CEL: a workload's request says this (of the response format: to /v1/completions)."""
_UNHEARD = tuple(
    Rule(
        cel=(
            "(has(self.server) ? self.server.engine : has(self.endpoint) ? self.endpoint.engine : "
            f"'') != '{name}' || self.workloads.all(w, !has(w.request) || !({_SAID[said]}))"
        ),
        message=f"request.{said} is ignored by {engine.name}: {remedy}",
        path=".workloads",
    )
    for name, engine in ENGINES.items()
    for said, remedy in engine.unheard.items()
)
_WITH_PROFILER = engines_with(lambda engine: engine.profiler)
_DEVELOPMENT_MODES = tuple(
    Rule(
        cel=(
            f"{_NO_RESET} || !has(self.server) || self.server.engine != '{name}' || "
            f"!has(self.server.env) || self.server.env.all(v, v.name != '{variable}' || "
            "(has(v.value) && v.value == '1'))"
        ),
        message=f"measurement.cachePolicy Reset needs {variable}=1 and sets it: take it out of "
        "server.env, or give it the value 1",
        path=".server.env",
    )
    for name, engine in ENGINES.items()
    if (variable := engine.development_mode) is not None
)
_RESETS_MISSING = tuple(
    Rule(
        cel=(
            f"{_NO_RESET} || ((!has(self.server) || self.server.engine != '{name}') && "
            f"(!has(self.endpoint) || self.endpoint.engine != '{name}'))"
        ),
        message=f"measurement.cachePolicy Reset: no request empties the prefix cache of "
        f"{engine.name}; {engine.reset_remedy}",
        path=".measurement.cachePolicy",
    )
    for name, engine in ENGINES.items()
    if engine.reset_path is None
)


class BenchmarkRunSpec(SpecModel):
    """A benchmark: this server (or endpoint), this traffic, these objectives."""

    rules = (
        exactly_one("server", "endpoint", "offline"),
        Rule(
            cel=f"{_LOAD_POINTS} <= {MAX_LOAD_POINTS}",
            message=f"too many load points over all workloads; the limit is {MAX_LOAD_POINTS}",
            cel_message=(
                "'workloads have %d load points in all; the limit is "
                f"{MAX_LOAD_POINTS}'.format([{_LOAD_POINTS}])"
            ),
            path=".workloads",
        ),
        Rule(
            cel=f"{_LOAD_POINTS} * {_LEAST_REPEATS} <= {MAX_STAGES}",
            message=f"too many stages (load points x repeats); the limit is {MAX_STAGES}",
            cel_message=f"'%d load points x %d repeats = %d stages; the limit is {MAX_STAGES}'"
            f".format([{_LOAD_POINTS}, {_LEAST_REPEATS}, {_LOAD_POINTS} * {_LEAST_REPEATS}])",
            path=".repeats",
        ),
        Rule(
            cel=f"!self.workloads.exists(w, has({_SEARCH})) || {_STAGES} <= {MAX_STAGES}",
            message="too many stages: a search may need maxProbes + 3 confirmations x maxRepeats; "
            f"the limit is {MAX_STAGES} over all workloads",
            path=".workloads",
        ),
        Rule(
            cel=f"{_LOAD_POINT_REQUESTS} <= {MAX_LOAD_POINT_REQUESTS}.0",
            message=(
                "too many requests at a load point (requests x repeats); the limit is "
                f"{MAX_LOAD_POINT_REQUESTS}"
            ),
            cel_message="'a load point takes up to %d requests (requests x repeats); "
            f"the limit is {MAX_LOAD_POINT_REQUESTS}'.format([int({_LOAD_POINT_REQUESTS})])",
            path=".workloads",
        ),
        Rule(
            cel=f"{_RUN_REQUESTS} <= {MAX_RUN_REQUESTS}.0",
            message=f"too many requests (stages x requests); the limit is {MAX_RUN_REQUESTS}",
            cel_message="'the run takes up to %d requests in all (stages x requests); "
            f"the limit is {MAX_RUN_REQUESTS}'.format([int({_RUN_REQUESTS})])",
            path=".workloads",
        ),
        *workloads.WORKLOAD_RULES,
        *measurement.MEASUREMENT_RULES,
        *AUTO_RULES,
        Rule(
            cel=f"has(self.offline) || self.workloads.all(w, !has({_BATCHES}))",
            message=(
                "load.batchSizes needs offline, where the engine is given a whole batch; use "
                "concurrencies with a server"
            ),
            path=".workloads",
        ),
        Rule(
            cel=(
                f"!has(self.offline) || self.workloads.all(w, has({_BATCHES}) || (has({_RATES}) && "
                f"{_RATES}.all(r, r == 'inf') && !has(w.load.maxConcurrency) && "
                "!has(w.load.burstiness)))"
            ),
            message=(
                'offline gives the engine a whole load: set load to {requestRates: ["inf"]} (all '
                "prompts in one call) or to batchSizes"
            ),
            path=".workloads",
        ),
        Rule(
            cel=f"self.measurement.cachePolicy != 'Isolate' || self.workloads.all(w, {SENT_ONCE})",
            message=(
                "cachePolicy Isolate sends every prompt only once, but a workload repeats its "
                "prompts in every stage: leave out dataset.random.seed, dataset.shareGPT.seed and "
                "dataset.texts.order: File, or set cachePolicy Share or Reset"
            ),
            path=".measurement.cachePolicy",
        ),
        Rule(
            cel=(
                f"self.workloads.all(w, !has({_SEARCH}) || (self.measurement.cachePolicy != "
                f"'Share' && {SENT_ONCE}))"
            ),
            message=(
                "load.search confirms a load with new prompts: set cachePolicy Isolate or Reset, "
                "and leave out random.seed, shareGPT.seed and texts.order: File"
            ),
            path=".measurement.cachePolicy",
        ),
        Rule(
            cel="!has(self.offline) || self.workloads.all(w, !w.testRequest)",
            message="testRequest needs a server: with offline, remove testRequest",
            path=".workloads",
        ),
        Rule(
            cel=f"{_NO_RESET} || !has(self.offline)",
            message=(
                "measurement.cachePolicy Reset needs a server; with offline use Isolate, or turn "
                "the prefix cache off"
            ),
            path=".measurement.cachePolicy",
        ),
        Rule(
            cel=f"{_NO_RESET} || !has(self.endpoint) || self.endpoint.allowCacheReset",
            message=(
                "measurement.cachePolicy Reset empties the prefix cache of a server that others "
                "may use: set endpoint.allowCacheReset: true to have it emptied, or cachePolicy: "
                "Isolate"
            ),
            path=".endpoint.allowCacheReset",
        ),
        Rule(
            cel="!has(self.endpoint) || !has(self.cost) || !has(self.cost.perGPUHour)",
            message=(
                "benchrun does not know the GPUs behind an endpoint: set cost.perHour, of all its "
                "servers, or perMillionTokens"
            ),
            path=".cost",
        ),
        Rule(
            cel=(
                "!has(self.endpoint) || !has(self.model.source.hub) || "
                "!has(self.model.source.hub.cacheClaim) || "
                "self.model.source.hub.cacheClaim == ''"
            ),
            message="with endpoint, remove cacheClaim: it needs a server that the run starts",
            path=".model.source.hub.cacheClaim",
        ),
        *_DEVELOPMENT_MODES,
        *_RESETS_MISSING,
        Rule(
            cel="!has(self.offline) || self.workloads.all(w, !has(w.request))",
            message="request needs a server: with offline, remove request",
            path=".workloads",
        ),
        *_UNHEARD,
        Rule(
            cel=(
                "!has(self.measurement.profile) || (has(self.server) ? self.server.engine : "
                "has(self.endpoint) ? self.endpoint.engine : self.offline.engine) in "
                f"{_WITH_PROFILER}"
            ),
            message=f"measurement.profile needs engine {' or '.join(_WITH_PROFILER)}",
            path=".measurement.profile",
        ),
    )
    model: Model = Field(description="The model under test.")
    chat_template: ChatTemplate | None = None
    """Chat template (Jinja) of server and client, in place of the model's."""
    server: Server | None = None
    endpoint: Endpoint | None = Field(
        None, description="An existing server to measure instead."
    )
    offline: Offline | None = Field(
        None, description="An engine to measure instead of a server."
    )
    workloads: Annotated[
        list[Workload],
        Field(min_length=1, max_length=MAX_WORKLOADS),
        Unique("name"),
    ]
    """Traffic to send; each workload is measured at each of its load points."""
    repeats: Repeats = 1
    """How often each load point is measured, up to 100; with other prompts each time, unless
    cachePolicy is Share. Auto: until every objective is decided and every width is reached, or the
    budget ends."""
    budget: Budget | None = None
    widths: list[Width] = entries(
        16,
        "How narrow intervals are to be at every load point, with repeats: Auto.",
    )
    client: Client = Field(
        default_factory=Client, description="The pod that generates the load."
    )
    measurement: Measurement = Field(
        default_factory=Measurement, description="How the measurement is taken."
    )
    objectives: list[Objective] = entries(
        16, "Latency limits to judge every load point by."
    )
    baseline: Baseline | None = Field(
        None, description="Another run to compare this run with."
    )
    validity: Validity = Field(
        default_factory=Validity, description="Limits and severities of findings."
    )
    cost: Cost | None = Field(
        None,
        description="Price of servers or tokens, for the cost of a million tokens.",
    )
    suspend: bool = Field(
        False,
        description="Create nothing yet. Has no effect once the server exists.",
    )
    cancel: bool = Field(
        False, description="End the run and free its GPU. Can't be undone."
    )
    when_evicted: WhenEvicted = "QueueAgain"
    """What happens if Kueue takes the quota away before everything is measured. QueueAgain: what
    was measured is deleted, and the run waits in its queue again. End: the run ends."""
    pending_deadline_seconds: Deadline = Field(
        0,
        description="Longest wait for a node (a GPU), for a quota in a queue of Kueue, and for a "
        "download to a cacheClaim; 0 means no limit.",
    )
    startup_deadline_seconds: Deadline = 1800
    """Longest time from scheduled to healthy; 0 means no limit. Can only be lowered once the run is
    accepted."""
    run_deadline_seconds: Deadline = Field(
        14_400,
        description="Most time for warm-up and stages; 0 means no limit. Can only be lowered once "
        "the run is accepted.",
    )
    ttl_seconds_after_finished: (
        Annotated[int, Field(ge=0, le=31_536_000)] | None
    ) = None
    """Seconds after its end until this object and its results are deleted. Left out: never."""

    @model_validator(mode="after")
    def _measures_what_rules_ask_for(self) -> Self:
        measured = {float(each) for each in self.measurement.percentiles}
        for place, rule in enumerate(self.validity.user_rules):
            for field, name in rule.metrics:
                percentile = percentile_of(name)
                if percentile is not None and percentile not in measured:
                    raise refused(
                        f'{name} is not measured: add "{percentile:g}" to '
                        "measurement.percentiles",
                        f".validity.rules[{place}].{field}",
                    )
        return self

    @property
    def until_decided(self) -> bool:
        """Return whether load points are repeated until everything that is asked is decided."""
        return self.repeats == AUTO

    @property
    def budget_requests(self) -> int:
        """Return the most requests of `repeats: Auto`."""
        set_to = None if self.budget is None else self.budget.requests
        return set_to or MAX_LOAD_POINT_REQUESTS

    @property
    def most_repeats(self) -> int:
        """Return how often a load point is measured at most."""
        requests = [
            workload.requests_at(load)
            for workload in self.workloads
            for load in workload.load.points
        ]
        return most_repeats(
            self.repeats,
            load_points=len(requests),
            requests=self.budget_requests,
            cheapest=min(requests, default=1),
            stages=MAX_STAGES,
        )

    @property
    def started(self) -> Started | None:
        """Return the server or engine that this run starts, measures and removes.

        None if the run measures an endpoint.
        """
        return self.server or self.offline

    @property
    def engine_name(self) -> EngineName:
        """Return the name of the engine that this run measures."""
        measured = self.server or self.endpoint or self.offline
        assert measured is not None, "a rule of the spec"
        return measured.engine

    @property
    def engine(self) -> Engine:
        """Return the engine that this run measures."""
        return ENGINES[self.engine_name]

    @property
    def started_name(self) -> Literal["server", "offline"]:
        """Return the name of the field `started`: "offline" if that is set, else "server"."""
        return "server" if self.offline is None else "offline"
