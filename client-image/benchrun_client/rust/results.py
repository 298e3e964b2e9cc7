"""From the Rust client's result to the outcome of a load, in order of sending. Pure.

It lists requests in the order of the prompts. Its tasks, on several threads, send in nearly that order, but not quite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchrun_client.engine import Instants, Load, Outcome
from benchrun_client.failures import RunFailure
from benchrun_client.rust.child import Reading
from benchrun_client.self_watch import Toll
from benchrun_client.tokenizer import Api

_COLUMNS = ("start_times", "ttfts", "itls", "output_lens", "errors")


def outcome_of(told: Mapping[str, Any], load: Load, *, began: float) -> Outcome:
    """`began`: the zero of its instants (`time.perf_counter`).

    Raises:
        RunFailure: `ClientError`, if it tells of another number of requests.
    """
    count = len(load.samples)
    if any(len(told.get(name, ())) != count for name in _COLUMNS):
        raise RunFailure("ClientError", f"vllm-rs tells of another number of requests than the {count} it was given")
    starts = told["start_times"]
    order = sorted(range(count), key=starts.__getitem__)
    columns: dict[str, list[Any]] = {name: [told[name][i] for i in order] for name in _COLUMNS}
    samples = [load.samples[i] for i in order]
    ok = [not error for error in columns["errors"]]
    sent = [began + start for start in columns["start_times"]]
    took = [ttft + sum(gaps) for ttft, gaps in zip(columns["ttfts"], columns["itls"], strict=True)]
    instants = Instants(
        sent=sent,
        answered=[at + seconds for at, seconds in zip(sent, took, strict=True)],
        ok=ok,
        ended=_ended(columns, [sample.output_tokens for sample in samples], ok, api=load.api),
    )
    input_lens = [sample.input_tokens for sample in samples]
    result = {
        **{name: value for name, value in told.items() if not isinstance(value, list)},
        **_input_figures(told, sum(tokens for tokens, fine in zip(input_lens, ok, strict=True) if fine)),
        **columns,
        "input_lens": input_lens,
        "asked_lens": [sample.output_tokens for sample in samples],
    }
    return Outcome(result, instants)


def _ended(columns: Mapping[str, Sequence[Any]], asked: Sequence[int], ok: Sequence[bool], *, api: Api) -> list[bool]:
    """Whether each answer came to its end: its length is not the number of its chunks, so that the server must have told it, or
    it is as long as asked. An answer with neither may have broken off or may be a short one: then nothing is known, for all.

    A chat begins with a chunk that holds no token: as many chunks as tokens asked for may be one token less.
    """
    rows = zip(columns["output_lens"], columns["itls"], asked, ok, strict=True)
    known = all(
        tokens != 1 + len(gaps) or (tokens == wanted and api == "Completions")
        for tokens, gaps, wanted, fine in rows
        if fine
    )
    return list(ok) if known else []


def _input_figures(told: Mapping[str, Any], input_tokens: int) -> dict[str, float | int]:
    """Its figures that hold prompt tokens, by our count: it has none of its own."""
    seconds = told.get("duration") or 0
    if not seconds:
        return {"total_input_tokens": input_tokens}
    return {
        "total_input_tokens": input_tokens,
        "input_throughput": input_tokens / seconds,
        "total_token_throughput": (input_tokens + told.get("total_output_tokens", 0)) / seconds,
    }


def toll_of(readings: Sequence[Reading], *, first: float, last: float, threads: int) -> Toll:
    """What the process used from the first send to the last answer; its readings are as fine as the answer. Without any, since it
    ended at once, it is nothing in no time, of which the judge makes nothing either."""
    if not readings:
        return Toll(cpu_seconds=0.0, wall_seconds=0.0, throttled_periods=None, lags=[], processes=threads)
    before = max((r for r in readings if r.at <= first), key=lambda r: r.at, default=readings[0])
    after = min((r for r in readings if r.at >= last), key=lambda r: r.at, default=readings[-1])
    throttled = None
    if before.throttled_periods is not None and after.throttled_periods is not None:
        throttled = after.throttled_periods - before.throttled_periods
    return Toll(
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        wall_seconds=max(after.at - before.at, 0.0),
        throttled_periods=throttled,
        lags=[],
        processes=threads,
    )
