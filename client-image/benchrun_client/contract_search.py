"""A search in the plan, and what its records say of it; a part of `contract`."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Literal

from pydantic import Field, model_validator

from benchrun_client.contract_data import Count, Data, Message

MAX_OPEN_STAGES = 256
"""Most stages of a search."""


class Limit(Message):
    """A latency percentile that a searched load must keep."""

    metric: Literal["TTFT", "TPOT", "ITL", "E2EL"]
    percentile: str = Field(max_length=10)
    max_milliseconds: Count = Field(ge=1)


class Search(Message):
    """Stages whose load depends on how the ones before fared: the highest load that keeps every limit is looked for. Measured
    after all stages; several searches one after the other."""

    workload: str = Field(max_length=40)
    axis: Literal["rate", "concurrency"]
    lowest: str = Field(max_length=24)
    highest: str = Field(max_length=24)
    tolerance_percent: str = Field(max_length=24)
    """The search ends once the bracket is as narrow, relative to its lower end."""
    max_probes: int = Field(ge=1, le=MAX_OPEN_STAGES)
    """Most load points."""
    max_repeats: int = Field(ge=1, le=MAX_OPEN_STAGES)
    """Most stages of a load point: it is measured again while its outcome is Inconclusive."""
    objectives: tuple[Limit, ...] = Field(min_length=1, max_length=16)
    max_failed_percent: str = Field(max_length=24)
    data: Data
    requests: Count | None = Field(default=None, ge=1)
    """Of each stage; None: rate x duration."""
    duration_seconds: Count | None = Field(default=None, ge=1)
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(max_length=MAX_OPEN_STAGES)
    """Of every stage that there may be, probe by probe."""
    api: Literal["Completions", "Chat"] = "Completions"
    ignore_eos: bool = True

    @model_validator(mode="after")
    def _is_whole(self) -> Search:
        if len(self.seeds) != self.most_stages:
            raise ValueError(f"{self.most_stages} stages need as many seeds, got {len(self.seeds)}")
        if (self.requests is None) == (self.duration_seconds is None):
            raise ValueError("exactly one of requests and duration_seconds")
        return self

    @property
    def most_stages(self) -> int:
        """How many stages there can be."""
        return self.max_probes * self.max_repeats

    def requests_at(self, value: Decimal) -> int:
        """Requests of a stage at this load: as asked for, or rate x duration rounded up."""
        if self.requests is not None:
            return self.requests
        return max(1, int((value * Decimal(self.duration_seconds or 0)).to_integral_value(rounding=ROUND_CEILING)))


class Probe(Message):
    """Which load a search measured, and whether it goes on."""

    value: str = Field(max_length=24)
    """Requests a second or users, in its one spelling."""
    ends_search: bool
    """The search ended with this stage."""


def open_stage_id(workload: str, probe: int, repeat: int) -> str:
    """A stage of a search: `chat/search-07/r1`."""
    return f"{workload}/search-{probe:02d}/r{repeat}"


def open_stage(stage_id: str) -> tuple[str, int, int] | None:
    """Workload, probe and repeat of a search's stage; None: it is none."""
    found = _OPEN_STAGE.fullmatch(stage_id)
    return (found[1], int(found[2]), int(found[3])) if found else None


_OPEN_STAGE = re.compile(r"([a-z0-9-]{1,40})/search-([0-9]{2,3})/r([1-9][0-9]{0,2})")
