"""Contexts for rules, and the rules' results, sorted.

The contexts ask for four requests a second, and are changed by name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchrun.api import CompiledKernels, ServerStatus, Severity
from benchrun.judge.rules.rule import Code, Found, NotChecked, StageFacts, StageFinding
from benchrun.judge.stage_facts import ExpectedLoad
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from benchrun_client.contract import StageRecord
from unit.measure.records import STAGE

Profiled = Callable[[StageRecord], StageFacts]

OPEN_LOOP = ExpectedLoad(
    rate=4.0,
    concurrency=None,
    closed_loop=False,
    api="Completions",
    ignore_eos=True,
    cache_policy="Isolate",
    scrape_interval_seconds=1.0,
    served_name="Qwen/Qwen3-4B",
)


def open_loop_load(**changes: Any) -> ExpectedLoad:
    """Build an open loop at four requests a second."""
    return replace(OPEN_LOOP, **changes)


def users(concurrency: int, **changes: Any) -> ExpectedLoad:
    return open_loop_load(rate=None, concurrency=concurrency, closed_loop=True, **changes)


def context(
    thresholds: Thresholds | None = None,
    *,
    load: ExpectedLoad = OPEN_LOOP,
    windows: tuple[Window, ...] = (),
    compilations: tuple[float, ...] | None = (),
    servers: Sequence[ServerStatus] = (),
) -> Profiled:
    """Return a function from a record to the context of a stage.

    Unless `compilations` says otherwise, its server log could be read and shows no compiling.
    """
    known = with_compilations(servers, compilations)
    return lambda record: StageFacts(record, load, thresholds or Thresholds(), windows, known)


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


def one_finding(
    code: Code, severity: Severity, weight: float, **evidence: float | str | None
) -> list[StageFinding]:
    """Return what a rule returns that found one thing at the stage of `record()`."""
    return [StageFinding(code, severity, STAGE, evidence, weight=weight)]


def severity(found: Found) -> Severity | None:
    every = findings(found)
    return only(every).severity if every else None
