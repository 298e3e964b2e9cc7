"""The result document: everything that was found in a run, whole, in one JSON value.

The judge writes it once. `BenchmarkRun.status` holds a part of it, and everything that shows a
finished run can be made from it. A reader of version 1 ignores fields that it does not know; a
field is never given another meaning within a version.
"""

import gzip
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from benchrun_client.contract import in_short, unpacked
from pydantic import Field, model_validator
from pydantic_core import from_json

from benchrun.api.base import StatusModel
from benchrun.api.comparison import Comparison, CostStatus, are_of_whole_answers
from benchrun.api.conditions import Conditions, timestamp
from benchrun.api.server_figures import RoleFigures
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import (
    BenchmarkRunStatus,
    ClientStatus,
    DatasetStatus,
    Finding,
    Headline,
    Judge,
    Phase,
    ProfileStatus,
    Result,
    RunInstants,
    SearchResult,
    ServerStatus,
    Truncated,
    UntilDecided,
)
from benchrun.api.verdicts import Verdict

RESULT_SCHEMA: Literal["benchrun.result/1"] = "benchrun.result/1"
MAX_RESULT_BYTES = 8 * 1024 * 1024  # Largest document, unpacked.
# Largest document, packed: a ConfigMap holds 1 MiB.
MAX_PACKED_RESULT_BYTES = 900_000
MAX_SPANS = 10_000  # Most spans of a timeline.

Number = Annotated[float, Field(allow_inf_nan=False)]
Percentile = Annotated[str, Field(pattern=r"^[0-9]{1,2}(\.[0-9]{1,9})?$")]
UnixMicros = Annotated[int, Field(ge=0, le=4_102_444_800_000_000)]  # Until 2100.
Figures = dict[str, Number | None]
Band = Annotated[
    tuple[Number, Number, Number], Field(description="Mean, least and greatest.")
]


# Fields that the status may have cut and the document has whole.
_WHOLE_HERE = ("results", "datasets", "comparison")


class RunIdentity(StatusModel):
    """The identity of the run that was judged."""

    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    uid: str = Field(description="Its uid.")
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the run when it was judged, without benchrun's own.",
    )


class LatencyDistribution(StatusModel):
    """The values of one latency in milliseconds, or of a number of tokens."""

    count: int = Field(description="How many values there are.")
    mean: Number = Field(description="Their mean.")
    deviation: Number | None = Field(None, description="Their standard deviation.")
    least: Number = Field(description="The least.")
    greatest: Number = Field(description="The greatest.")
    percentiles: dict[Percentile, Number] = Field(
        default_factory=dict, description="By percentile, for example 99.9."
    )
    unbounded: list[str] = Field(default_factory=list)
    """The entries of `percentiles` that so few requests, or so short a stage, can't bound."""


class StageServer(StatusModel):
    """A server whose counters the client read around a stage."""

    role: str = Field(description="Its role.")
    address: str = Field(description="Where it answered.")
    version: str | None = Field(
        None, description="Version that the server reported."
    )


class ReplicaFigures(StatusModel):
    """One engine server within a stage, by its own counters."""

    address: str = Field(description="Where it answered.")
    pod: str | None = Field(
        None, description="Pod of the server; absent where it is not known."
    )
    requests_finished: Number | None = Field(
        None, description="Requests that the server finished."
    )
    prompt_tokens: Number | None = Field(
        None, description="Prompt tokens that the server computed."
    )
    generation_tokens: Number | None = Field(None, description="Output tokens.")
    mean_ttft_ms: Number | None = None
    """Mean TTFT in milliseconds, from the request's arrival at the server."""
    mean_queue_ms: Number | None = Field(
        None, description="Mean time in the server's queue."
    )
    figures: RoleFigures = Field(
        description="Figures of the server, named as those of a role."
    )


class StageGpus(StatusModel):
    """Figures of the GPUs of all roles together; absent where a server lacks them."""

    gpu_power_mean_watts: Number | None = Field(
        None, description="Sum over all GPUs."
    )
    gpu_memory_max_mib: Number | None = Field(
        None, description="Largest of all GPUs."
    )
    sm_clock_mean_mhz: Number | None = Field(None, description="Mean clock.")
    no_power_reason: str | None = None
    """Why the power is not known although an exporter was read."""
    output_tokens_per_joule: Number | None = Field(
        None, description="Output tokens per joule, over the energy of all GPUs."
    )


class LoadGenerator(StatusModel):
    """The load engine that sent the requests of a stage."""

    engine: str = Field(description="Name of the load engine.")
    engine_version: str = Field(description="Version of the load engine.")
    processes: int = Field(1, description="Processes that sent.")


class TurnFigures(StatusModel):
    """The turns of a stage that have one number: so many turns, one after another, led to them."""

    turn: int = Field(
        description="Number of the turns, from 1; the 64th entry has all later ones too."
    )
    requests: int = Field(description="Turns that were sent.")
    completed: int = Field(description="Turns that were answered.")
    mean_input_tokens: Number | None = Field(
        None, description="Mean prompt of those answered."
    )
    ttft: LatencyDistribution | None = Field(None, description="Their TTFT.")
    e2el: LatencyDistribution | None = Field(None, description="Their E2EL.")
    expected_hit_percent: Number | None = None
    """Prompt tokens that an earlier prompt of the stage begins with: what an endless cache of one
    server finds, without what it remembers of its own answers."""
    kept_hit_percent: Number | None = Field(
        None,
        description="The part of it that a cache of the servers' size keeps until then.",
    )
    hit_percent: Number | None = Field(
        None, description="Prompt tokens that answers said were cached."
    )


class StageSessions(StatusModel):
    """The sessions of a stage."""

    begun: int = Field(description="Sessions of which a turn was sent.")
    completed: int = Field(
        description="Sessions of which every turn sent was answered."
    )
    lost_turns: int = Field(
        description="Turns that were not sent, because one before them had failed."
    )
    completed_per_second: Number | None = Field(
        None,
        description="Goodput of sessions: completed ones by the stage's length.",
    )
    duration: LatencyDistribution | None = None
    """Of completed sessions: from the first turn's sending to the last answer's end, pauses
    included."""
    waiting_for_answers: LatencyDistribution | None = Field(
        None, description="The part of it with at least one turn in flight."
    )
    expected_hit_percent: Number | None = Field(
        None,
        description="Prompt tokens that an endless cache of one server finds, of all turns.",
    )
    kept_hit_percent: Number | None = None
    """Prompt tokens that a cache of the servers' size finds: what was used least recently goes."""
    hit_percent: Number | None = None
    """Prompt tokens that were found: by the answers, or by the servers' counters."""
    turns: list[TurnFigures] = Field(
        default_factory=list, description="The turns by their number."
    )


class StageResult(StatusModel):
    """One stage: a load point measured once."""

    id: str = Field(
        description="For example chat/rate=4/r2; in a search chat/search-07/r1."
    )
    load_point: str = Field(
        description="Load point of the stage, an entry of `results`."
    )
    repeat: int = Field(description="Which repeat of the load point, from 1.")
    sequence: int = Field(
        description="Place of the stage in the order of measurement, from 0."
    )
    first_send_unix_us: UnixMicros = Field(
        description="When the first request was sent."
    )
    last_receive_unix_us: UnixMicros = Field(
        description="When the last answer was received."
    )
    requests: int = Field(description="Requests that were sent.")
    completed: int = Field(description="Requests that were answered.")
    errors: dict[str, int] = Field(
        default_factory=dict,
        description="The most frequent errors, and how often each occurred.",
    )
    prompts_digest: str = Field(description="SHA-256 over the prompts in order.")
    client: LoadGenerator = Field(description="What sent the requests.")
    servers: list[StageServer] = Field(
        default_factory=list,
        description="The servers that answered, the proxy among them.",
    )
    engine_figures: dict[str, int | Number | None] = Field(default_factory=dict)
    """The load engine's own figures under its own names, with all their digits. It has 0 for a
    latency that was not measured."""
    metrics: Figures = Field(default_factory=dict)
    """Figures of the whole stage under vLLM's own names, as in `results[].metrics`."""
    steady: Figures = Field(default_factory=dict)
    """Counts and throughputs of its steady part; empty where it has none."""
    uncertain: list[str] = Field(default_factory=list)
    """Percentiles of `metrics` that so few requests, or so short a stage, can't bound."""
    roles: list[RoleFigures] = Field(
        default_factory=list,
        description="What the servers' metrics endpoints reported meanwhile.",
    )
    replicas: list[ReplicaFigures] = Field(
        default_factory=list, description="The figures of each engine server."
    )
    gpus: StageGpus = Field(
        default_factory=StageGpus, description="Figures of all roles together."
    )
    distributions: dict[str, LatencyDistribution] = Field(default_factory=dict)
    """By latency (ttft, tpot, itl, e2el, with a capped rate those that include the client's queue),
    and of input_tokens and output_tokens of answered requests, sent_tokens and asked_tokens of
    all."""
    sessions: StageSessions | None = Field(
        None, description="Its sessions; absent where requests belong to none."
    )

    @property
    def has_whole_answers(self) -> bool:
        """Return whether answers came as a whole and have no tokens (embeddings)."""
        return are_of_whole_answers(self.metrics, self.steady)


class PooledDistributions(StatusModel):
    """The latencies of one load point, its repeats pooled, over whole stages."""

    load_point: str = Field(description="The load point, an entry of `results`.")
    latencies: dict[str, LatencyDistribution] = Field(
        default_factory=dict, description="By latency: ttft, tpot, itl, e2el."
    )


class TimelineSpan(StatusModel):
    """What the servers of a role did in one span of time."""

    number: int = Field(
        ge=0,
        lt=MAX_SPANS,
        description="Number of the interval, from 0; intervals without a sample are left out.",
    )
    servers: int = Field(description="Servers with a sample in the interval.")
    running: Band | None = Field(
        None, description="Requests running, in all these servers."
    )
    waiting: Band | None = Field(
        None, description="Requests waiting, in all these servers."
    )
    kv_cache_percent: Band | None = Field(
        None, description="KV cache in use, mean over these servers."
    )


class RoleTimeline(StatusModel):
    """The timeline of the servers of one role."""

    role: str = Field(description="Role of the servers.")
    servers: int = Field(description="Servers that gave a sample at any time.")
    spans: list[TimelineSpan] = Field(
        default_factory=list, description="In order of time."
    )


class Timeline(StatusModel):
    """The servers over time, in equal intervals that all roles share."""

    begin_unix_seconds: Number = Field(
        description="When the first interval begins."
    )
    span_seconds: Number = Field(description="Length of each interval.")
    samples: int = Field(description="Samples that were taken.")
    roles: list[RoleTimeline] = Field(
        default_factory=list, description="One entry a role."
    )


class ResultDocument(StatusModel):
    """A judged run with all its results, also those that the status leaves out."""

    schema_: Literal["benchrun.result/1"] = Field(
        RESULT_SCHEMA,
        alias="schema",
        description="Name and version of this format.",
    )
    run: RunIdentity = Field(description="The run that was measured.")
    instants: RunInstants = Field(
        default_factory=RunInstants,
        description="When what happened in the run before it was judged.",
    )
    phase: Phase = Field("Completed", description="How the run ended.")
    message: str = Field("", description="Why, in a sentence.")
    conditions: Conditions = Field(
        (), description="What follows for the conditions of the run."
    )
    spec: BenchmarkRunSpec = Field(
        description="The spec that was accepted, with its defaults."
    )
    verdict: Verdict = Field(
        "Unknown", description="The worst verdict of all load points."
    )
    headline: Headline | None = Field(
        None, description="The figures of the best load point."
    )
    results: list[Result] = Field(
        default_factory=list,
        description="The load points, in the order of the plan.",
    )
    searches: list[SearchResult] = Field(
        default_factory=list,
        description="The highest load that met the objectives.",
    )
    until_decided: UntilDecided | None = Field(
        None, description="What `repeats: Auto` decided, and what that took."
    )
    findings: list[Finding] = Field(
        default_factory=list,
        description="What was found wrong with the measurement.",
    )
    comparison: Comparison | None = Field(
        None, description="Comparison with the baseline."
    )
    stages: list[StageResult] = Field(
        default_factory=list, description="The stages, in the order of measurement."
    )
    distributions: list[PooledDistributions] = Field(
        default_factory=list, description="The latencies of each load point."
    )
    timeline: Timeline | None = Field(
        None, description="The servers over time; absent without samples."
    )
    servers: list[ServerStatus] = Field(
        default_factory=list, description="The servers, one entry a role."
    )
    client: ClientStatus | None = Field(
        None, description="What generated the load."
    )
    datasets: list[DatasetStatus] = Field(
        default_factory=list, description="What the prompts were made of."
    )
    cost: CostStatus | None = Field(None, description="What the servers cost.")
    profile: ProfileStatus | None = Field(
        None, description="What came of the profile."
    )
    judge: Judge | None = Field(None, description="Which rules judged.")
    diagnostic: str | None = None
    """The server's own answer to one more request, where every request of a stage failed."""
    unstored: list[str] = Field(default_factory=list)
    """Stages whose record could not be stored: this document is all that is left of them."""
    refused: list[str] = Field(
        default_factory=list,
        description="What was left out because it can't be read.",
    )
    refused_count: int = Field(0, description="How many such parts there were.")
    truncated: list[Truncated] = Field(
        default_factory=list,
        description="Lists that were cut to keep the document small.",
    )

    @model_validator(mode="after")
    def _loads_are_numbers(self) -> Self:
        loads = [(row.load_point, row.value) for row in self.results]
        for each in self.searches:
            loads += [
                (each.workload, load) for load in (each.lower, each.upper) if load
            ]
        for name, load in loads:
            if not _is_load(load):
                raise ValueError(f"{load!r} is not a load, at {name}")
        return self

    def status(
        self, written: BenchmarkRunStatus | None = None
    ) -> BenchmarkRunStatus:
        """Return the run's status with everything that the document holds, uncut.

        `written`: the status in the cluster, whose other fields are kept; None if there is none.
        """
        base = written if written is not None else self._status_of_its_own()
        elsewhere = [
            cut for cut in base.truncated if not cut.field.startswith(_WHOLE_HERE)
        ]
        return base.model_copy(
            update={
                "servers": self.servers,
                "client": self.client,
                "datasets": self.datasets,
                "cost": self.cost,
                "headline": self.headline,
                "results": self.results,
                "searches": self.searches,
                "until_decided": self.until_decided,
                "profile": self.profile,
                "findings": self.findings,
                "verdict": self.verdict,
                "judge": self.judge,
                "comparison": self.comparison,
                "truncated": [*self.truncated, *elsewhere],
            }
        )

    def _status_of_its_own(self) -> BenchmarkRunStatus:
        """Return the parts of a status, besides the results, that the document contains.

        The run ended after the last answer, but the document has no later instant.
        """
        last_us = max(
            (each.last_receive_unix_us for each in self.stages), default=None
        )
        end = (
            None if last_us is None else datetime.fromtimestamp(last_us / 1e6, UTC)
        )
        return BenchmarkRunStatus(
            phase=self.phase,
            message=self.message,
            conditions=self.conditions,
            accepted_time=self.instants.accepted_time,
            start_time=self.instants.start_time,
            scheduled_time=self.instants.scheduled_time,
            server_ready_time=self.instants.server_ready_time,
            server_released_time=self.instants.server_released_time,
            completion_time=self.instants.accepted_time
            if end is None
            else timestamp(end),
        )


def _is_load(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def result_json(document: ResultDocument) -> bytes:
    """Return the document as JSON: equal documents give equal bytes."""
    return document.model_dump_json(by_alias=True, exclude_none=True).encode()


def packed_json(text: bytes) -> bytes:
    """Return JSON as gzip; equal texts give equal bytes."""
    return gzip.compress(text, compresslevel=6, mtime=0)


def read_result(text: bytes) -> ResultDocument:
    """Read a result document from JSON.

    Raises ValueError, with a message of one line, if it is not one, or is of another major version.
    """
    if len(text) > MAX_RESULT_BYTES:
        raise ValueError(
            f"the result document is larger than {MAX_RESULT_BYTES} bytes"
        )
    body = from_json(text, allow_inf_nan=False)
    schema = body.get("schema") if isinstance(body, Mapping) else None
    if schema != RESULT_SCHEMA:
        raise ValueError(
            f"not a {RESULT_SCHEMA} document, but {str(schema)[:60]!r}"
        )
    if (where := _out_of_range(body, "")) is not None:
        raise ValueError(
            f"not a {RESULT_SCHEMA} document: {where}: the number is out of range"
        )
    try:
        with in_short():
            return ResultDocument.model_validate(body)
    except ValueError as error:
        raise ValueError(f"not a {RESULT_SCHEMA} document: {error}") from None


def _out_of_range(value: object, where: str) -> str | None:
    """Return the path of a number that 64 bits can't hold, such as 1e999; None if there is none."""
    inside: Iterable[tuple[str, object]] = ()
    if isinstance(value, float):
        return None if math.isfinite(value) else where
    if isinstance(value, int):
        return None if abs(value) < 2**63 else where
    if isinstance(value, dict):
        inside = (
            (f"{where}.{key}".lstrip("."), each) for key, each in value.items()
        )
    elif isinstance(value, list):
        inside = ((f"{where}[{n}]", each) for n, each in enumerate(value))
    found = (_out_of_range(each, place) for place, each in inside)
    return next((place for place in found if place is not None), None)


def open_result(data: bytes) -> ResultDocument:
    """Unpack a result document and read it.

    Raises ValueError, with a message of one line, for other data, without unpacking more than a
    document may have.
    """
    if len(data) > MAX_PACKED_RESULT_BYTES:
        raise ValueError(f"larger than {MAX_PACKED_RESULT_BYTES} bytes, packed")
    return read_result(unpacked(data, max_bytes=MAX_RESULT_BYTES))
