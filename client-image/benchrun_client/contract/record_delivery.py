"""The contract's delivery: progress, and packed records that the operator stores unopened.

A delivery is an answer to GET /records: one line of JSON, its head, followed by the packed records.
The head has an envelope for each record, with the record's length and all else that the operator
must know of it.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field, StrictInt

from benchrun_client.contract.base import (
    Count,
    Hex,
    LeavesOut,
    Message,
    Micros,
    in_short,
)
from benchrun_client.contract.model_files import ModelFiles
from benchrun_client.contract.record import (
    MAX_PACKED_BYTES,
    MAX_RECORDS,
    StageRecord,
    ended_search,
    packed_record,
)

ContractVersion = Literal[2, 3]
"""A version that both sides speak: the contract of this release, and the one before.

- 1 did not name its version. It is no longer spoken.
- 2 names itself in a delivery's head.
- 3: an operator says which version it reads. The progress has the client's release.
"""
SPOKEN: tuple[ContractVersion, ...] = get_args(ContractVersion)
"""The versions that are spoken, the oldest first."""
CONTRACT_VERSION = SPOKEN[-1]
CONTRACT_QUERY = "contract"
"""Parameter of GET /records: the newest version that the operator reads. Without it, the operator
is of a release that does not ask, so it is answered in the oldest."""
SETTLE_QUERY = "settle"
"""Parameter of GET /records: seconds that an answer waits for more where its only news is a new
stage. A client of an older release answers at once."""
TOKEN_HEADER = "Benchrun-Token"
"""Header of the token. Authorization alone does not suffice: the API server, through which pods may
be reached, does not pass that header on."""
MAX_HEAD_BYTES = 65_536
MAX_ENVELOPES = 16  # Most records in a delivery.
MAX_BODIES_BYTES = 4 * 1024 * 1024  # Most bytes of packed records in a delivery.
MAX_DELIVERY_BYTES = MAX_HEAD_BYTES + 1 + MAX_BODIES_BYTES

ClientPhase = Literal[
    "Preparing", "Waiting", "WarmingUp", "Measuring", "Done", "Failed"
]


class Envelope(Message):
    """Facts about a packed record that the operator can read without opening it."""

    sequence: int = Field(ge=0, lt=MAX_RECORDS)
    run_uid: str = Field(max_length=64)
    stage_id: str = Field(max_length=160)
    plan_digest: Hex
    ends_search: str | None = Field(None, max_length=40)
    """Workload whose search ended with this record."""
    # Size of the packed record in bytes.
    size: int = Field(ge=1, le=MAX_PACKED_BYTES)
    digest: Hex  # SHA-256 of the packed record.

    def problem_with(
        self, body: bytes, *, run_uid: str, plan_digest: str | None = None
    ) -> str | None:
        """Return why a packed record does not belong to this run; None if it does.

        The record is not opened. `plan_digest` is None if it is not known.
        """
        if self.run_uid != run_uid:
            return f"the record belongs to run {self.run_uid!r}"
        if plan_digest is not None and self.plan_digest != plan_digest:
            return "the record belongs to another plan"
        if hashlib.sha256(body).hexdigest() != self.digest:
            return "the digest of the record does not match its bytes"
        return None


class Sealed(NamedTuple):
    """A packed record with the envelope that describes this record."""

    envelope: Envelope
    body: bytes


def seal(record: StageRecord) -> Sealed:
    """Pack a record and build its envelope.

    Raises ValueError if the packed record is larger than `MAX_PACKED_BYTES`.
    """
    body = packed_record(record)
    if len(body) > MAX_PACKED_BYTES:
        raise ValueError(
            f"record {record.sequence} has {len(body)} bytes, packed; at most {MAX_PACKED_BYTES} "
            "fit"
        )
    return Sealed(envelope_of(record, body), body)


def envelope_of(record: StageRecord, body: bytes) -> Envelope:
    """Build the envelope of a record and its packed bytes.

    Raises ValueError if a value is outside the envelope's bounds.
    """
    return Envelope(
        sequence=record.sequence,
        run_uid=record.run_uid,
        stage_id=record.stage_id,
        plan_digest=record.plan_digest,
        ends_search=ended_search(record),
        size=len(body),
        digest=hashlib.sha256(body).hexdigest(),
    )


class Failure(Message):
    """Why the client could not measure; also its termination message, as JSON."""

    reason: str = Field(max_length=60, pattern=r"^[A-Za-z]+$")
    message: str = Field(max_length=2000)


class ClientProgress(LeavesOut):
    """The progress of the client; `version` grows when phase, stage or failure change."""

    left_out: ClassVar[frozenset[str]] = frozenset({"model", "release"})

    version: Count
    phase: ClientPhase
    stage: str | None = Field(None, max_length=160)
    requests_done: Count = 0  # Number of answers in the current stage so far.
    records: int = Field(0, ge=0, le=MAX_RECORDS)
    """Number of finished stages: records 0 to records-1 exist."""
    healthy_unix_us: Micros | None = None  # Instant of the first 200 of /health.
    # Instant of the first measured request.
    first_request_unix_us: Micros | None = None
    warmup_us: Micros | None = None
    failure: Failure | None = None
    model: ModelFiles | None = None  # None: no claim is filled with the model.
    release: str | None = Field(None, max_length=60)
    """Release of benchrun that the client is of. None: not known, or said in contract 2."""


class Delivery(Message):
    """The head of an answer to GET /records: all of it but the packed records."""

    contract: ContractVersion = CONTRACT_VERSION
    run_uid: str = Field(max_length=64)
    progress: ClientProgress
    records: Annotated[tuple[Envelope, ...], Field(max_length=MAX_ENVELOPES)] = ()


class Acknowledgement(Message):
    """The body of POST /ack: every record with a sequence below `through` is stored."""

    through: int = Field(ge=0, le=MAX_RECORDS)


class ContractMismatch(ValueError):
    """The client speaks another version of the contract.

    `theirs` is that version; None means an old one that does not name itself.
    """

    def __init__(self, theirs: int | None) -> None:
        named = (
            "an older version, which does not name itself"
            if theirs is None
            else f"version {theirs}"
        )
        super().__init__(
            f"the client speaks {named} of the contract, the operator versions "
            f"{' and '.join(map(str, SPOKEN))}"
        )
        self.theirs = theirs


def as_asked(delivery: Delivery, asked: int | None) -> Delivery:
    """Return a delivery in the newest version that both sides know.

    `asked` is the newest one that the operator reads; None: it does not say.
    """
    known = [
        version for version in SPOKEN if asked is not None and version <= asked
    ]
    version = known[-1] if known else SPOKEN[0]
    progress = delivery.progress
    if version == 2:
        progress = progress.model_copy(update={"release": None})
    return delivery.model_copy(update={"contract": version, "progress": progress})


def pack_delivery(delivery: Delivery, bodies: Sequence[bytes]) -> bytes:
    """Return the bytes of an answer: the head as a line of JSON, then the packed records."""
    return b"".join((delivery.model_dump_json().encode(), b"\n", *bodies))


def unpack_delivery(data: bytes) -> tuple[Delivery, tuple[bytes, ...]]:
    """Return the head and the packed records of an answer.

    Raises ContractMismatch for a version of the contract that is not spoken, ValueError for data
    that is not a delivery.
    """
    end = data.find(b"\n", 0, MAX_HEAD_BYTES + 1)
    if end < 0 and len(data) > MAX_HEAD_BYTES:
        # Version 1 wrote records into its JSON, which is one line of any length.
        if data.startswith(b'{"run_uid":'):
            raise ContractMismatch(None)
        raise ValueError(f"the first line is longer than {MAX_HEAD_BYTES} bytes")
    head = data if end < 0 else data[:end]
    with in_short():
        theirs = _Versioned.model_validate_json(head).contract
    if theirs not in SPOKEN:
        raise ContractMismatch(theirs)
    if end < 0:
        raise ValueError("the first line has no end")
    with in_short():
        delivery = Delivery.model_validate_json(head)
    edges = list(
        accumulate(
            (envelope.size for envelope in delivery.records), initial=end + 1
        )
    )
    if len(data) != edges[-1]:
        raise ValueError(
            f"records have {len(data) - end - 1} bytes, envelopes say {edges[-1] - end - 1}"
        )
    return delivery, tuple(data[a:b] for a, b in pairwise(edges))


class _Versioned(BaseModel):
    """Any JSON object of the contract, of which only the contract's version is read."""

    contract: Annotated[StrictInt, Field(ge=0, le=10**6)] | None = None


def digest_of_token(token: str) -> str:
    """Return the digest of the run's token, as a plan holds it."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
