"""Conditions with their reasons: stable names that pipelines match on."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import StatusModel, list_map

ConditionStatus = Literal["True", "False", "Unknown"]
ConditionType = Literal[
    "Accepted",
    "ClientReady",
    "ServerReady",
    "Measured",
    "Stored",
    "Valid",
    "ObjectivesMet",
    "NotRegressed",
    "Complete",
    "Failed",
    "Succeeded",
    "Ready",
    "Reconciling",
    "Stalled",
    "Archived",
]


class Condition(StatusModel):
    """One observation about the run, with the fields of `metav1.Condition`."""

    type: str = Field(
        max_length=64, description="What is observed, for example ServerReady."
    )
    status: ConditionStatus = Field(
        description="True, False, or Unknown as long as it is not known."
    )
    reason: str = Field(max_length=128, description="Why, in one stable word.")
    message: str = Field(
        default="", max_length=4096, description="Why, in a sentence for people."
    )
    observed_generation: int = Field(
        default=0, description="Generation of the spec this is about."
    )
    last_transition_time: str = Field(
        default="", max_length=32, description="When status last changed."
    )


MAX_CONDITIONS = 32
Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=MAX_CONDITIONS, json_schema_extra=list_map("type")),
]


class Reason:
    """The reasons of a run's conditions, which say why it is in its phase."""

    # while it goes on
    SUSPENDED = "Suspended"
    PREPARING_CLIENT = "PreparingClient"
    DOWNLOADING_MODEL = "DownloadingModel"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    NO_KUEUE = "NoKueue"
    WAITING_FOR_NODE = "WaitingForNode"
    SCHEDULING_GATED = "SchedulingGated"
    SERVER_STARTING = "ServerStarting"
    WAITING_FOR_ENDPOINT = "WaitingForEndpoint"
    WARMING_UP = "WarmingUp"
    MEASURING = "Measuring"
    COLLECTING = "Collecting"
    CHILD_REFUSED = "ChildRefused"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NOT_INSTALLED = "NotInstalled"
    NO_POD = "NoPod"
    NO_ROOM = "NoRoom"
    # how it ended well
    FINISHED = "Finished"
    MEASURED = "Measured"
    ALL_STORED = "AllStored"
    ALL_VALID = "AllValid"
    SUSPECT = "Suspect"
    INVALID_LOAD_POINTS = "InvalidLoadPoints"
    OBJECTIVES_MET = "ObjectivesMet"
    OBJECTIVES_MISSED = "ObjectivesMissed"
    OBJECTIVES_INCONCLUSIVE = "ObjectivesInconclusive"
    NOT_REGRESSED = "NotRegressed"
    REGRESSED = "Regressed"
    NOT_REGRESSED_HERE = "NotRegressedHere"
    REGRESSED_HERE = "RegressedHere"
    ONE_SERVER_A_SIDE = "OneServerASide"
    INCONCLUSIVE = "Inconclusive"
    UNDERPOWERED = "Underpowered"
    WRITTEN = "Written"
    NOT_ARCHIVABLE = "NotArchivable"
    # how it ended badly: the spec
    INVALID_SPEC = "InvalidSpec"
    CONFLICT = "Conflict"
    CHILD_INVALID = "ChildInvalid"
    CANCELLED = "Cancelled"
    INTERNAL_ERROR = "InternalError"
    # the server
    USAGE_ERROR = "UsageError"
    INVALID_ARGUMENT = "InvalidArgument"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_GATED = "ModelGated"
    OUT_OF_GPU_MEMORY = "OutOfGPUMemory"
    KV_CACHE_TOO_SMALL = "KVCacheTooSmall"
    COMPILE_CACHE_FAILED = "CompileCacheFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    UNSCHEDULABLE = "Unschedulable"
    CRASH_LOOP = "CrashLoop"
    EVICTED = "Evicted"
    QUOTA_LOST = "QuotaLost"
    SERVER_RESTARTED = "ServerRestarted"
    SERVER_GONE = "ServerGone"
    POD_REJECTED = "PodRejected"
    # the client
    CLIENT_FAILED = "ClientFailed"
    CLIENT_GONE = "ClientGone"
    SHARD_LOST = "ShardLost"
    ALL_REQUESTS_FAILED = "AllRequestsFailed"
    CONTRACT_MISMATCH = "ContractMismatch"
    RECORDS_MISSING = "RecordsMissing"
    RECORDS_NOT_STORED = "RecordsNotStored"
    # the judge
    NOT_JUDGED = "NotJudged"
    # deadlines
    PENDING_DEADLINE = "PendingDeadlineExceeded"
    STARTUP_DEADLINE = "StartupDeadlineExceeded"
    RUN_DEADLINE = "RunDeadlineExceeded"


def timestamp(now: datetime) -> str:
    """Format an instant in RFC 3339 with whole seconds, as Kubernetes writes it.

    The instant must be in UTC.
    """
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(
    conditions: tuple[Condition, ...], type_: ConditionType
) -> Condition | None:
    """Return the condition of that type; None if there is none."""
    return next((c for c in conditions if c.type == type_), None)


def is_true(conditions: tuple[Condition, ...], type_: ConditionType) -> bool:
    """Return whether the condition of that type is True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


_OBJECTIVES = {"True": "Met", "False": "Missed"}
_UNDECIDED = "Undecided"


def answer_of(conditions: tuple[Condition, ...]) -> str | None:
    """Return whether objectives and baseline are kept, for a column: `Met`, `Missed, Regressed`.

    None if the run was not measured to its end, or has neither objectives nor a baseline.
    """
    if not is_true(conditions, "Complete"):
        return None
    words = []
    if (objectives := find_condition(conditions, "ObjectivesMet")) is not None:
        words.append(_OBJECTIVES.get(objectives.status, _UNDECIDED))
    if (gate := find_condition(conditions, "NotRegressed")) is not None:
        words.append(_UNDECIDED if gate.status == "Unknown" else gate.reason)
    return ", ".join(dict.fromkeys(words)) or None


def has_ended(conditions: tuple[Condition, ...]) -> bool:
    """Return whether the run has ended, in any way. Conditions decide, never the phase."""
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, *, now: datetime
) -> tuple[Condition, ...]:
    """Replace the condition of the same type, or append the new one.

    The transition time changes only when the status changes. Messages are cut to fit.
    """
    old = next((c for c in conditions if c.type == new.type), None)
    since = (
        old.last_transition_time
        if old is not None and old.status == new.status
        else timestamp(now)
    )
    placed = new.model_copy(
        update={"last_transition_time": since, "message": new.message[:4096]}
    )
    if old is None:
        return (*conditions, placed)
    return tuple(placed if c.type == new.type else c for c in conditions)
