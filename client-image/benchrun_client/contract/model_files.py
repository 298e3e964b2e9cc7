"""The contract's part on a claim that keeps a model: where it is, and how far it is filled."""

from typing import Annotated, Literal

from pydantic import Field

from benchrun_client.contract.base import (
    Bytes,
    LongText,
    Message,
    Micros,
    ShortText,
)

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
"""Commit of a repository on the hub. It becomes an argument of the server."""
FilesState = Literal["Resolving", "Waiting", "Downloading", "Complete"]
FilesStart = Literal["Cold", "Warm"]


class ModelCache(Message):
    """A claim that the client fills with a model from the hub, before a server exists."""

    claim: str = Field(max_length=253)  # Its name, for messages.
    directory: LongText  # Where it is mounted.
    repository: LongText  # The model's id on the hub.
    revision: LongText | None = (
        None  # Branch, tag or commit; None: the main branch.
    )


class ModelFiles(Message):
    """How far the claim is filled with the model's files."""

    state: FilesState
    """Resolving: the hub is asked for the commit. Waiting: another run downloads it."""
    commit: Commit | None = None
    start: FilesStart | None = None
    """Warm: the commit was complete when this client came. Cold: it waited for a download."""
    total_bytes: Bytes = 0
    done_bytes: Bytes = 0
    # What went wrong last, while it is tried again.
    problem: ShortText | None = None
    completed_unix_us: Micros | None = None
