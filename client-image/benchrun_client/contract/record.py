"""The contract's record: everything that one stage measured, and how it is packed.

A record comes from a tenant's pod, so it is not trusted. Every list has a greatest length and every
number its bounds, and `open_record` refuses a document that is too large before it parses it.
"""

import gzip
import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import from_json

from benchrun_client.contract.base import (
    Count,
    Finite,
    Hex,
    LeavesOut,
    Message,
    Micros,
    Number,
    SamplingParams,
    ShortText,
    in_short,
    other_schema,
    printable,
)
from benchrun_client.contract.bounded_gzip import unpacked
from benchrun_client.contract.datasets import DatasetFacts
from benchrun_client.contract.loads import MAX_REQUESTS_A_STAGE, Load, UserStartMode
from benchrun_client.contract.plan import Probe

PROCESS_CPU = "process_cpu_seconds_total"
"""Counter of CPU seconds of the process that answers HTTP. In vLLM this is the API server, without
the engine."""
# Series of the proxy between prefill and decode, by their whole names; a vLLM has the last, too.
PROXY_COUNTERS = (
    "benchrun_proxy_requests_total",
    "benchrun_proxy_added_seconds_sum",
    "benchrun_proxy_added_seconds_count",
    "benchrun_proxy_queue_seconds_sum",
    "benchrun_proxy_queue_seconds_count",
    "benchrun_proxy_time_to_first_token_seconds_sum",
    "benchrun_proxy_time_to_first_token_seconds_count",
    "benchrun_proxy_loop_lag_seconds_sum",
    "benchrun_proxy_loop_lag_seconds_count",
    PROCESS_CPU,
)
# Kept in an edge snapshot beside the counters: a change of it is a restart.
START_TIME = "process_start_time_seconds"
MAX_ID_CHARACTERS = 300
MAX_ROOT_CHARACTERS = 600  # Longer than any name or path of a model.


class ServedModel(Message):
    """One entry of /v1/models: the one with the model name of the requests, else the first."""

    id: str = Field(max_length=MAX_ID_CHARACTERS)
    root: str | None = Field(None, max_length=MAX_ROOT_CHARACTERS)
    """The hub id or path of the model that the server was started with, also for an adapter of that
    model. None if unknown."""


MAX_RECORD_BYTES = 8 * 1024 * 1024  # Largest record, unpacked.
# Largest record, packed: a ConfigMap holds 1 MiB, and metadata besides.
MAX_PACKED_BYTES = 1_000_000
PROFILE_STAGE = "profile"  # Id of the stage that is profiled, not measured; other ids have a slash.
# Port of `benchrun_client.engines.vllm.trace_reader` in the server's pod.
READER_PORT = 8092
MAX_RECORDS = 1024  # Most records of a run.
MAX_COMMAS = 1_200_000
"""Most commas in a record's JSON: the columns of the largest record hold 800,000 values, what its
prompts begin with 150,000, its gaps and their slices 101,000, and texts may contain commas too."""
MAX_NESTED = 16_384
"""Most objects, lists and keys in a record's JSON: the largest record has 6,000, and texts may
contain such characters too."""
MAX_GAP_VALUES = 50_000  # Most distinct gaps between tokens in a record.
MAX_GAP_SLICES = 40
GAP_LEVELS = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9)
"""Percentiles of a stage's gaps. Each slice of time counts its gaps above these (`GapSlices`)."""

Column = Annotated[
    tuple[Micros, ...], Field(max_length=MAX_REQUESTS_A_STAGE), FailFast()
]
Counts = Annotated[
    tuple[Count, ...], Field(max_length=MAX_REQUESTS_A_STAGE), FailFast()
]
Flags = Annotated[
    tuple[Literal[0, 1], ...], Field(max_length=MAX_REQUESTS_A_STAGE), FailFast()
]
Counters = Annotated[
    dict[Annotated[str, Field(max_length=80)], Finite], Field(max_length=64)
]


OF_REASONING = ("reasoning_us", "answer_us", "reasoning_tokens")
OF_SESSIONS = ("session", "turn")
MAY_BE_EMPTY = (*OF_REASONING, *OF_SESSIONS)


class RequestColumns(Message):
    """One list for each per-request value, in the order of sending; `ok` is 0 for a failure.

    The columns in `OF_REASONING` are empty, and left out, if no answer of the stage has reasoning;
    those in `OF_SESSIONS`, if the requests belong to no session.
    """

    start_us: Column  # Send instant, relative to the stage's first send.
    queue_us: (
        Column  # Wait in the client for a free place under the concurrency cap.
    )
    ttft_us: Column
    e2el_us: Column
    input_tokens: Counts
    output_tokens: Counts
    """Output tokens by the server's own count; 0 (not known) if the server closed the stream
    without a count (`Streams.uncounted`)."""
    asked_tokens: Counts  # Output tokens requested.
    ended: Flags
    """Whether the last chunk, which has the server's count of tokens, arrived; 0: the stream broke
    off unnoticed, or was closed without a count."""
    ok: Flags
    reasoning_us: Column = ()
    """Time from the send to the first token of reasoning; 0 for an answer without."""
    answer_us: Column = ()
    """Time from the send to the first token that is not reasoning; 0 if the answer ended within its
    reasoning."""
    reasoning_tokens: Counts = ()
    """Output tokens that are reasoning; also empty if their number is not known for every answer
    that has some."""
    session: Counts = ()  # Number of the request's session, from 0 on in the order of the dataset.
    turn: Counts = ()
    """How many turns of the session, one after another, lead to the request; the first has 1."""

    @model_serializer(mode="wrap")
    def _without_empty(
        self, handler: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        return {
            name: column
            for name, column in document.items()
            if column or name not in MAY_BE_EMPTY
        }

    @model_validator(mode="after")
    def _equal_lengths(self) -> Self:
        lengths = {
            name: len(column)
            for name, column in self
            if column or name not in MAY_BE_EMPTY
        }
        if bool(self.reasoning_us) != bool(self.answer_us):
            raise ValueError("set both or none of reasoning_us and answer_us")
        if bool(self.session) != bool(self.turn):
            raise ValueError("set both or none of session and turn")
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must be equally long, got {lengths}")
        return self


class ServerEdge(LeavesOut):
    """Counters of one server pod before and after the stage."""

    left_out = frozenset({"engines"})

    address: str = Field(max_length=300)
    # One of server, prefill, decode and proxy.
    role: str = Field("server", max_length=20)
    before: Counters | None  # None if the metrics could not be read.
    after: Counters | None
    # Version from /version; None if unknown.
    version: str | None = Field(None, max_length=100)
    settings: str | None = Field(None, max_length=64)
    """Digest of the configuration that the server reports (labels of cache_config_info); equal
    servers have equal digests."""
    models: ShortText | None = None
    """Models from /v1/models with name, root, parent and max_model_len; None if unknown."""
    served: ServedModel | None = None
    """The entry of /v1/models for the model of the requests; None if the server lists no model."""
    engines: ShortText | None = None
    """Names of the engines whose series its metrics page has, with commas; None if it has none, or
    was not read."""


class AnswerCheck(Message):
    """How many answers of a sample keep the JSON schema that their requests give."""

    checked: Count  # 0: no answer was ended by the model itself.
    broken: Count
    where: ShortText | None = None
    """Place at which the first answer that breaks it does so; None if none does."""


class CacheReset(Message):
    """The result of the reset of the prefix caches before a stage."""

    succeeded: bool
    """Whether every server confirmed the reset in the body of its answer. An empty body with status
    200 (vLLM before 0.26) counts as success; the stage's cache hits show whether it was one."""
    attempts: Count = Field(ge=1)
    answer: ShortText  # Last answer of a server that did not confirm, else the last answer of all.


class WarmupOutcome(Message):
    """The result of a workload's warm-up.

    If its time ran out, answered and failed requests together are fewer than `requests`.
    """

    requests: Count = Field(ge=1)  # Number of requests asked for.
    # Most requests in flight at once; None if unknown.
    concurrency: Count | None = None
    answered: Count
    failed: Count
    took_us: Micros


class UserStart(Message):
    """How the users of a closed loop began."""

    mode: UserStartMode
    """How the users really began. It is Together instead of the plan's Spread if no answer time of
    the workload was known."""
    # From the start of the first user to the start of the last one.
    seconds: Finite = Field(ge=0)
    round_seconds: Finite | None = Field(None, ge=0)
    """Expected round, mean answer time plus think time, from which the spread was computed; None if
    no spread."""


class RoundTrips(Message):
    """Times of small HTTP requests to the idle servers before the first stage.

    They were sent one at a time, on open connections.
    """

    count: Count = Field(ge=1)
    median_us: Micros  # Median of one server: the most distant one.
    p95_us: Micros  # 95th percentile over all servers.


class ClientFigures(LeavesOut):
    """What the client itself cost while the stage was measured, and how late it was."""

    left_out = frozenset({"lag_thrice_us"})

    # CPU seconds of all sending processes together.
    cpu_seconds: Finite = Field(ge=0)
    wall_seconds: Finite = Field(ge=0)
    # Number of sending processes; each fills one core at most.
    processes: Count = Field(1, ge=1)
    throttled_periods: Count | None = None
    # TCP segments lost in the network namespace; None if unknown.
    lost_segments: Count | None = None
    lag_p99_us: Micros | None = None
    """99th percentile of the event loop's lateness, which delays sending and receiving."""
    lag_thrice_us: Micros | None = None
    """Third largest lateness, or the least of fewer: what no two ticks make alone. In a stage of a
    second the 99th percentile is a single tick."""
    lag_max_us: Micros | None = None
    node_cpu_seconds: Finite | None = Field(None, ge=0)
    """CPU time that the client's node used or wanted, over all its CPUs, `stolen_seconds` included;
    None if unknown."""
    stolen_seconds: Finite | None = Field(None, ge=0)
    """Part of `node_cpu_seconds` that the hypervisor gave to other machines."""


class LoadEngineVersion(Message):
    """The engine that generated the load."""

    name: str = Field(max_length=60)
    version: str = Field(max_length=60)
    trust_env: bool  # True: proxy variables were set, and aiohttp read them within every TTFT.


class Connections(Message):
    """Connections that a stage's requests opened (TCP, and TLS where it is used).

    Their time is part of the TTFT of these requests.
    """

    opened: Count
    total_us: Micros  # Time of all new connections together.
    longest_us: Micros


class Streams(Message):
    """How the answers of a stage were streamed, where that is unusual.

    Columns have one entry a request, in the order of `RequestColumns`.
    """

    closed: Flags
    """Whether the server closed the stream, by `[DONE]` or a finish reason. A closed stream that
    has not `ended` (`RequestColumns`) lacks the server's count of tokens."""
    first_chunk_us: Column = ()
    """Time from the send to the first chunk, even one without content, such as the role at the
    beginning of a chat; TTFT ends with the first content. Empty: for no request the two differ by
    more than a millisecond."""
    uncounted: Count = 0
    """Number of answers whose streams were closed without the server's count of tokens."""
    reconnected: Count = 0
    """Number of requests that were sent again because their connection was closed before the first
    byte of an answer. Their latencies count from the first sending."""


class CachedTokens(Message):
    """Prompt tokens, and those of them found in a cache, summed over the answers that report it."""

    answers: Count = Field(
        ge=1
    )  # Answers that tell it, of those that were answered.
    prompt_tokens: Count
    cached_tokens: Count

    @model_validator(mode="after")
    def _is_a_part(self) -> Self:
        if self.cached_tokens > self.prompt_tokens:
            raise ValueError("no more tokens can be cached than prompts have")
        return self


MAX_TOLD_TURNS = 64
"""Turn numbers that are told by themselves; the last one has those after it too."""


class TurnCache(Message):
    """Prompt tokens of the turns with one number: found in a cache, and to be found at best.

    Summed over the answers that tell it. What is expected is what an endless cache of one server
    would have: the longest beginning that an earlier prompt of the stage has.
    """

    turn: int = Field(ge=1, le=MAX_TOLD_TURNS)
    answers: Count = Field(ge=1)
    prompt_tokens: Count
    expected_tokens: Count
    cached_tokens: Count

    @model_validator(mode="after")
    def _are_parts(self) -> Self:
        if max(self.expected_tokens, self.cached_tokens) > self.prompt_tokens:
            raise ValueError("no more tokens can be cached than prompts have")
        return self


class PlannedPrompts(Message):
    """What the prompts of a stage begin with, in the order of the dataset, those lost included.

    From it the hits of any cache follow, whatever its size: two prompts share blocks as far as they
    begin alike.
    """

    like: Counts
    """Of each prompt: an earlier one that begins like it for longest; its own position if it is the
    first of its kind."""
    tokens: Counts
    """For how many tokens, beyond those that all prompts begin with (`shared_prefix_tokens`)."""
    sent: Counts  # Positions of the prompts that were sent, in order of sending.

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        if len(self.like) != len(self.tokens):
            raise ValueError("like and tokens must be equally long")
        if any(like > place for place, like in enumerate(self.like)):
            raise ValueError("like: a prompt begins like an earlier one")
        if len(set(self.sent)) < len(self.sent) or any(
            place >= len(self.like) for place in self.sent
        ):
            raise ValueError("sent: each prompt is sent once, and was planned")
        return self


class SessionFigures(LeavesOut):
    """What a stage of sessions tells beyond its requests."""

    left_out = frozenset({"prompts"})

    lost_turns: Count
    """Turns that were not sent, because one that they come after had failed."""
    cached: Annotated[tuple[TurnCache, ...], Field(max_length=MAX_TOLD_TURNS)] = ()
    prompts: PlannedPrompts | None = None
    """None if not known: the record would be too large with it, or is older than this field."""


class Shards(Message):
    """How several processes of the client sent a stage together."""

    count: int = Field(ge=2, le=1024)
    start_skew_us: Micros  # From the first shard's start to the last one's, by the gate's clock.
    clock_error_us: (
        Micros  # Largest error of a shard's estimate of the gate's clock.
    )


class GapCounts(Message):
    """Gaps between tokens (ITL) as exact counts: `count[i]` gaps of `us[i]` microseconds.

    `us` ascends.
    """

    us: Annotated[
        tuple[Micros, ...], Field(max_length=MAX_GAP_VALUES), FailFast()
    ] = ()
    count: Annotated[
        tuple[Count, ...], Field(max_length=MAX_GAP_VALUES), FailFast()
    ] = ()

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if len(self.us) != len(self.count):
            raise ValueError(
                f"us and count must be equally long, got {len(self.us)} and {len(self.count)}"
            )
        if any(a >= b for a, b in zip(self.us, self.us[1:], strict=False)):
            raise ValueError("us must ascend")
        return self


class GapSlices(Message):
    """The gaps between tokens by time, in equal slices from the first send to the last token.

    For each slice, gaps longer than certain edges are counted; the edges are the same for all
    slices (`GAP_LEVELS`). A gap belongs to the slice in which it ends.
    """

    edges_us: Annotated[
        tuple[Micros, ...], Field(min_length=1, max_length=len(GAP_LEVELS))
    ]
    """Lengths of gaps in ascending order; neighbours may be equal."""
    gaps: Annotated[
        tuple[Count, ...], Field(min_length=1, max_length=MAX_GAP_SLICES)
    ]
    """Number of gaps in each slice."""
    above: Annotated[
        tuple[Count, ...],
        Field(max_length=MAX_GAP_SLICES * len(GAP_LEVELS)),
        FailFast(),
    ]
    """Number of gaps longer than each edge: one entry an edge for the first slice, then for the
    second, and so on."""

    @model_validator(mode="after")
    def _within(self) -> Self:
        edges = len(self.edges_us)
        if len(self.above) != len(self.gaps) * edges:
            raise ValueError(
                f"above: expected {len(self.gaps) * edges} counts (slices x edges), "
                f"got {len(self.above)}"
            )
        if any(
            count > self.gaps[place // edges]
            for place, count in enumerate(self.above)
        ):
            raise ValueError(
                "above: a slice has more gaps above an edge than it has gaps"
            )
        return self


class Kernel(Message):
    """A kernel of the GPU, or an operator on a CPU without the operators that it calls."""

    name: Annotated[str, Field(max_length=160)]
    total_us: Micros
    count: Count


class TraceSummary(Message):
    """The summary of the first worker's profiler trace."""

    trace: ShortText  # Name of the trace file.
    trace_bytes: Count
    device: Literal["GPU", "CPU"]
    window_us: Micros  # From the start of the first kernel to the end of the last.
    busy_us: Micros  # Part of the window in which at least one kernel ran.
    kernels_us: Micros
    """Sum over all kernels; it exceeds the busy time if several kernels run at once."""
    kernels: Annotated[tuple[Kernel, ...], Field(max_length=12), FailFast()]
    """Kernels with the most time, longest first."""
    steps: Count  # Steps of the scheduler; 0: this version does not mark them.
    step_tokens: Count | None = None
    """Tokens of prompts and answers in the median step, weighted by the steps' time."""


class ProfileResult(Message):
    """The result of profiling: a summary, or the problem that prevented one."""

    workload: str = Field(max_length=40)
    concurrency: Count
    summary: TraceSummary | None = None
    problem: ShortText | None = None  # Reason why there is no summary.


RECORD_SCHEMA: Literal["benchrun.record/1"] = "benchrun.record/1"


class StageRecord(Message):
    """The complete measurement of one stage: every request, and counters before and after it."""

    schema_: Literal["benchrun.record/1"] = Field(RECORD_SCHEMA, alias="schema")
    run_uid: str = Field(max_length=64)
    plan_digest: Hex
    sequence: int = Field(ge=0, lt=MAX_RECORDS)
    """Position of the stage: stages of the plan first, then the stages of searches."""
    stage_id: str = Field(max_length=160)
    load: Load
    """How requests were to arrive: the load of the plan's stage, or the load a search chose."""
    prompts_digest: (
        Hex  # SHA-256 over the prompts in order: equal digests mean equal traffic.
    )
    engine: LoadEngineVersion
    first_send_unix_us: Micros
    last_receive_unix_us: Micros
    shared_prefix_tokens: Count = 0
    """Number of tokens that every prompt begins with (special tokens, the beginning of the chat
    template). They are expected in the prefix cache."""
    expected_input_tokens: Count | None = None
    """Input tokens by the client's own count, summed over the answers that have the server's count;
    None if not known."""
    repeated_tokens: Count = 0
    """Prompt tokens beyond the shared prefix that the dataset repeats on purpose, summed over the
    requests."""
    datasets: Annotated[
        tuple[DatasetFacts, ...], Field(max_length=16), FailFast()
    ] = ()
    """Facts about the data that was read for the workload; empty if none was read."""
    # From the previous answer (or that of canary or warm-up) to this stage's first request.
    idle_before_us: Micros
    scalars: Annotated[
        dict[Annotated[str, Field(max_length=80)], Number | None],
        Field(max_length=200),
    ]
    """The load engine's own figures under its own names."""
    requests: RequestColumns
    gaps: GapCounts
    gap_slices: GapSlices | None = None
    """None if not known, as in records from before the slices were kept."""
    servers: Annotated[tuple[ServerEdge, ...], Field(max_length=64), FailFast()]
    errors: Annotated[dict[ShortText, Count], Field(max_length=8)]
    """The most frequent error texts, and how often each occurred."""
    diagnostic: Annotated[str, Field(max_length=1000)] | None = None
    """The server's answer to one extra request, sent when every request failed."""
    client: ClientFigures
    # None if not recorded, or nothing was sent over HTTP.
    connections: Connections | None = None
    streams: Streams | None = None
    """None if every answer has `ended`, or the record is older than this field."""
    cached: CachedTokens | None = None
    """None if no answer tells it, or the record is older than this field."""
    sessions: SessionFigures | None = None
    """None if the requests belong to no sessions."""
    sampling: SamplingParams | None = None
    """Sampling parameters as sent; None if the record is older than this field, or answers have no
    tokens."""
    chat_template: Hex | None = None
    """SHA-256 of the template that replaces the model's own; None if there is no such template."""
    tokenizer_commit: str | None = Field(None, max_length=40)
    """Commit of the tokenizer's repository on the hub; None if it is not from the hub."""
    # Result of the reset; only under the policy Reset.
    cache_reset: CacheReset | None = None
    answers: AnswerCheck | None = None
    """None if the requests give no schema, or it can't be read."""
    whole_answers: Literal[True] | None = None
    """Whether answers came as a whole and have no tokens (embeddings): `ttft_us` is then `e2el_us`,
    output tokens are 0, and there are no gaps. None if they have tokens."""
    warmup: WarmupOutcome | None = None
    """Warm-up of the stage's workload; only in the record of the workload's first stage."""
    user_start: UserStart | None = None
    """How the users of a closed loop began; None if there are no users, or the record is older than
    this field."""
    probe: Probe | None = None
    """Set for a stage that a search chose."""
    shards: Shards | None = None
    """Set for a stage that several processes sent; None if one process sent it."""
    round_trips: RoundTrips | None = None
    """Measured once, copied into every record; None if not measured."""
    profile: ProfileResult | None = None
    """Set for the stage that is profiled; the other values of its record are not measured."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.streams is not None:
            columns = self.streams.closed, self.streams.first_chunk_us
            lengths = {len(columns[0]), len(columns[1]) or len(columns[0])}
            if lengths != {len(self.requests.ok)}:
                raise ValueError(
                    "columns of streams must have one entry for each request"
                )
        if not self.requests.ok and self.profile is None:
            raise ValueError("a stage has at least one request")
        if (self.profile is None) == (self.stage_id == PROFILE_STAGE):
            raise ValueError(
                f"profile must be set for the stage {PROFILE_STAGE}, and for no other stage"
            )
        return self

    @model_validator(mode="after")
    def _prompts_are_those_sent(self) -> Self:
        prompts = None if self.sessions is None else self.sessions.prompts
        if prompts is not None and len(prompts.sent) != len(self.requests.ok):
            raise ValueError("sessions.prompts.sent must have one entry a request")
        return self


_NEWER = (
    "whole_answers",
    "cached",
    "sessions",
    "answers",
    "shards",
    "streams",
    "gap_slices",
    "profile",
    "tokenizer_commit",
    "user_start",
)


def packed_record(record: StageRecord) -> bytes:
    """Pack a record as gzip of its JSON; the same record always gives the same bytes.

    A field that older operators do not know is left out if it is None.
    """
    left_out = {name for name in _NEWER if getattr(record, name) is None}
    document = record.model_dump(mode="json", by_alias=True, exclude=left_out)
    return gzip.compress(
        json.dumps(document, sort_keys=True, separators=(",", ":")).encode(),
        mtime=0,
    )


def open_record(data: bytes) -> StageRecord:
    """Unpack and validate a record.

    Raises ValueError, with a message of one line, for data that is not a record or is too large. No
    more is unpacked than a record may have.
    """
    if len(data) > MAX_PACKED_BYTES:
        raise ValueError(f"record is larger than {MAX_PACKED_BYTES} bytes, packed")
    text = unpacked(data, max_bytes=MAX_RECORD_BYTES)
    # A parser takes up to 250 bytes for an empty list: that there are too many is found out before
    # it runs.
    if (
        text.count(b",") > MAX_COMMAS
        or sum(map(text.count, (b"[", b"{", b":"))) > MAX_NESTED
    ):
        raise ValueError(
            "record has more numbers, lists or objects than a record may have"
        )
    with in_short():
        # Not in one step: for each error that would make a copy of what it is about.
        document = from_json(text)
        if (theirs := other_schema(document, RECORD_SCHEMA)) is not None:
            raise ValueError(
                f"the record is {printable(theirs)}, this release reads {RECORD_SCHEMA}"
            )
        return StageRecord.model_validate(document)


def ended_search(record: StageRecord) -> str | None:
    """Return the workload of this stage if a search, or all repeats, ended with it, else None."""
    ends = record.probe is not None and record.probe.ends_search
    return record.stage_id.partition("/")[0] if ends else None
