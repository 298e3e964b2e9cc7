"""The contract's plan: everything that a client needs to measure one run, its searches included."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from benchrun_client.contract.base import (
    WHOLE_ANSWERS,
    Api,
    Count,
    DecimalText,
    Hex,
    LeavesOut,
    LongText,
    Message,
    SamplingParams,
    Seed,
    ShortText,
    Tokens,
)
from benchrun_client.contract.datasets import Data
from benchrun_client.contract.loads import (
    MAX_REQUESTS_A_STAGE,
    Load,
    LoadKind,
    RateLoad,
    SearchedLoad,
    UsersLoad,
)
from benchrun_client.contract.model_files import ModelCache
from benchrun_client.contract.probability import ERROR
from benchrun_client.contract.request_fields import (
    NO_FIELDS,
    RequestFields,
    asked_body,
)
from benchrun_client.engines import EngineName

CONFIRMATIONS = 3
"""Most loads that a search tries to confirm: the load that it found, then lower ones."""
MAX_OPEN_STAGES = 280  # Most stages of a search, including its confirmations.


CONFIRMATION_ERROR = ERROR / CONFIRMATIONS
"""Largest probability that one confirmation wrongly calls a load Met: the whole search's error,
divided by the number of confirmations (Bonferroni)."""


class Requests(LeavesOut):
    """What kind of requests a workload sends, without the load."""

    left_out: ClassVar[frozenset[str]] = frozenset({"fields"})

    workload: str = Field(max_length=40)
    data: Data
    api: Api = "Completions"
    sampling: SamplingParams = SamplingParams()
    fields: RequestFields | None = None  # None: nothing beside prompt and sampling.

    @property
    def asked(self) -> RequestFields:
        """Return the fields that every request has in addition."""
        return self.fields or NO_FIELDS

    @property
    def asked_body(self) -> dict[str, object]:
        """Return the fields of a request body that do not depend on the request."""
        return asked_body(self.api, self.sampling, self.asked)

    @property
    def has_whole_answers(self) -> bool:
        """Return whether answers come as a whole, without tokens."""
        return self.api in WHOLE_ANSWERS

    @property
    def warms_to_the_end(self) -> bool:
        """Return whether unmeasured requests of this kind set `ignore_eos`.

        They do, so that they have their lengths, unless a schema ends the answers, or they have no
        tokens.
        """
        return self.asked.answer_schema is None and not self.has_whole_answers


Latency = Literal["TTFT", "TPOT", "ITL", "E2EL", "TTFRT", "TTFAT"]


class Limit(Message):
    """A latency percentile, and the most that it may be at the load that a search looks for."""

    metric: Latency
    percentile: str = Field(max_length=10)
    max_milliseconds: Count = Field(ge=1)


class SearchPlan(Requests):
    """A search for the highest load that keeps every limit.

    First, probes look for that load; the load of each depends on the results before it. Then
    further stages confirm it. Searches are measured after the plan's stages, one after the other.
    """

    lowest: SearchedLoad  # Measured first; other stages have the same load at other values.
    highest: str = Field(max_length=24)
    tolerance_percent: str = Field(max_length=24)
    """The search ends when the highest load that met and the lowest that did not differ by at most
    this percentage of the lower one."""
    # Most load points, without confirmations.
    max_probes: int = Field(ge=1, le=MAX_OPEN_STAGES)
    max_repeats: int = Field(ge=1, le=MAX_OPEN_STAGES)
    """Most stages that confirm one load; it is measured again while the outcome is Inconclusive."""
    objectives: tuple[Limit, ...] = Field(min_length=1, max_length=16)
    max_failed_percent: str = Field(max_length=24)
    # Requests of each stage; None stands for rate x duration.
    requests: Count | None = Field(None, ge=1)
    duration_seconds: Count | None = Field(None, ge=1)
    seeds: tuple[Seed, ...] = Field(max_length=MAX_OPEN_STAGES)
    """Seed of every possible stage, load point by load point."""
    ignore_eos: bool = True

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len(self.seeds) != self.most_stages:
            raise ValueError(
                f"seeds: expected one for each of {self.most_stages} stages, got {len(self.seeds)}"
            )
        if (self.requests is None) == (self.duration_seconds is None):
            raise ValueError("set exactly one of requests and duration_seconds")
        return self

    @property
    def metrics(self) -> frozenset[str]:
        """Return every latency that has a limit."""
        return frozenset(each.metric for each in self.objectives)

    @property
    def most_stages(self) -> int:
        """Return the most stages that there can be: one a probe, and all confirmations."""
        return most_search_stages(self.max_probes, self.max_repeats)

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Return the number and repeat of every possible stage: probes, then confirmations."""
        return search_places(self.max_probes, self.max_repeats)

    def load_at(self, value: Decimal) -> RateLoad | UsersLoad:
        """Return the load of a stage at this value.

        Raises ValueError if the kind of load can't have this value.
        """
        return self.lowest.at(value)

    def requests_at(self, load: LoadKind) -> int:
        """Return the requests of a stage at this load: fixed, or rate x duration, rounded up."""
        return load.requests(self.requests, self.duration_seconds)


def most_search_stages(max_probes: int, max_repeats: int) -> int:
    """Return the most stages of a search: one a probe, and all confirmations."""
    return max_probes + CONFIRMATIONS * max_repeats


def search_places(max_probes: int, max_repeats: int) -> tuple[tuple[int, int], ...]:
    """Return the number and repeat of every possible stage of a search.

    The probes, which look for the highest load, come first, then the confirmations.
    """
    looks = [(number, 1) for number in range(1, max_probes + 1)]
    confirmations = [
        (max_probes + confirmation, repeat)
        for confirmation in range(1, CONFIRMATIONS + 1)
        for repeat in range(1, max_repeats + 1)
    ]
    return (*looks, *confirmations)


class Width(Message):
    """A latency percentile, and how wide its interval may be."""

    metric: Latency
    percentile: str = Field(max_length=10)
    percent: str = Field(max_length=24)
    """Most that either end of the interval may lie from the percentile, in percent of it."""


class AutoPlan(Message):
    """Repeats until everything that is asked is decided, or the budget ends.

    The plan's stages are then all that there may be, repeat by repeat. A load point that is decided
    at a look gets no more of them.
    """

    objectives: tuple[Limit, ...] = Field((), max_length=16)
    widths: tuple[Width, ...] = Field((), max_length=16)
    max_failed_percent: str = Field(max_length=24)
    max_requests: Count = Field(ge=1)  # Requests of all stages together.
    max_seconds: Count | None = Field(None, ge=1)
    """Seconds from the start of the warm-up; None if they are not limited."""
    looks: tuple[Count, ...] = Field(min_length=1, max_length=16)
    """After how many repeats a load point is looked at, ascending."""

    @property
    def metrics(self) -> frozenset[str]:
        """Return every latency that is asked about."""
        limited = {limit.metric for limit in self.objectives}
        return frozenset(limited | {width.metric for width in self.widths})


LOOKS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90)
"""Repeats after which a load point is looked at: a look costs certainty, so from three on each has
half as many repeats again as the one before. One or two decide far limits, near ones need three."""


def looks_within(most_repeats: int) -> tuple[int, ...]:
    """Return the looks of a load point that is measured so often at most."""
    return tuple(look for look in LOOKS if look <= most_repeats)


def look_error(looks: Sequence[int]) -> float:
    """Return the largest probability that one look decides wrongly, on either side.

    All looks have an equal part of the whole error (Bonferroni), so it holds whenever the load
    point is decided. One part more is for the look where the budget ends between two others.
    """
    return ERROR / (len(looks) + 1)


def load_point_of(stage_id: str) -> str:
    """Return the load point of a listed stage: `chat/rate=4` of `chat/rate=4/r2`."""
    return stage_id.rpartition("/")[0]


class Probe(Message):
    """What was found out about a load, where that decides on the stages to come."""

    ends_search: bool
    """Whether the search, or all that is repeated until it is decided, ended with this stage."""
    confirms: bool = False
    """Whether the stage confirms the load found; False: it looks for the load."""


def open_stage_id(workload: str, probe: int, repeat: int) -> str:
    """Return the id of a search's stage, such as `chat/search-07/r1`."""
    return f"{workload}/search-{probe:02d}/r{repeat}"


def open_stage(stage_id: str) -> tuple[str, int, int] | None:
    """Parse the id of a search's stage into workload, probe and repeat; None if it is not one."""
    found = _OPEN_STAGE.fullmatch(stage_id)
    return (found[1], int(found[2]), int(found[3])) if found else None


_OPEN_STAGE = re.compile(
    r"([a-z0-9-]{1,40})/search-([0-9]{2,3})/r([1-9][0-9]{0,2})"
)
CachePolicy = Literal["Isolate", "Reset", "Share"]
PLAN_FILE = "plan.json"
MAX_TEMPLATE_CHARACTERS = 65_536
"""Most characters of a chat template; the longest of known models have some 20,000."""


class Stage(Requests):
    """One measurement: a workload at a load point, once."""

    left_out: ClassVar[frozenset[str]] = Requests.left_out | {"test_request"}

    id: str = Field(max_length=160)
    repeat: Count = Field(ge=1)
    load: Load
    requests: int = Field(ge=1, le=MAX_REQUESTS_A_STAGE)
    seed: Seed
    ignore_eos: bool = True
    test_request: Literal[True] | None = None
    """Whether the first prompt is sent once before the stage, uncounted; None if it is not."""


class WarmupPlan(Requests):
    """Requests sent before the first stage, with a workload's lengths; they are not measured."""

    requests: Count = Field(ge=1)
    prompts: Count | None = Field(None, ge=1)
    """Number of different prompts, which are sent in turn. It saves rows of a file, each of which
    is used once: a warm-up needs many requests, not many texts. None if as many as requests."""
    concurrency: Count = Field(ge=1)
    seed: Seed
    max_seconds: Count = Field(ge=1)


class ProfilePlan(Message):
    """A few seconds under the server's own profiler, after everything was measured."""

    load: WarmupPlan  # Sent like a warm-up, in place of a stage.
    seconds: Count = Field(ge=1)  # Seconds of the load that are profiled.
    # Seconds until profiling is given up, whatever it waits for.
    max_seconds: Count = Field(ge=1)
    reader_port: Count | None = None
    """Port at which the server's pod serves a summary of its trace; None if it serves none."""


class RequestHeader(Message):
    """A header of every request to an endpoint; a secret one stands in a variable of the pod."""

    name: ShortText
    value: LongText | None = None
    variable: ShortText | None = (
        None  # Variable of the client's pod that has the value.
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.value is None) == (self.variable is None):
            raise ValueError("set exactly one of value and variable")
        return self


class QueryParameter(Message):
    """A parameter in the URL of every request to an endpoint."""

    name: ShortText
    value: LongText


class RoleTarget(Message):
    """The servers of one role (prefill or decode) behind the proxy that requests go to.

    Their metrics are read; no request is sent to them directly.
    """

    role: str = Field(max_length=20)
    base_url: LongText
    # Number of addresses that the host name must have.
    servers: int = Field(ge=1, le=1024)


class Target(Message):
    """The server to measure."""

    engine: EngineName
    base_url: LongText
    """URL that requests go to; a host name is resolved once, when all servers are there."""
    servers: int = Field(ge=0, le=1024)
    """Number of addresses that the host name must have before anything is sent; 0: the URL is used
    unchanged."""
    behind: tuple[RoleTarget, ...] = Field((), max_length=8)
    """Servers behind a proxy; `base_url` then leads to the proxy."""
    metrics_urls: tuple[LongText, ...] = Field((), max_length=64)
    """Metrics endpoints to read before and after each stage; empty with `servers` > 0: `/metrics`
    of each address."""
    served_model: LongText
    tokenizer: LongText  # Path or hub id from which the tokenizer is loaded.
    tokenizer_revision: LongText | None = None
    chat_template: LongText | None = None
    """Path of a chat template that replaces the tokenizer's own; the server uses it too."""
    context_tokens: Tokens | None = None
    """Longest request that the server accepts, in tokens, if its arguments tell; longer rows are
    left out."""
    cache: ModelCache | None = None
    """The claim that the client fills with the model's files. None if there is none."""
    ca_file: LongText | None = None
    certificate: LongText | None = None
    """Folder with the client's certificate (`tls.crt`) and its key (`tls.key`)."""
    headers: tuple[RequestHeader, ...] = Field((), max_length=16)
    query: tuple[QueryParameter, ...] = Field((), max_length=16)
    metrics_apart: bool = False
    """Whether `metrics_urls` are not the endpoint's own: they get neither key nor headers."""
    # vLLM's engine without its API server: takes a load as a whole (`benchrun_client.offline`).
    offline: bool = False


PLAN_SCHEMA: Literal["benchrun.plan/2"] = "benchrun.plan/2"


class KindOfRequest(NamedTuple):
    """What requests have in common: all but the prompt and the length of the answer."""

    api: Api
    body: Mapping[str, object]  # Fields besides those of the load engine itself.
    adapter: str | None  # Adapter that the request is for; None: the model.
    ignore_eos: bool


class Plan(Message):
    """Everything that a client needs to measure one run."""

    schema_: Literal["benchrun.plan/2"] = Field(PLAN_SCHEMA, alias="schema")
    run_uid: str = Field(max_length=64)
    token_digest: Hex
    """SHA-256 of the token that is required to read or acknowledge records; the token itself is
    stored nowhere."""
    target: Target
    stages: tuple[Stage, ...] = Field(max_length=1024)
    searches: tuple[SearchPlan, ...] = Field((), max_length=16)
    auto: AutoPlan | None = None
    """None: every stage is measured."""
    warmups: tuple[WarmupPlan, ...] = Field((), max_length=64)
    profile: ProfilePlan | None = None
    cache_policy: CachePolicy = "Isolate"
    """Reset: the prefix cache of every server is emptied before each stage."""
    percentiles: tuple[DecimalText, ...] = Field(max_length=64)
    health_deadline_seconds: Count
    """Longest wait for /health in seconds; for an endpoint it is the run's startupDeadlineSeconds.
    0: the operator ends the wait."""

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if not self.stages and not self.searches:
            raise ValueError(
                "neither stages nor searches: there is nothing to measure"
            )
        return self

    @property
    def unmeasured(self) -> tuple[WarmupPlan, ...]:
        """Return every load that is sent but not measured: warm-ups and the profile's load."""
        return (
            *self.warmups,
            *((self.profile.load,) if self.profile is not None else ()),
        )

    @property
    def apis(self) -> tuple[Api, ...]:
        """Return every API endpoint that is measured, each once."""
        return tuple(
            dict.fromkeys(
                [*(s.api for s in self.stages), *(s.api for s in self.searches)]
            )
        )

    @property
    def kinds_of_requests(self) -> tuple["KindOfRequest", ...]:
        """Return every kind of request that is measured, each once; warm-ups send the same."""
        found: dict[str, KindOfRequest] = {}
        measured: tuple[Stage | SearchPlan, ...] = (*self.stages, *self.searches)
        for sent in measured:
            warmed = bool(self.unmeasured) and sent.warms_to_the_end
            to_the_end = warmed or (sent.ignore_eos and not sent.has_whole_answers)
            for model in (None, *(each.name for each in sent.asked.adapters)):
                kind = KindOfRequest(sent.api, sent.asked_body, model, to_the_end)
                found.setdefault(json.dumps(kind, sort_keys=True), kind)
        return tuple(found.values())

    def digest(self) -> str:
        """Return the SHA-256 of the canonical JSON, which is equal only for equal plans."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the plan as canonical JSON: sorted keys, no spaces.

        Searches, `auto`, profile, servers behind a proxy, chat template, the claim for the model's
        files and what an endpoint asks for are left out where the plan has none.
        """
        document = self.model_dump(mode="json", by_alias=True)
        optional = {
            *("profile", "searches", "auto", "behind", "chat_template", "cache"),
            *("certificate", "headers", "query", "metrics_apart"),
        }
        for part in (document, document["target"]):
            for name in optional & part.keys():
                if part[name] in (None, [], False):
                    del part[name]
        return json.dumps(document, sort_keys=True, separators=(",", ":"))
