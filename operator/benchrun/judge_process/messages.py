"""Messages between the operator and its judge process.

A job goes in:

- the `Job` of a run, or the `SweepJob` of a sweep, as a line of JSON
- for each part a `PartHead` as a line of JSON, then the bytes of the part
- an empty line

An answer comes out:

- the `Judgement` of the run, or the `SweepTable` of the sweep, as a line of JSON
- for a run a `DocumentHead` as a line of JSON, then the bytes of the packed result document, which
  the operator stores unopened

Every head says how many bytes follow. The operator imports this module, so this module imports
nothing of the judge.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Literal, Self

from benchrun_client.contract import Envelope
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from benchrun.api import (
    MAX_PACKED_RESULT_BYTES,
    ClientStatus,
    EndingStatus,
    RunInstants,
    ServerStatus,
)
from benchrun.api.sweep import TabledRun

# the line of a job: the object that it comes from has 1.5 MiB at most
MAX_JOB_BYTES = 4 * 1024 * 1024
MAX_HEAD_BYTES = 16_384
MAX_PART_BYTES = 2 * 1024 * 1024
MAX_PARTS = 16_384
MAX_JUDGEMENT_BYTES = 512 * 1024  # the line of an answer, without the document
END = b"\n"  # terminator after the last part
PartKind = Literal[
    "record", "timeline", "baseline", "baselineDocument", "run", "runDocument"
]
Name = Annotated[str, Field(max_length=253)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        """Return the message as the line of JSON that is sent."""
        return self.model_dump_json(exclude_none=True).encode() + b"\n"


class Job(_Line):
    """A run to be judged; a `Judgement` comes back."""

    kind: Literal["run"] = "run"
    name: Name
    namespace: Name
    uid: Name
    spec: dict[str, Any]  # the spec in the cluster
    # entries of the last status
    servers: list[ServerStatus] = Field(default_factory=list)
    client: ClientStatus | None = None  # the client pod's image and its digest
    unstored: tuple[
        Name, ...
    ] = ()  # stages whose record is judged here and not stored anywhere
    ending: EndingStatus | None = None
    """Why the run ended early; None if it was measured to its end. A run that ended early is not
    compared with its baseline, because its figures may be disturbed."""
    # entries of the last status
    instants: RunInstants = Field(default_factory=RunInstants)
    labels: dict[str, str] = Field(default_factory=dict)  # the user's own


class SweepJob(_Line):
    """A sweep whose table is to be made; a `SweepTable` comes back."""

    kind: Literal["sweep"] = "sweep"
    namespace: Name = ""
    spec: dict[str, Any]  # the spec in the cluster
    baseline: Name  # name of the variant that the others are compared with
    runs: tuple[TabledRun, ...]  # those that were measured to their end
    # variants without figures, and why
    missing: dict[Name, str] = Field(default_factory=dict)


_ANY_JOB: TypeAdapter[Job | SweepJob] = TypeAdapter(
    Annotated[Job | SweepJob, Field(discriminator="kind")]
)


class PartHead(_Line):
    """The header of one part of a job."""

    kind: PartKind
    size: int = Field(ge=0, le=MAX_PART_BYTES)
    name: Name  # name of the part in messages about its refusal
    # what the record is to be; None for another part
    envelope: Envelope | None = None


class DocumentHead(_Line):
    """The header of the packed result document that follows the answer for a run."""

    size: int = Field(ge=0, le=MAX_PACKED_RESULT_BYTES)
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")  # SHA-256 of the bytes

    @classmethod
    def of(cls, document: bytes) -> Self:
        """Build the header of a packed document. Raises ValueError if it is too large."""
        return cls(size=len(document), digest=hashlib.sha256(document).hexdigest())

    def matches(self, document: bytes) -> bool:
        """Return whether these bytes are the document that this header announces."""
        return self.size == len(document) and self == self.of(document)


@dataclass(frozen=True, slots=True)
class JobPart:
    """A part of a job, with its bytes.

    For a run a part is a record (packed, as it was stored), a timeline (packed chunk), or the
    baseline (JSON of the BenchmarkRun, then its packed result document). For a sweep a part is the
    status of a run (JSON, `api.sweep.essence`) or its document, and its name is the run's uid.
    """

    head: PartHead
    data: bytes

    @classmethod
    def of(
        cls,
        kind: PartKind,
        data: bytes,
        *,
        name: str,
        envelope: Envelope | None = None,
    ) -> Self:
        """Build a part from its bytes. Raises ValueError if there are too many."""
        return cls(
            PartHead(kind=kind, size=len(data), name=name, envelope=envelope), data
        )


class NotAJob(ValueError):
    """The bytes that were read do not form a job."""


def read_job(source: BinaryIO) -> tuple[Job | SweepJob, Iterator[JobPart]] | None:
    """Read a job; its parts are read when the returned iterator is advanced.

    Return None at the end of the input. Raises NotAJob, or ValueError, also when a part is read.
    """
    line = source.readline(MAX_JOB_BYTES)
    return (_ANY_JOB.validate_json(_whole(line)), _parts(source)) if line else None


def _parts(source: BinaryIO) -> Iterator[JobPart]:
    for _ in range(MAX_PARTS):
        line = source.readline(MAX_HEAD_BYTES)
        if line == END:
            return
        head = PartHead.model_validate_json(_whole(line))
        data = source.read(head.size)
        if len(data) != head.size:
            raise NotAJob("the bytes of a part end before the size in its header")
        yield JobPart(head, data)
    raise NotAJob(f"more than {MAX_PARTS} parts")


def _whole(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise NotAJob(
            "a line of the message has no end, or is longer than the limit"
        )
    return line
