"""What operator and client say to each other: a plan goes in, records come out.

The one module that both sides import. The operator writes a `Plan` as JSON and mounts it into the client pod. The client
answers on a small port:

    GET  /ready                           200 once plan, tokenizer and data have been found; 503 before
    GET  /records?from=N&seen=V&wait=S    a `Delivery`, held back up to S seconds until a record N exists or the
                                          progress has moved past version V
    POST /ack                             an `Acknowledgement`: records below `through` are stored for good
    GET  /metrics                         Prometheus text, for people

Field names are the JSON names. All durations of requests are integer microseconds; instants are Unix microseconds of the
client's clock. Unknown fields are refused on both sides.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from typing import Annotated, Literal

from pydantic import Field, model_validator

from benchrun_client.contract_counters import PROXY_COUNTERS as PROXY_COUNTERS
from benchrun_client.contract_counters import SERVER_COUNTERS as SERVER_COUNTERS
from benchrun_client.contract_counters import START_TIME as START_TIME
from benchrun_client.contract_data import AgentData as AgentData
from benchrun_client.contract_data import CustomData as CustomData
from benchrun_client.contract_data import Data as Data
from benchrun_client.contract_data import DataFile as DataFile
from benchrun_client.contract_data import DatasetFacts as DatasetFacts
from benchrun_client.contract_data import HuggingFaceData as HuggingFaceData
from benchrun_client.contract_data import Message as Message
from benchrun_client.contract_data import MixableData as MixableData
from benchrun_client.contract_data import MixData as MixData
from benchrun_client.contract_data import MixPart as MixPart
from benchrun_client.contract_data import PrefixRepetitionData as PrefixRepetitionData
from benchrun_client.contract_data import RandomData as RandomData
from benchrun_client.contract_data import S3Object as S3Object
from benchrun_client.contract_data import ShareGPTData as ShareGPTData
from benchrun_client.contract_data import TextsData as TextsData
from benchrun_client.contract_data import TimedTraceData as TimedTraceData
from benchrun_client.contract_plan import MAX_REQUESTS_A_STAGE as MAX_REQUESTS_A_STAGE
from benchrun_client.contract_plan import PLAN_FILE as PLAN_FILE
from benchrun_client.contract_plan import PLAN_SCHEMA as PLAN_SCHEMA
from benchrun_client.contract_plan import CachePolicy as CachePolicy
from benchrun_client.contract_plan import EngineKind as EngineKind
from benchrun_client.contract_plan import LoadPoint as LoadPoint
from benchrun_client.contract_plan import Plan as Plan
from benchrun_client.contract_plan import RoleServers as RoleServers
from benchrun_client.contract_plan import Stage as Stage
from benchrun_client.contract_plan import Target as Target
from benchrun_client.contract_plan import Warmup as Warmup
from benchrun_client.contract_search import Limit as Limit
from benchrun_client.contract_search import Probe as Probe
from benchrun_client.contract_search import Search as Search
from benchrun_client.contract_search import open_stage as open_stage
from benchrun_client.contract_search import open_stage_id as open_stage_id

RECORD_SCHEMA: Literal["benchrun.record/1"] = "benchrun.record/1"
RECORD_PORT = 8090
"""Port of the record server in the client pod."""
GATE_PORT = 8091
"""Port at which the processes of a client meet before every stage, in the pod of the first."""
MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Largest record taken, after decompression."""

Micros = Annotated[int, Field(ge=0, le=10**16)]
Count = Annotated[int, Field(ge=0, le=10**12)]
ShortText = Annotated[str, Field(max_length=300)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


# ---- records --------------------------------------------------------------------------------------------------------


NOT_ALWAYS_TOLD = frozenset({"queue_us", "ended"})
"""Columns that an engine may leave empty."""


class RequestColumns(Message):
    """Per-request values, one entry a request, in order of sending. A failed request has `ok` 0."""

    start_us: tuple[Micros, ...]
    """Send instant, relative to the stage's first send."""
    queue_us: tuple[Micros, ...]
    """Wait in the client for a free place under the cap. Empty: the engine does not tell when requests were due."""
    ttft_us: tuple[Micros, ...]
    e2el_us: tuple[Micros, ...]
    input_tokens: tuple[Count, ...]
    output_tokens: tuple[Count, ...]
    asked_tokens: tuple[Count, ...]
    """Output tokens asked for."""
    ended: tuple[Literal[0, 1], ...]
    """Whether the server's closing word (its own count of tokens) arrived: 0 is a stream that broke off unnoticed. Empty: the
    engine does not tell."""
    ok: tuple[Literal[0, 1], ...]

    @model_validator(mode="after")
    def _equal_lengths(self) -> RequestColumns:
        columns = {name: getattr(self, name) for name in type(self).model_fields}
        lengths = {name: len(column) for name, column in columns.items() if column or name not in NOT_ALWAYS_TOLD}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must be equally long, got {lengths}")
        if lengths["ok"] > MAX_REQUESTS_A_STAGE:
            raise ValueError(f"at most {MAX_REQUESTS_A_STAGE} requests a stage")
        return self

    @property
    def waits_us(self) -> tuple[int, ...]:
        """`queue_us`, or no wait at all where it is not known: to reckon with, never to show."""
        return self.queue_us or (0,) * len(self.ok)

    @property
    def known_ended(self) -> tuple[int, ...]:
        """Of which answers it is known that they came to their end."""
        return self.ended or (0,) * len(self.ok)


class GapCounts(Message):
    """Inter-token gaps (ITL) as exact counts: `count[i]` gaps of `us[i]` microseconds; `us` ascends."""

    us: tuple[Micros, ...] = ()
    count: tuple[Count, ...] = ()

    @model_validator(mode="after")
    def _ascending(self) -> GapCounts:
        if len(self.us) != len(self.count):
            raise ValueError("us and count must be equally long")
        if any(a >= b for a, b in zip(self.us, self.us[1:], strict=False)):
            raise ValueError("us must ascend")
        return self


class ServerEdge(Message):
    """Counters of one server pod at both edges of the stage."""

    address: str = Field(max_length=300)
    role: str = Field(default="server", max_length=20)
    """server; or prefill, decode and proxy."""
    before: dict[str, float] | None
    """None: the page could not be read."""
    after: dict[str, float] | None
    version: str | None = Field(default=None, max_length=100)
    """What /version says; None: it does not."""
    settings: str | None = Field(default=None, max_length=64)
    """Digest of what the server reports of its configuration (labels of cache_config_info); equal servers have equal ones."""
    models: ShortText | None = None
    """What /v1/models says: each model with where it comes from and its max_model_len; None: it does not."""


class CacheReset(Message):
    """What became of the reset of the prefix caches before a stage."""

    succeeded: bool
    """Every server said so in the body of its answer, not only by its status. One that says nothing (vLLM before 0.26) is
    believed, and `answer` is empty: what the reset was worth, the hits of the stage tell."""
    attempts: int = Field(ge=1)
    answer: ShortText
    """The last answer of the server that did not, else of the last one."""


class WarmupOutcome(Message):
    """What became of a workload's warm-up. Answered and failed together are fewer than asked for where its time was up."""

    requests: int = Field(ge=1)
    """Asked for."""
    answered: Count | None
    """None, as `failed`: it was cut short, and the engine does not tell how far it came."""
    failed: Count | None
    took_us: Micros


class ClientFigures(Message):
    """What the client itself cost in the window, and how far it was late."""

    cpu_seconds: float = Field(ge=0)
    """Of all its processes that send."""
    wall_seconds: float = Field(ge=0)
    processes: int = Field(default=1, ge=1)
    """Each fills a core at most: of an engine that is one process with several threads, the threads."""
    throttled_periods: int | None = Field(default=None, ge=0)
    lag_p99_us: Micros | None = None
    """99th percentile of how late the client's event loop came to what was due: it delays sends and the reading of tokens."""
    lag_max_us: Micros | None = None


class Engine(Message):
    """Who generated the load."""

    name: str = Field(max_length=60)
    version: str = Field(max_length=60)
    trust_env: bool
    """True: proxy variables were set, and aiohttp looked them up within every TTFT."""


class Shards(Message):
    """How several processes of the client went about a stage together."""

    count: int = Field(ge=2, le=1024)
    start_skew_us: Micros
    """From the first of them to begin to the last, by the gate's clock."""
    clock_error_us: Micros
    """How far off that clock any of them may have been."""


class StageRecord(Message):
    """The measurement of one stage, complete: every request, both edges, nothing averaged away."""

    schema_: Literal["benchrun.record/1"] = Field(default=RECORD_SCHEMA, alias="schema")
    run_uid: str = Field(max_length=64)
    plan_digest: Hex
    sequence: int = Field(ge=0, lt=1024)
    """Position of the stage: in the plan, and after all of them those of the searches."""
    stage_id: str = Field(max_length=160)
    prompts_digest: Hex
    """SHA-256 over the prompts in order: equal digests mean equal traffic."""
    engine: Engine
    first_send_unix_us: Micros
    last_receive_unix_us: Micros
    shared_prefix_tokens: Count = 0
    """Tokens that every prompt begins with (special tokens, what a chat template puts first): to be found in the prefix
    cache without anybody's fault."""
    repeated_tokens: Count = 0
    """Prompt tokens, summed over the requests and beyond those, that the dataset repeats on purpose."""
    datasets: Annotated[tuple[DatasetFacts, ...], Field(max_length=16)] = ()
    """What was read for the workload; empty where nothing was."""
    idle_before_us: Micros
    """From the previous answer (or the canary's, or the warm-up's) to this stage's first request."""
    scalars: Annotated[dict[Annotated[str, Field(max_length=80)], float | int | None], Field(max_length=200)]
    """The load engine's own figures under its own names."""
    requests: RequestColumns
    gaps: GapCounts
    servers: Annotated[tuple[ServerEdge, ...], Field(max_length=64)]
    errors: Annotated[dict[ShortText, Count], Field(max_length=8)]
    """The most frequent error texts and how often each came."""
    diagnostic: Annotated[str, Field(max_length=1000)] | None = None
    """The server's own answer to one extra request, asked when every request failed."""
    client: ClientFigures
    cache_reset: CacheReset | None = None
    """Under the policy Reset."""
    warmup: WarmupOutcome | None = None
    """Of the stage's workload, told with the first of its stages: the later ones were preceded by that one, too."""
    probe: Probe | None = None
    """Of a stage that a search chose; the load of others is in the plan."""
    shards: Shards | None = None
    """Where several processes sent it; None: one did."""

    @model_validator(mode="after")
    def _has_requests(self) -> StageRecord:
        if not self.requests.ok:
            raise ValueError("a stage has at least one request")
        return self


class Envelope(Message):
    """A record on its way: gzip of the record's JSON, in base64, with the digest of the gzip bytes."""

    sequence: int = Field(ge=0, lt=1024)
    digest: Hex
    payload: str

    @classmethod
    def seal(cls, record: StageRecord) -> Envelope:
        """Compress a record; the same record always gives the same bytes. That of one process says nothing of shards."""
        unsaid = {"shards"} if record.shards is None else None
        document = record.model_dump(mode="json", by_alias=True, exclude=unsaid)
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        data = gzip.compress(text.encode(), mtime=0)
        digest = hashlib.sha256(data).hexdigest()
        return cls(sequence=record.sequence, digest=digest, payload=base64.b64encode(data).decode())

    def data(self) -> bytes:
        """The gzip bytes. Raises ValueError when they are not what the digest says."""
        data = base64.b64decode(self.payload, validate=True)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ValueError(f"record {self.sequence}: digest does not match its payload")
        return data


def open_record(data: bytes) -> StageRecord:
    """Decompress and check a record; ValueError for anything that is not one, however large it claims to be."""
    return StageRecord.model_validate_json(_bounded_gunzip(data))


def _bounded_gunzip(data: bytes) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(data, MAX_RECORD_BYTES)
    except zlib.error as error:
        raise ValueError(f"not a gzip stream: {error}") from error
    if not inflate.eof:
        raise ValueError(f"record is cut short or larger than {MAX_RECORD_BYTES} bytes")
    return text


# ---- delivery -------------------------------------------------------------------------------------------------------

ClientPhase = Literal["Preparing", "Waiting", "WarmingUp", "Measuring", "Done", "Failed"]


class Failure(Message):
    """Why the client could not measure; also its termination message, as JSON."""

    reason: str = Field(max_length=60, pattern=r"^[A-Za-z]+$")
    message: str = Field(max_length=2000)


class Progress(Message):
    """Where the client is. `version` grows whenever phase, stage or failure change."""

    version: int = Field(ge=0)
    phase: ClientPhase
    stage: str | None = Field(default=None, max_length=160)
    requests_done: Count = 0
    """Answers of the current stage so far."""
    records: int = Field(default=0, ge=0)
    """Stages finished: records 0 .. records-1 exist."""
    healthy_unix_us: Micros | None = None
    """First 200 of /health."""
    first_request_unix_us: Micros | None = None
    """First measured request."""
    warmup_us: Micros | None = None
    failure: Failure | None = None


class Delivery(Message):
    """Answer to GET /records."""

    run_uid: str = Field(max_length=64)
    progress: Progress
    records: Annotated[tuple[Envelope, ...], Field(max_length=16)] = ()


class Acknowledgement(Message):
    """Body of POST /ack: every record with a sequence below `through` is stored."""

    nonce: str = Field(max_length=64)
    through: int = Field(ge=0)
