"""The contract's record: everything that one stage measured, and how it is packed.

A record comes from a tenant's pod, so it is not trusted. Every list has a greatest length and every
number its bounds, and `open_record` refuses a document that is too large before it parses it.
"""

import gzip
import json
import zlib
from typing import Annotated, Literal, Self

from pydantic import FailFast, Field, model_validator
from pydantic_core import from_json

from benchrun_client.contract.base import (
    Count,
    Finite,
    Hex,
    Message,
    Micros,
    Number,
    SamplingParams,
    ShortText,
    in_short,
)
from benchrun_client.contract.datasets import DatasetFacts
from benchrun_client.contract.loads import MAX_REQUESTS_A_STAGE, Load, UserStartMode
from benchrun_client.contract.plan import Probe, open_stage

PROCESS_CPU = "process_cpu_seconds_total"
"""CPU seconds of the process that answers HTTP. In vLLM this is the API server, which does not
include the engine."""
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
    """One entry of /v1/models: the one with the name in the requests, else the first."""

    id: str = Field(max_length=MAX_ID_CHARACTERS)
    root: str | None = Field(None, max_length=MAX_ROOT_CHARACTERS)
    """The hub id or path that the server was started with; for an adapter, that of the model it
    adapts. None: unknown."""


MAX_RECORD_BYTES = 8 * 1024 * 1024  # Largest record, unpacked.
# Largest record, packed: a ConfigMap holds 1 MiB, and metadata besides.
MAX_PACKED_BYTES = 1_000_000
PROFILE_STAGE = "profile"  # Id of the stage that is profiled, not measured; other ids have a slash.
# Port of `benchrun_client.engines.vllm.trace_reader` in the server's pod.
READER_PORT = 8092
MAX_RECORDS = 1024  # Most records of a run.
MAX_COMMAS = 700_000
"""Most commas in a record's JSON: the columns of the largest record hold 450,000 values, its gaps
and their slices 101,000, and texts may contain commas too."""
MAX_NESTED = 16_384
"""Most objects, lists and keys in a record's JSON: the largest record has 6,000, and texts may
contain such characters too."""
MAX_GAP_VALUES = 50_000  # Most distinct gaps between tokens in a record.
MAX_GAP_SLICES = 40
GAP_LEVELS = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9)
"""Percentiles of a stage's gaps that are the edges of its slices."""

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


class RequestColumns(Message):
    """Per-request values, one entry a request, in order of sending.

    `ok` is 0 for a failed request.
    """

    start_us: Column  # Send instant, relative to the stage's first send.
    queue_us: (
        Column  # Wait in the client for a free place under the concurrency cap.
    )
    ttft_us: Column
    e2el_us: Column
    input_tokens: Counts
    output_tokens: Counts
    """Output tokens by the server's own count. 0 for an answer whose stream the server closed
    without a count: not known (`Streams.uncounted`)."""
    asked_tokens: Counts  # Output tokens requested.
    ended: Flags
    """Whether the server's closing chunk (its own count of tokens) arrived: 0 is a stream that
    broke off unnoticed."""
    ok: Flags

    @model_validator(mode="after")
    def _equal_lengths(self) -> Self:
        lengths = {
            name: len(getattr(self, name)) for name in type(self).model_fields
        }
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must be equally long, got {lengths}")
        return self


class ServerEdge(Message):
    """Counters of one server pod at both edges of the stage."""

    address: str = Field(max_length=300)
    # One of server, prefill, decode and proxy.
    role: str = Field("server", max_length=20)
    before: Counters | None  # None: the metrics could not be read.
    after: Counters | None
    # Version from /version; None: unknown.
    version: str | None = Field(None, max_length=100)
    settings: str | None = Field(None, max_length=64)
    """Digest of the configuration that the server reports (labels of cache_config_info); equal
    servers have equal digests."""
    models: ShortText | None = None
    """Models from /v1/models, each with its origin and its max_model_len; None: unknown."""
    served: ServedModel | None = None
    """The server's entry for the model that requests name; None: it lists none."""


class CacheReset(Message):
    """The result of the reset of the prefix caches before a stage."""

    succeeded: bool
    """Whether every server confirmed the reset in the body of its answer, not only by its status. A
    server without a body (vLLM before 0.26) is believed, and `answer` is empty: the hits of the
    stage show whether the reset worked."""
    attempts: Count = Field(ge=1)
    answer: ShortText  # Last answer of a server that did not confirm, else the last answer of all.


class WarmupOutcome(Message):
    """The result of a workload's warm-up.

    If its time was up, answered and failed requests together are fewer than requested.
    """

    requests: Count = Field(ge=1)  # Number of requests asked for.
    # Most requests in flight at once; None: unknown.
    concurrency: Count | None = None
    answered: Count
    failed: Count
    took_us: Micros


class UserStart(Message):
    """How the users of a closed loop began."""

    mode: UserStartMode
    """How the users really began. Together although the plan says Spread: no answer time of the
    workload was known."""
    # From the start of the first user to the start of the last one.
    seconds: Finite = Field(ge=0)
    round_seconds: Finite | None = Field(None, ge=0)
    """Expected round (mean answer time and think time) from which the spread was computed; None:
    not used."""


class RoundTrips(Message):
    """Small HTTP requests while the servers idled before the first stage.

    They were sent one at a time on warm connections.
    """

    count: Count = Field(ge=1)
    median_us: Micros  # Median of one server: the most distant one.
    p95_us: Micros  # 95th percentile over all servers.


class ClientFigures(Message):
    """What the client itself cost while the stage was measured, and how late it was."""

    # CPU seconds of all sending processes together.
    cpu_seconds: Finite = Field(ge=0)
    wall_seconds: Finite = Field(ge=0)
    # Number of sending processes; each fills one core at most.
    processes: Count = Field(1, ge=1)
    throttled_periods: Count | None = None
    # TCP segments lost in the network namespace; None: unknown.
    lost_segments: Count | None = None
    lag_p99_us: Micros | None = None
    """99th percentile of how late the client's event loop ran what was due. This delays sending and
    receiving."""
    lag_max_us: Micros | None = None
    node_cpu_seconds: Finite | None = Field(None, ge=0)
    """CPU time that the client's node used or wanted, over all its CPUs, `stolen_seconds` included;
    None: unknown."""
    stolen_seconds: Finite | None = Field(None, ge=0)
    """Part of `node_cpu_seconds` that the hypervisor gave to others."""


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
    """Whether the server closed the stream, by `[DONE]` or a finish reason. A stream that is closed
    and has not `ended` came without the server's count of tokens."""
    first_chunk_us: Column = ()
    """Time from the send to the first chunk, even without content (the role that begins a chat);
    TTFT is to the first content. Empty: equal to TTFT within a millisecond for all requests."""
    uncounted: Count = 0
    """Number of answers whose streams were closed without the server's count of tokens."""
    reconnected: Count = 0
    """Number of requests that were sent again on a new connection, because their connection was
    closed before the first byte of an answer. Their clock ran on."""


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
            raise ValueError("us and count must be equally long")
        if any(a >= b for a, b in zip(self.us, self.us[1:], strict=False)):
            raise ValueError("us must ascend")
        return self


class GapSlices(Message):
    """Gaps by time, in equal slices from the first send to the last token.

    A gap belongs to the slice in which it ends.
    """

    edges_us: Annotated[
        tuple[Micros, ...], Field(min_length=1, max_length=len(GAP_LEVELS))
    ]
    """Edges in ascending order; neighbours may be equal."""
    gaps: Annotated[
        tuple[Count, ...], Field(min_length=1, max_length=MAX_GAP_SLICES)
    ]
    """Number of gaps in each slice."""
    above: Annotated[
        tuple[Count, ...],
        Field(max_length=MAX_GAP_SLICES * len(GAP_LEVELS)),
        FailFast(),
    ]
    """Number of gaps above each edge: first those of the first slice, then those of the second, and
    so on."""

    @model_validator(mode="after")
    def _within(self) -> Self:
        edges = len(self.edges_us)
        if len(self.above) != len(self.gaps) * edges:
            raise ValueError("above must have an entry for each edge of each slice")
        if any(
            count > self.gaps[place // edges]
            for place, count in enumerate(self.above)
        ):
            raise ValueError("no slice has more gaps above an edge than gaps")
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
    """Sum over all kernels; larger than the busy time if several run at once."""
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


class StageRecord(Message):
    """The measurement of one stage, complete: every request, both edges, nothing averaged away."""

    schema_: Literal["benchrun.record/1"] = Field(
        "benchrun.record/1", alias="schema"
    )
    run_uid: str = Field(max_length=64)
    plan_digest: Hex
    sequence: int = Field(ge=0, lt=MAX_RECORDS)
    """Position of the stage: stages of the plan first, then the stages of searches."""
    stage_id: str = Field(max_length=160)
    load: Load
    """How the requests were to arrive: the stage's load of the plan, or what a search chose."""
    prompts_digest: (
        Hex  # SHA-256 over the prompts in order: equal digests mean equal traffic.
    )
    engine: LoadEngineVersion
    first_send_unix_us: Micros
    last_receive_unix_us: Micros
    shared_prefix_tokens: Count = 0
    """Number of tokens that every prompt begins with (special tokens, what a chat template puts
    first). They are expected in the prefix cache."""
    expected_input_tokens: Count | None = None
    """Input tokens by the client's own count, over the answers that came with the server's count;
    None: not known."""
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
    """None: not known, as in records from before the slices were kept."""
    servers: Annotated[tuple[ServerEdge, ...], Field(max_length=64), FailFast()]
    errors: Annotated[dict[ShortText, Count], Field(max_length=8)]
    """The most frequent error texts, and how often each occurred."""
    diagnostic: Annotated[str, Field(max_length=1000)] | None = None
    """The server's answer to one extra request, sent when every request failed."""
    client: ClientFigures
    # None: not recorded, or nothing was sent over HTTP.
    connections: Connections | None = None
    streams: Streams | None = None
    """None: all answers have `ended`, or the record is older than this field."""
    sampling: SamplingParams | None = None
    """Sampling parameters as sent; None: not known, the record is older than this field."""
    chat_template: Hex | None = None
    """SHA-256 of the template that replaces the model's own; None: there is no such template."""
    tokenizer_commit: str | None = Field(None, max_length=40)
    """Commit of the tokenizer's repository on the hub; None: it is not from the hub."""
    # Result of the reset; only under the policy Reset.
    cache_reset: CacheReset | None = None
    warmup: WarmupOutcome | None = None
    """Warm-up of the stage's workload; only in the record of the workload's first stage."""
    user_start: UserStart | None = None
    """How the users of a closed loop began; None: there are no users, or the record is older than
    this field."""
    probe: Probe | None = None
    """For a stage that a search chose."""
    shards: Shards | None = None
    """For a stage that several processes sent; None: one process sent it."""
    round_trips: RoundTrips | None = None
    """Measured once, copied into every record; None: not measured."""
    profile: ProfileResult | None = None
    """For the stage that is profiled; nothing else in its record is measured."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.streams is not None:
            columns = self.streams.closed, self.streams.first_chunk_us
            lengths = {len(columns[0]), len(columns[1]) or len(columns[0])}
            if lengths != {len(self.requests.ok)}:
                raise ValueError(
                    "columns of streams must be as long as those of requests"
                )
        if not self.requests.ok and self.profile is None:
            raise ValueError("a stage has at least one request")
        if (self.profile is None) == (self.stage_id == PROFILE_STAGE):
            raise ValueError(
                f"a profile is of the stage {PROFILE_STAGE}, and of no other"
            )
        return self


_NEWER = (
    "shards",
    "streams",
    "gap_slices",
    "profile",
    "tokenizer_commit",
    "user_start",
)


def packed_record(record: StageRecord) -> bytes:
    """Pack a record as gzip of its JSON; the same record always gives the same bytes.

    Fields that older operators do not know are left out where they are None.
    """
    left_out = {name for name in _NEWER if getattr(record, name) is None}
    document = record.model_dump(mode="json", by_alias=True, exclude=left_out)
    return gzip.compress(
        json.dumps(document, sort_keys=True, separators=(",", ":")).encode(),
        mtime=0,
    )


def open_record(data: bytes) -> StageRecord:
    """Unpack and validate a record.

    Raises ValueError with one line for data that is not a record, however large it claims to be.
    """
    if len(data) > MAX_PACKED_BYTES:
        raise ValueError(f"record is larger than {MAX_PACKED_BYTES} bytes, packed")
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(data, MAX_RECORD_BYTES)
    except zlib.error as error:
        raise ValueError(f"not a gzip stream: {error}") from error
    if not inflate.eof:
        raise ValueError(
            f"record is cut short or larger than {MAX_RECORD_BYTES} bytes"
        )
    # A parser takes up to 250 bytes for an empty list: that there are too many is found out before
    # it runs.
    if (
        text.count(b",") > MAX_COMMAS
        or sum(map(text.count, (b"[", b"{", b":"))) > MAX_NESTED
    ):
        raise ValueError("record holds more values than the largest one can")
    with in_short():
        # Not in one step: for each error that would make a copy of what it is about.
        return StageRecord.model_validate(from_json(text))


def ended_search(record: StageRecord) -> str | None:
    """Return the workload whose search ended with this stage; None if no search did."""
    place = open_stage(record.stage_id)
    return (
        place[0]
        if place is not None
        and record.probe is not None
        and record.probe.ends_search
        else None
    )
