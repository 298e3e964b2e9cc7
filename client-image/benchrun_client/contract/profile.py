"""The contract's profile: what vLLM's own profiler saw of a few seconds of load, after everything was measured."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import FailFast, Field

from benchrun_client.contract.base import Count, Message, Micros, ShortText

PROFILE_STAGE = "profile"  # Id of the stage that is profiled and not measured; those of others have a slash.
READER_PORT = 8092
"""Where the reader of traces answers, in the server's pod (`benchrun_client.engines.vllm.trace_reader`)."""


class Kernel(Message):
    """A kernel of the GPU, or an operator on a CPU, without those that it calls."""

    name: Annotated[str, Field(max_length=160)]
    total_us: Micros
    count: Count


class TraceSummary(Message):
    """What the trace of the first worker says."""

    trace: ShortText  # The file's name.
    trace_bytes: Count
    device: Literal["GPU", "CPU"]
    window_us: Micros  # From the first kernel to the end of the last.
    busy_us: Micros  # Of it, while at least one ran.
    kernels_us: Micros  # Of all kernels together: more than the busy time, where several run at once.
    kernels: Annotated[tuple[Kernel, ...], Field(max_length=12), FailFast()]  # Those with the most time, in order.
    steps: Count  # Steps of the scheduler; 0: this version does not mark them.
    step_tokens: Count | None = (
        None  # Tokens of a step, of prompts and answers: the median, weighted by the steps' time.
    )


class Profile(Message):
    """What came of it."""

    workload: str = Field(max_length=40)
    concurrency: Count
    summary: TraceSummary | None = None
    problem: ShortText | None = None  # Why there is no summary.
