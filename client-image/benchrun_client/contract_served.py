"""What a server says of the model that requests name."""

from __future__ import annotations

from pydantic import Field

from benchrun_client.contract_data import Message

MAX_ID_CHARACTERS = 300
MAX_ROOT_CHARACTERS = 600
"""Longer than any name or path that a server is told."""


class ServedModel(Message):
    """One entry of /v1/models: that of the name in the requests; where no entry has it, the first one."""

    id: str = Field(max_length=MAX_ID_CHARACTERS)
    root: str | None = Field(default=None, max_length=MAX_ROOT_CHARACTERS)
    """The hub id or path that the server was started with; of an adapter, those of the model that it adapts. None: not told."""
