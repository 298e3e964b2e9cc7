"""Contexts for rules, and the rules' results, sorted.

The contexts ask for four requests a second, and are changed by name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchrun.api import CompiledKernels, ServerStatus, Severity
from benchrun.judge.rules.rule import Found, NotChecked, StageFacts, StageFinding
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from benchrun_client.contract import (
    AtOnceLoad,
    BatchLoad,
    RateLoad,
    StageRecord,
    ThinkTime,
    TraceLoad,
    UsersLoad,
    spelled,
)

Profiled = Callable[[StageRecord], StageFacts]

OPEN_LOOP = ExpectedStage(
    load=RateLoad(requests_per_second="4"),
    api="Completions",
    ignore_eos=True,
    cache_policy="Isolate",
    scrape_interval_seconds=1.0,
    served_name="Qwen/Qwen3-4B",
)


def open_loop_load(
    rate: float | None = 4.0, concurrency: int | None = None, **changes: Any
) -> ExpectedStage:
    """Build an open loop at four requests a second, or all at once where the rate is None."""
    if rate is None:
        return replace(
            OPEN_LOOP, load=AtOnceLoad(max_concurrency=concurrency), **changes
        )
    text = spelled(repr(rate))
    load = RateLoad(requests_per_second=text, max_concurrency=concurrency)
    return replace(OPEN_LOOP, load=load, **changes)


def users(
    concurrency: int, *, think_seconds: float = 0.0, **changes: Any
) -> ExpectedStage:
    """Build a closed loop of users, who think for so long on average."""
    think = ThinkTime(mean_seconds=f"{think_seconds}") if think_seconds else None
    load = UsersLoad(concurrency=concurrency, think_seconds=think)
    return replace(OPEN_LOOP, load=load, **changes)


def trace(**changes: Any) -> ExpectedStage:
    """Build a recorded trace at its own speed."""
    return replace(OPEN_LOOP, load=TraceLoad(speed="1"), **changes)


def batches(size: int, **changes: Any) -> ExpectedStage:
    """Build batches of so many requests."""
    return replace(OPEN_LOOP, load=BatchLoad(size=size), **changes)


def context(
    thresholds: Thresholds | None = None,
    *,
    load: ExpectedStage = OPEN_LOOP,
    windows: tuple[Window, ...] = (),
    compilations: tuple[float, ...] | None = (),
    servers: Sequence[ServerStatus] = (),
) -> Profiled:
    """Return a function from a record to the context of a stage.

    Unless `compilations` says otherwise, its server log could be read and shows no compiling.
    """
    known = with_compilations(servers, compilations)
    return lambda record: StageFacts(
        record, load, thresholds or Thresholds(), windows, known
    )


def with_compilations(
    servers: Sequence[ServerStatus], at: Sequence[float] | None
) -> list[ServerStatus]:
    """Return the servers, or one, that compiled at these instants by the log.

    None means that the log could not be read.
    """
    known = None if at is None else CompiledKernels(count=len(at), at=list(at))
    return [
        each.model_copy(update={"compilations": known})
        for each in servers or [ServerStatus(engine="VLLM", role="server")]
    ]


def findings(found: Found) -> list[StageFinding]:
    return [each for each in found if isinstance(each, StageFinding)]


def unchecked(found: Found) -> list[NotChecked]:
    """Return what could not be checked."""
    return [each for each in found if isinstance(each, NotChecked)]


def only(found: Found) -> StageFinding:
    (finding,) = findings(found)
    return finding


def severity(found: Found) -> Severity | None:
    every = findings(found)
    return only(every).severity if every else None
