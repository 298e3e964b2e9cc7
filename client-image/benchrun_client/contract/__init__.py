"""What operator and client say to each other: a plan goes in, records come out.

The one module that both sides import. The operator writes a `Plan` as JSON and mounts it into the client pod. The client
answers on a small port:

    GET  /ready                           200 once plan, tokenizer and data have been found; 503 before
    GET  /records?from=N&seen=V&wait=S    a `Delivery`, held back up to S seconds until a record N exists or the
                                          progress has moved past version V
    POST /ack                             an `Acknowledgement`: records below `through` are stored for good
    GET  /metrics                         Prometheus text, for people

Records and acknowledgements need the token whose digest the plan has, as `Benchrun-Token: TOKEN` or `Authorization: Bearer
TOKEN`. A client that could not read its plan knows no digest: it tells anybody its progress, and has no records.

Field names are the JSON names. All durations of requests are integer microseconds; instants are Unix microseconds of the
client's clock. Unknown fields are refused on both sides. Every list, text and number has its bounds.
"""

from __future__ import annotations

from benchrun_client.contract.data import (
    MOST,
    AgentData,
    CustomData,
    Data,
    DataFile,
    DatasetFacts,
    HuggingFaceData,
    Message,
    MixableData,
    MixData,
    MixPart,
    PrefixRepetitionData,
    RandomData,
    S3Object,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from benchrun_client.contract.delivery import (
    MAX_BODIES_BYTES,
    MAX_DELIVERY_BYTES,
    MAX_ENVELOPES,
    MAX_HEAD_BYTES,
    TOKEN_HEADER,
    Acknowledgement,
    ClientPhase,
    ContractMismatch,
    Delivery,
    Envelope,
    Failure,
    Progress,
    Sealed,
    digest_of_token,
    pack_delivery,
    seal,
    unpack_delivery,
)
from benchrun_client.contract.plan import (
    MAX_REQUESTS_A_STAGE,
    PLAN_FILE,
    CachePolicy,
    Limit,
    LoadPoint,
    Plan,
    Probe,
    RoleServers,
    Search,
    Stage,
    Target,
    Warmup,
    open_stage,
    open_stage_id,
)
from benchrun_client.contract.record import (
    MAX_GAP_VALUES,
    MAX_PACKED_BYTES,
    MAX_RECORD_BYTES,
    PROXY_COUNTERS,
    START_TIME,
    CacheReset,
    ClientFigures,
    Engine,
    GapCounts,
    RequestColumns,
    ServedModel,
    ServerEdge,
    Shards,
    StageRecord,
    WarmupOutcome,
    ended_search,
    open_record,
)

RECORD_PORT = 8090
"""Port of the record server in the client pod."""
GATE_PORT = 8091
"""Port at which the processes of a client meet before every stage, in the pod of the first."""
