"""`spec.workloads`: what is sent, how fast, how often.

`load.search`, which looks for the highest load that meets the objectives, is here too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from benchrun_client import contract
from benchrun_client.contract import CONFIRMATIONS, most_search_stages
from pydantic import Field

from benchrun.api import base
from benchrun.api.datasets import Dataset
from benchrun.api.requests import Request
from benchrun.api.server import engines_with

MAX_PROBES = 32
MAX_REPEATS = 10
MAX_USERS = 100_000
LEAST_BEYOND = 369
"""Least value of requests x (100 - percentile): with less, hardly any request lies beyond the
percentile."""
LEAST_TO_CONFIRM = 479
"""Least value of requests x (100 - percentile) if every load is measured only once."""

_WHOLE = "'^[0-9]+$'"
_TOLERANCE = base.Rule(
    cel=f"!self.matches({base.NUMBER}) || (double(self) >= 1.0 && double(self) <= 100.0)",
    message="must be between 1 and 100",
)
_ARE_NUMBERS = f"self.from.matches({base.NUMBER}) && self.to.matches({base.NUMBER})"


class Search(base.SpecModel):
    """Looks for the highest load that meets the objectives.

    It doubles the load, from the lowest on, until the objectives are not met. Then it halves the
    bracket, by ratio. At last, new stages confirm the load found.
    """

    rules = (
        base.Rule(
            cel=(
                f"self.axis != 'Concurrency' || (self.from.matches({_WHOLE}) && "
                f"self.to.matches({_WHOLE}))"
            ),
            message="from and to must be whole numbers if axis is Concurrency",
        ),
        base.Rule(
            cel=(
                f"self.axis != 'Concurrency' || !self.to.matches({base.NUMBER}) || "
                f"double(self.to) <= {MAX_USERS}.0"
            ),
            message=f"to must be at most {MAX_USERS} if axis is Concurrency",
        ),
        base.Rule(
            cel=f"!({_ARE_NUMBERS}) || double(self.from) < double(self.to)",
            message="from must be a smaller number than to",
        ),
    )
    axis: Literal["RequestRate", "Concurrency"] = Field(
        description="Varies requests a second, or concurrent users."
    )
    from_: base.PositiveDecimal = Field(alias="from")
    """Lowest load, measured first; it should meet the objectives."""
    to: base.PositiveDecimal = Field(
        description="Highest load; the search ends there if it meets the objectives."
    )
    tolerance_percent: Annotated[base.Decimal, _TOLERANCE] = "5"
    """Width of the bracket at which the search ends."""
    max_probes: Annotated[int, Field(ge=1, le=MAX_PROBES)] = Field(
        12,
        description=(
            f"Most load points; up to {CONFIRMATIONS} are then measured to confirm the load found."
        ),
    )
    max_repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 6
    """Most stages that confirm a load. They are repeated until it is 95 % certain whether the
    objectives are met; if it never is, they count as not met. Before the confirmation, each load is
    measured once."""

    @property
    def most_stages(self) -> int:
        """Return the most stages that the search can take, confirmations included."""
        return most_search_stages(self.max_probes, self.max_repeats)


_LISTED_IN = {kind.axis: kind.listed_in for kind in contract.KINDS}
"""The field of a spec's load that lists the values along an axis."""
_LISTS = tuple(base.json_name(field) for field in _LISTED_IN.values())
_ONE_OF = f"{', '.join(_LISTS)} and search"
"""The fields of a load that say which loads there are, in words."""
_LOADS = f"[{', '.join(f'has({{0}}.{name})' for name in (*_LISTS, 'search'))}].filter(x, x).size()"
_SEARCH = "has(w.load.search)"
MOST_PROBES = f"(w.load.search.maxProbes + {CONFIRMATIONS})"
"""CEL for the load points of a search, confirmations included."""
LISTED_POINTS = "".join(
    f"has(w.load.{name}) ? size(w.load.{name}) : " for name in _LISTS
)
"""CEL for the number of listed load points. An expression for other loads must follow."""
MOST_STAGES = (
    f"(w.load.search.maxProbes + {CONFIRMATIONS} * w.load.search.maxRepeats)"
)
"""CEL for the most stages of a search."""
_REQUESTS = (
    "(has(w.requests) ? double(w.requests) : "
    f"has(w.durationSeconds) && w.load.search.from.matches({base.NUMBER}) ? "
    "double(w.durationSeconds) * double(w.load.search.from) : 0.0)"
)
_UNMIXABLE = (
    "mix",
    *(
        data.model_fields["kind"].default
        for data in contract.DATASETS
        if not data.is_mixable
    ),
)
_EMBEDDING = engines_with(lambda engine: engine.embeddings)
_ENOUGH = (
    "!has(self.objectives) || self.objectives.all(o, o.metric == 'ITL' || "
    f"!o.percentile.matches({base.NUMBER}) || "
    f"{_REQUESTS} * (100.0 - double(o.percentile)) >= "
    f"(w.load.search.maxRepeats > 1 ? {LEAST_BEYOND}.0 : {LEAST_TO_CONFIRM}.0))"
)


_SENT_AGAIN = {
    f"w.dataset.{data.model_fields['kind'].default}": data.sends_again_in_spec
    for data in contract.DATASETS
    if data.sends_again_in_spec
}
SENT_ONCE = " && ".join(
    f"(!has({at}) || !({again.replace('self.', f'{at}.')}))"
    for at, again in _SENT_AGAIN.items()
)
"""CEL: no dataset sends the same prompts in every stage (`sends_again` of the dataset's model)."""


_EMBEDS = "w.api == 'Embeddings'"
_IS_MEASURED = f"{_LOADS.format('w.load')} > 0"

WORKLOAD_RULES = (
    base.Rule(
        cel=(
            f"!self.workloads.exists(w, {_EMBEDS}) || "
            f"self.workloads.all(w, {_EMBEDS} || !({_IS_MEASURED}))"
        ),
        message=(
            "a server makes embeddings or writes texts: set api: Embeddings for every workload, or "
            "for none"
        ),
        path=".workloads",
    ),
    base.Rule(
        cel=(
            f"!self.workloads.exists(w, {_EMBEDS}) || !has(self.objectives) || "
            "self.objectives.all(o, o.metric == 'E2EL')"
        ),
        message="an embedding comes as a whole and has only an E2EL: set metric: E2EL",
        path=".objectives",
    ),
    base.Rule(
        cel=(
            f"!self.workloads.exists(w, {_EMBEDS}) || (has(self.server) ? "
            f"self.server.engine in {_EMBEDDING} && !has(self.server.disaggregated) : "
            f"has(self.endpoint) && self.endpoint.engine in {_EMBEDDING})"
        ),
        message=(
            f"api Embeddings needs a server or an endpoint of engine {' or '.join(_EMBEDDING)}, "
            "without disaggregated"
        ),
        path=".workloads",
    ),
    base.Rule(
        cel=(
            f"!self.workloads.exists(w, {_SEARCH}) || (has(self.objectives) && "
            "size(self.objectives) > 0)"
        ),
        message=(
            "load.search looks for the highest load that meets the objectives: set at least one "
            "objective"
        ),
        path=".objectives",
    ),
    base.Rule(
        cel=f"!self.workloads.exists(w, {_SEARCH}) || self.repeats == 1",
        message=(
            "load.search decides itself how often a load is measured (maxRepeats); leave repeats "
            "at 1"
        ),
        path=".repeats",
    ),
    base.Rule(
        cel=f"self.workloads.all(w, !{_SEARCH} || ({_ENOUGH}))",
        message=(
            "a search needs requests (or durationSeconds x from) for its percentiles: at least 369 "
            "a stage for the 99th, 74 for the 95th, 37 for the 90th, in general 369 / (100 - "
            "percentile), or 479 where maxRepeats is 1; ITL needs no such number"
        ),
        path=".workloads",
    ),
    base.Rule(
        cel=(
            "self.workloads.all(w, !has(w.dataset.mix) || w.dataset.mix.all(p, "
            "self.workloads.exists(o, o.name == p.workload"
            f"{''.join(f' && !has(o.dataset.{name})' for name in _UNMIXABLE)})))"
        ),
        message=(
            "dataset.mix names other workloads of this spec, whose dataset is none of "
            f"{', '.join(_UNMIXABLE)}: add the workload, or correct its name"
        ),
        path=".workloads",
    ),
    base.Rule(
        cel=(
            f"self.workloads.all(w, {_LOADS.format('w.load')} > 0 || has(w.requests) || "
            "has(w.durationSeconds) || self.workloads.exists(m, has(m.dataset.mix) && "
            "m.dataset.mix.exists(p, p.workload == w.name)))"
        ),
        message=(
            "a workload without load is sent only as part of a mix: set its load, or name it in a "
            "dataset.mix"
        ),
        path=".workloads",
    ),
)
"""Rules between workloads, and between them and the rest of the spec."""


MAX_LOADS = 32
MAX_WORKLOADS = 16
MAX_LOAD_POINTS = 64
MAX_STAGES = 256
MAX_REQUESTS = 50_000  # Requests of one stage.

Concurrency = Annotated[int, Field(ge=1, le=100_000)]
Loads = Annotated[
    list[base.T], Field(min_length=1, max_length=MAX_LOADS), base.Unique()
]


MAX_THINK_SECONDS = 3600


class ThinkTime(base.SpecModel):
    """How long a user waits after an answer before it sends the next request."""

    mean: Annotated[
        base.PositiveDecimal,
        base.Rule(
            cel=f"!self.matches({base.NUMBER}) || double(self) <= {MAX_THINK_SECONDS}.0",
            message=f"must be at most {MAX_THINK_SECONDS}",
        ),
    ] = Field(description="Mean, in seconds.")
    distribution: Literal["Exponential", "Constant"] = Field(
        "Exponential",
        description="Drawn with the stage's seed, or always the mean.",
    )


_CLOSED = (
    "has(self.concurrencies) || (has(self.search) && self.search.axis == 'Concurrency') || "
    "(has(self.requestRates) && has(self.maxConcurrency) && "
    "self.requestRates.all(r, r == 'inf'))"
)
_SET_USERS = (
    "needs users: set concurrencies, a search with axis: Concurrency, or "
    'requestRates: ["inf"] with maxConcurrency; or remove this field'
)


class LoadSpec(base.SpecModel):
    """Load points of one kind.

    Exactly one of: request rates (open loop), concurrencies (closed loop), sessions at once, a
    search for the highest load, the speeds at which a trace is replayed, or batch sizes (with
    `offline`).
    """

    rules = (
        base.Rule(
            cel=f"{_LOADS.format('self')} <= 1",
            message=f"must set exactly one of {_ONE_OF}",
        ),
        base.Rule(
            cel="!has(self.maxConcurrency) || has(self.requestRates)",
            message="set maxConcurrency only with requestRates",
        ),
        base.Rule(
            cel="!has(self.burstiness) || has(self.requestRates)",
            message="set burstiness only with requestRates",
        ),
        base.Rule(
            cel=f"!has(self.start) || {_CLOSED}",
            message=f"start {_SET_USERS}",
            path=".start",
        ),
        base.Rule(
            cel=f"!has(self.thinkSeconds) || {_CLOSED}",
            message=f"thinkSeconds {_SET_USERS}",
            path=".thinkSeconds",
        ),
    )
    request_rates: Annotated[Loads[base.Rate], base.DIFFERENT_NUMBERS] | None = None
    """Requests a second, each a load point: decimals above 0, or "inf" for all at once."""
    max_concurrency: Concurrency | None = None
    """Most requests in flight; further requests wait in the client."""
    burstiness: base.PositiveDecimal | None = None
    """Distribution of the gaps between arrivals: 1 is Poisson (the default), below 1 is burstier,
    above 1 more even."""
    concurrencies: Loads[Concurrency] | None = None
    """Numbers of users that each send the next request when the last was answered; each a load
    point."""
    sessions: Loads[Concurrency] | None = None
    """With dataset.sessions: how many sessions are under way at once, each a load point. A turn is
    sent when those before it are answered and its pause is over; the next session begins when one
    has ended."""
    start: Literal["Spread", "Together"] | None = None
    """How users begin: spread over one expected round (the default), or one right after the
    other."""
    think_seconds: ThinkTime | None = None
    """How long users wait after an answer; left out: they do not wait."""
    search: Search | None = Field(
        None, description="A search in place of listed loads."
    )
    trace_speeds: (
        Annotated[Loads[base.PositiveDecimal], base.DIFFERENT_NUMBERS] | None
    ) = None
    """Replays the instants of dataset.timedTrace, each speed a load point: 1 as recorded, 2 twice
    as fast."""
    batch_sizes: Loads[Annotated[int, Field(ge=1, le=MAX_REQUESTS)]] | None = None
    """With offline: requests that the engine is given in one call, the next when all are answered;
    each a load point."""

    @property
    def points(self) -> tuple[contract.Load, ...]:
        """Return the listed loads, each once; a search lists none."""
        for axis, field in _LISTED_IN.items():
            if (listed := getattr(self, field)) is not None:
                values = dict.fromkeys(
                    contract.spelled(str(value)) for value in listed
                )
                return tuple(self.at(axis, value) for value in values)
        return ()

    @property
    def highest(self) -> tuple[contract.Load, ...]:
        """Return the listed loads, or the highest load that a search may choose."""
        if self.search is None:
            return self.points
        return (self.at(self.search.axis, contract.spelled(self.search.to)),)

    @property
    def lowest_searched(self) -> contract.Load | None:
        """Return the lowest load that a search measures; None if there is no search."""
        if self.search is None:
            return None
        return self.at(self.search.axis, contract.spelled(self.search.from_))

    def at(self, axis: str, value: str) -> contract.Load:
        """Return the load at a value along an axis, with the load's other settings."""
        return contract.kind_of(axis, value).of(value, **self.options)

    @property
    def options(self) -> dict[str, object]:
        """Return the load's settings besides its values, by their names in the contract."""
        think = self.think_seconds
        drawn = think and contract.ThinkTime(
            mean_seconds=contract.spelled(think.mean),
            distribution=think.distribution,
        )
        return {
            "max_concurrency": self.max_concurrency,
            "burstiness": contract.spelled(self.burstiness or "1"),
            "start": self.start or "Spread",
            "think_seconds": drawn,
        }


_Share = Annotated[
    str, Field(max_length=8, pattern=r"^(0\.0*[1-9][0-9]*|1(\.0+)?)$")
]
_UP_TO_2 = r"1(\.[0-9]+)?|2(\.0+)?)$"


class Sampling(base.SpecModel):
    """All settings are sent: unset fields are off, and no default of model or server applies."""

    rules = (
        base.Rule(
            cel="!(has(self.topP) || has(self.topK) || has(self.minP)) || "
            "self.temperature.matches('[1-9]')",
            message="topP, topK and minP need temperature above 0",
        ),
    )
    temperature: Annotated[
        str, Field(max_length=8, pattern=rf"^(0(\.[0-9]+)?|{_UP_TO_2}")
    ] = "0"
    """Up to 2; 0 is greedy."""
    top_p: _Share | None = Field(None, description="Above 0, up to 1.")
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Number of likeliest tokens that are drawn from."
    )
    min_p: _Share | None = Field(
        None,
        description="Least probability of a token, as a share of the likeliest one's.",
    )
    logprobs: Annotated[int, Field(ge=1, le=20)] | None = Field(
        None,
        description="Log probabilities requested per token: of this many likeliest ones.",
    )
    repetition_penalty: (
        Annotated[
            str, Field(max_length=8, pattern=rf"^(0\.0*[1-9][0-9]*|{_UP_TO_2}")
        ]
        | None
    ) = None
    """Up to 2; above 1 repeats less."""
    stop: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=64)]],
            Field(min_length=1, max_length=4),
            base.Unique(),
        ]
        | None
    ) = Field(None, description="Texts that end an answer.")


_TEXTS = "!has(self.request) || !has(self.request.texts)"
_OF_ANSWERS = {
    "sampling": "!has(self.sampling)",
    "ignoreEOS": "self.ignoreEOS",
    "request.responseFormat": "!has(self.request) || !has(self.request.responseFormat)",
}
"""Fields that say something of the tokens of answers -> CEL: the field is left out."""


class Workload(base.SpecModel):
    """One kind of traffic, measured at every load point; without a load only part of a mix."""

    rules = (
        base.Rule(
            cel=(
                f"{_LOADS.format('self.load')} == 0 || has(self.requests) != "
                "has(self.durationSeconds)"
            ),
            message="must set exactly one of requests and durationSeconds",
        ),
        base.Rule(
            cel=(
                f"{_LOADS.format('self.load')} > 0 || (!has(self.requests) && "
                "!has(self.durationSeconds))"
            ),
            message=(
                f"load must set exactly one of {_ONE_OF}; a workload that is only part of a mix "
                "has no load, requests or durationSeconds"
            ),
            path=".load",
        ),
        base.Rule(
            cel="!has(self.load.traceSpeeds) || has(self.dataset.timedTrace)",
            message="load.traceSpeeds needs dataset.timedTrace",
        ),
        base.Rule(
            cel="has(self.load.sessions) == has(self.dataset.sessions)",
            message=(
                "dataset.sessions and load.sessions need each other: its turns are sent one after "
                "the other, by sessions at once"
            ),
        ),
        base.Rule(
            cel=(
                "!has(self.durationSeconds) || (has(self.load.requestRates) && "
                "self.load.requestRates.all(r, r != 'inf')) || (has(self.load.search) && "
                "self.load.search.axis == 'RequestRate')"
            ),
            message="durationSeconds needs finite requestRates; use requests instead",
        ),
        base.Rule(
            cel=(
                "!has(self.durationSeconds) || !has(self.load.requestRates) || "
                "self.load.requestRates.all(r, r == 'inf' || double(r) * "
                f"double(self.durationSeconds) <= {MAX_REQUESTS}.0)"
            ),
            message=f"rate x durationSeconds must be at most {MAX_REQUESTS} requests a stage",
        ),
        base.Rule(
            cel=(
                "!has(self.durationSeconds) || !has(self.load.search) || "
                f"!self.load.search.to.matches({base.NUMBER}) || double(self.load.search.to) * "
                f"double(self.durationSeconds) <= {MAX_REQUESTS}.0"
            ),
            message=(
                f"load.search.to x durationSeconds must be at most {MAX_REQUESTS} requests a stage"
            ),
        ),
        base.Rule(
            cel="!has(self.sampling) || !has(self.sampling.stop) || !self.ignoreEOS",
            message="sampling.stop ends answers early; set ignoreEOS: false",
        ),
        *(
            base.Rule(
                cel=f"self.api != 'Embeddings' || {absent}",
                message=f"api Embeddings has no answer of tokens: remove {field}",
                path=f".{field.partition('.')[0]}",
            )
            for field, absent in _OF_ANSWERS.items()
        ),
        base.Rule(
            cel="!has(self.request) || !has(self.request.chat) || self.api == 'Chat'",
            message=(
                "request.chat needs api: Chat: /v1/completions has no chat template and no tools, "
                "and ignores these fields"
            ),
            path=".request",
        ),
        base.Rule(
            cel=(
                "!has(self.request) || !has(self.request.responseFormat) || !self.ignoreEOS || "
                "self.api == 'Embeddings'"
            ),
            message=(
                "request.responseFormat ends answers when they are complete; set ignoreEOS: false"
            ),
            path=".request",
        ),
        base.Rule(
            cel=f"{_TEXTS} || self.api == 'Embeddings'",
            message="only api Embeddings takes several texts a request: remove request.texts",
            path=".request",
        ),
        base.Rule(
            cel=f"{_TEXTS} || (has(self.requests) && self.requests * self.request.texts <= "
            f"{MAX_REQUESTS})",
            message=(
                f"request.texts needs requests, and requests x texts of at most {MAX_REQUESTS} a "
                "stage"
            ),
            path=".request",
        ),
        base.Rule(
            cel=f"{_TEXTS} || (!has(self.dataset.timedTrace) && !has(self.dataset.sessions))",
            message=(
                "each prompt of dataset.timedTrace or sessions is sent at its own instant, so "
                "request.texts can't join several: remove it, or take another dataset"
            ),
            path=".request",
        ),
        base.Rule(
            cel="!self.testRequest || !has(self.load.search)",
            message=(
                "testRequest leaves a prompt in the cache, and load.search needs new ones; remove "
                "one"
            ),
            path=".testRequest",
        ),
    )
    name: base.WorkloadName = Field(
        description="Name of the workload, part of every stage id."
    )
    dataset: Dataset = Field(description="Where the prompts come from.")
    load: LoadSpec = Field(default_factory=LoadSpec)
    """How the requests arrive. Left out: the workload is not measured by itself, it is only part of
    a mix."""
    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        None, description="Requests of each stage."
    )
    duration_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Instead of requests: how many seconds each stage sends, at a finite rate."""
    api: Literal["Completions", "Chat", "Embeddings"] = Field(
        "Completions",
        description="/v1/completions, /v1/chat/completions or /v1/embeddings.",
    )
    ignore_eos: bool = Field(
        True, description="Whether answers always have the requested length."
    )
    sampling: Sampling | None = Field(
        None, description="How tokens are chosen; left out: greedily."
    )
    request: Request | None = Field(
        None,
        description="What every request says beside prompt, length and sampling.",
    )
    test_request: bool = Field(
        False,
        description="Sends the first prompt once before each stage, uncounted, as "
        "benchmark_serving.py does; the stage finds it cached.",
    )

    @property
    def is_measured(self) -> bool:
        """Return whether the workload has a load; without one it is only part of a mix."""
        return self.load.search is not None or bool(self.load.points)

    def requests_at(self, load: contract.Load) -> int:
        """Return the requests of one stage at a load: `requests`, or rate x duration rounded up."""
        return load.requests(self.requests, self.duration_seconds)


def datasets_of(
    workload: Workload, workloads: Sequence[Workload]
) -> tuple[Dataset, ...]:
    """Return the datasets that a workload sends: its own, or for a mix those of its parts.

    A mix names other workloads, which are looked up in `workloads`.
    """
    if workload.dataset.mix is None:
        return (workload.dataset,)
    named = {each.name: each.dataset for each in workloads}
    return tuple(named[part.workload] for part in workload.dataset.mix)


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A workload at a load point, its repeats pooled: one row of the results."""

    id: str  # `chat/rate=4`.
    workload: str
    load: contract.Load
    stage_ids: tuple[str, ...]  # Its repeats, first to last.
    confirms: bool = False  # Measured to confirm the load that a search found.
