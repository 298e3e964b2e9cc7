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

from benchrun_client.contract_counters import PROXY_COUNTERS as PROXY_COUNTERS
from benchrun_client.contract_counters import SERVER_COUNTERS as SERVER_COUNTERS
from benchrun_client.contract_counters import START_TIME as START_TIME
from benchrun_client.contract_data import MOST as MOST
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
from benchrun_client.contract_delivery import MAX_BODIES_BYTES as MAX_BODIES_BYTES
from benchrun_client.contract_delivery import MAX_DELIVERY_BYTES as MAX_DELIVERY_BYTES
from benchrun_client.contract_delivery import MAX_ENVELOPES as MAX_ENVELOPES
from benchrun_client.contract_delivery import MAX_HEAD_BYTES as MAX_HEAD_BYTES
from benchrun_client.contract_delivery import TOKEN_HEADER as TOKEN_HEADER
from benchrun_client.contract_delivery import Acknowledgement as Acknowledgement
from benchrun_client.contract_delivery import ClientPhase as ClientPhase
from benchrun_client.contract_delivery import ContractMismatch as ContractMismatch
from benchrun_client.contract_delivery import Delivery as Delivery
from benchrun_client.contract_delivery import Envelope as Envelope
from benchrun_client.contract_delivery import Failure as Failure
from benchrun_client.contract_delivery import Progress as Progress
from benchrun_client.contract_delivery import Sealed as Sealed
from benchrun_client.contract_delivery import digest_of_token as digest_of_token
from benchrun_client.contract_delivery import pack_delivery as pack_delivery
from benchrun_client.contract_delivery import seal as seal
from benchrun_client.contract_delivery import unpack_delivery as unpack_delivery
from benchrun_client.contract_plan import MAX_REQUESTS_A_STAGE as MAX_REQUESTS_A_STAGE
from benchrun_client.contract_plan import PLAN_FILE as PLAN_FILE
from benchrun_client.contract_plan import CachePolicy as CachePolicy
from benchrun_client.contract_plan import LoadPoint as LoadPoint
from benchrun_client.contract_plan import Plan as Plan
from benchrun_client.contract_plan import RoleServers as RoleServers
from benchrun_client.contract_plan import Stage as Stage
from benchrun_client.contract_plan import Target as Target
from benchrun_client.contract_plan import Warmup as Warmup
from benchrun_client.contract_record import MAX_GAP_VALUES as MAX_GAP_VALUES
from benchrun_client.contract_record import MAX_PACKED_BYTES as MAX_PACKED_BYTES
from benchrun_client.contract_record import MAX_RECORD_BYTES as MAX_RECORD_BYTES
from benchrun_client.contract_record import CacheReset as CacheReset
from benchrun_client.contract_record import ClientFigures as ClientFigures
from benchrun_client.contract_record import Engine as Engine
from benchrun_client.contract_record import GapCounts as GapCounts
from benchrun_client.contract_record import RequestColumns as RequestColumns
from benchrun_client.contract_record import ServerEdge as ServerEdge
from benchrun_client.contract_record import Shards as Shards
from benchrun_client.contract_record import StageRecord as StageRecord
from benchrun_client.contract_record import WarmupOutcome as WarmupOutcome
from benchrun_client.contract_record import ended_search as ended_search
from benchrun_client.contract_record import open_record as open_record
from benchrun_client.contract_search import Limit as Limit
from benchrun_client.contract_search import Probe as Probe
from benchrun_client.contract_search import Search as Search
from benchrun_client.contract_search import open_stage as open_stage
from benchrun_client.contract_search import open_stage_id as open_stage_id
from benchrun_client.contract_served import ServedModel as ServedModel

RECORD_PORT = 8090
"""Port of the record server in the client pod."""
GATE_PORT = 8091
"""Port at which the processes of a client meet before every stage, in the pod of the first."""
