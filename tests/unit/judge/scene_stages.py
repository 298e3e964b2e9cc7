"""Stages of scenes, made of their knobs: what is expected, the record, and the samples.

Every knob is an argument of one of these functions, so that a misspelt one is an error. Those that
none of them knows are fields of the record, of the requests, of a server or of a sample.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from benchrun.judge.rules.rule import StageFacts
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.measure import TTFT_SUM, Window
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import (
    PROCESS_CPU,
    PROXY_COUNTERS,
    AnswerCheck,
    GapCounts,
    RequestColumns,
    RoundTrips,
    ServedModel,
    ServerEdge,
    SessionsLoad,
    StageRecord,
)
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import batches, open_loop_load, trace, users
from unit.measure.records import (
    SERVED,
    ZERO,
    client,
    record,
    requests,
    sample,
    served,
)

Knobs = dict[str, Any]


def expected_of(**knobs: Any) -> ExpectedStage:
    """Build what is expected of the stages."""
    if "users" in knobs:
        return users(knobs.pop("users"), **knobs)
    if "sessions" in knobs:
        load = SessionsLoad(sessions=knobs.pop("sessions"))
        return replace(open_loop_load(None, None, **knobs), load=load)
    if "batches" in knobs:
        return batches(knobs.pop("batches"), **knobs)
    if knobs.pop("trace", False):
        return trace(**knobs)
    rate = None if knobs.pop("at_once", False) else knobs.pop("rate", 4.0)
    return open_loop_load(rate, knobs.pop("cap", None), **knobs)


def stage_of(
    expected: ExpectedStage,
    ids: Knobs,
    *,
    simulated: Knobs | None = None,
    samples: Sequence[Knobs] = (),
    expected_samples: float | None = None,
    **of_record: Any,
) -> StageFacts:
    """Build a stage with its samples; `ids` are fields of its record."""
    if simulated is not None:
        facts = _simulated(expected, **simulated)
        return replace(facts, record=facts.record.model_copy(update=ids))
    measured = _record(ids | {"load": expected.load}, **of_record)
    every = [each for group in samples for each in _samples(**group)]
    windows = [
        Window(
            role,
            tuple(own := [each for each in every if each.role == role]),
            tuple(each for each in measured.servers if each.role == role),
            len(own) if expected_samples is None else expected_samples,
        )
        for role in dict.fromkeys(each.role for each in every)
    ]
    return StageFacts(measured, expected, windows=tuple(windows))


def _simulated(
    expected: ExpectedStage, *, server: Knobs, **knobs: Any
) -> StageFacts:
    """Build a stage of the simulated server in `queues`."""
    load = expected.load
    if load.closed_loop:
        return closed_loop(Server(**server), concurrency=load.cap or 0, **knobs)
    return open_loop(Server(**server), rate=load.rate or 0.0, **knobs)


def _record(
    changes: dict[str, Any],
    *,
    requests: Knobs | None = None,
    servers: Sequence[Knobs] = ({},),
    gaps_ms: Mapping[float, int] | None = None,
    seconds: float | None = None,
    round_trip_ms: float | None = None,
    **others: Any,
) -> StageRecord:
    columns = _requests(**(requests or {}))
    shared: Knobs = {"share": 1 / max(1, len(servers))}
    made = [_server(columns, **(shared | each)) for each in servers]
    changes |= {"requests": columns, "servers": tuple(made)}
    if gaps_ms is not None:
        lengths = tuple(round(1000 * ms) for ms in gaps_ms)
        changes["gaps"] = GapCounts(us=lengths, count=tuple(gaps_ms.values()))
    if seconds is not None:
        changes["scalars"] = {"duration": seconds}
        changes["last_receive_unix_us"] = 1_000_000_000 + round(1e6 * seconds)
    if round_trip_ms is not None:
        us = round(1000 * round_trip_ms)
        changes["round_trips"] = RoundTrips(count=20, median_us=us, p95_us=us)
    if "answers" in others:
        others["answers"] = AnswerCheck(**others["answers"])
    if "client" in others:
        others["client"] = client(**others["client"])
    return record(changes.pop("stage_id"), **changes, **others)


def _requests(
    *,
    count: int = 2,
    apart_ms: float = 1.0,
    together: int = 1,
    offset_ms: Any = 0,
    **columns: Any,
) -> RequestColumns:
    """Build requests that are due so far apart, or so many together each time.

    Each of them is due later by its offset.
    """
    offsets = _column(offset_ms, count)
    due = [1000 * (apart_ms * (i // together) + offsets[i]) for i in range(count)]
    defaults = {
        "ttft_ms": [20, 30],
        "e2el_ms": [120, 130],
        "output_tokens": 11,
        "queue_ms": 0,
    }
    values = {
        name.replace("_ms", "_us"): [
            round(each * (1000 if name.endswith("_ms") else 1))
            for each in _column(value, count)
        ]
        for name, value in (defaults | columns).items()
    }
    late = values["queue_us"]
    sent = [round(at + wait) for at, wait in zip(due, late, strict=True)]
    return requests(start_us=sent, **values)


def _column(value: Any, count: int) -> list[Any]:
    if isinstance(value, str):
        runs = [run.partition("*") for run in value.split()]
        listed = [
            float(number)
            for number, _, times in runs
            for _ in range(int(times or 1))
        ]
        return [*listed, *[listed[-1]] * (count - len(listed))][:count]
    if isinstance(value, list):
        return list(islice(cycle(value), count))
    if isinstance(value, dict):
        return [value.get("from", 0.0) + value["each"] * i for i in range(count)]
    return [value] * count


def _server(
    columns: RequestColumns,
    *,
    share: float,
    address: str = "10.0.0.9:8000",
    role: str = "server",
    ttft_ms: float | None = None,
    cores: float | None = 0.0,
    counts: Mapping[str, float] | None = None,
    before: Mapping[str, float] | None = None,
    after: Mapping[str, float] | None = None,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
    unread: Sequence[str] = (),
    **identity: Any,
) -> ServerEdge:
    """Build a server that has answered this share of the requests, and counted besides.

    It measured this TTFT, or the client's, and used this many cores of those ten seconds (None: not
    told). It has `only` these counters, or all `without` some, and is `unread` before or after the
    stage.
    """
    is_proxy = role == "proxy"
    own = (
        {} if is_proxy else {name: share * n for name, n in served(columns).items()}
    )
    if ttft_ms is not None:
        own[TTFT_SUM] = share * sum(columns.ok) * ttft_ms / 1000
    rises = own | {PROCESS_CPU: 10 * (cores or 0.0)} | dict(counts or {})
    start = (dict.fromkeys(PROXY_COUNTERS, 0.0) if is_proxy else ZERO) | dict(
        before or {}
    )
    end = {name: value + rises.get(name, 0.0) for name, value in start.items()}
    hidden = {*without, *([] if cores is not None else [PROCESS_CPU])}

    def told(side: str, counters: Mapping[str, float]) -> dict[str, float] | None:
        names = [
            n for n in counters if (only is None or n in only) and n not in hidden
        ]
        return None if side in unread else {name: counters[name] for name in names}

    if identity.get("served") is not None:
        identity["served"] = ServedModel(**identity["served"])
    return ServerEdge(
        address=address,
        role=role,
        before=told("before", start),
        after=told("after", end | dict(after or {})),
        **({"served": SERVED} | identity),
    )


def _samples(
    *, count: int = 1, at: float = 0.2, every: float = 1.0, **figures: Any
) -> Iterator[Sample]:
    """Build samples of one pod, the first of them so many seconds after the stage began."""
    names = {each: figures.pop(each) for each in ("role", "pod") if each in figures}
    columns = {name: _column(value, count) for name, value in figures.items()}
    for i in range(count):
        values = {name: column[i] for name, column in columns.items()}
        yield sample(1000.0 + at + every * i, **names, **values)
