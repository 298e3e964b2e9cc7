"""A load put to vLLM's engine, and the times of its requests.

The call, and how it samples, are those of vLLM's `benchmarks/throughput.py` (one call) and `benchmarks/latency.py` (one call a
batch): temperature 1, nothing cut off.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from benchrun_client.offline.messages import OfflineLoad, OfflineTimes


class NoTimesKept(Exception):
    """The engine answered and does not tell when."""


def generated(llm: Any, load: OfflineLoad) -> OfflineTimes:
    """Have the engine answer every prompt; returns when it has.

    Args:
        llm: a `vllm.LLM` that keeps statistics.

    Raises:
        NoTimesKept: by this engine no request has times of its own.
        Exception: whatever vLLM raises about a prompt.
    """
    size = load.batch_size or len(load.prompts)
    bounds = [*range(0, len(load.prompts), size), len(load.prompts)]
    begun = time.perf_counter()
    calls = [_call(llm, load, first, end, begun=begun) for first, end in pairwise(bounds)]
    took = time.perf_counter() - begun
    return OfflineTimes(
        sent=_joined([call.sent for call in calls]),
        ttft=_joined([call.ttft for call in calls]),
        e2el=_joined([call.e2el for call in calls]),
        output_tokens=tuple(tokens for call in calls for tokens in call.output_tokens),
        call_seconds=tuple(call.took_seconds for call in calls),
        took_seconds=took,
    )


def _joined(columns: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(value for column in columns for value in column)


def _call(llm: Any, load: OfflineLoad, first: int, end: int, *, begun: float) -> OfflineTimes:
    params = [_sampling(tokens, ignore_eos=load.ignore_eos) for tokens in load.output_tokens[first:end]]
    prompts = load.prompts[first:end]
    start, wall = time.perf_counter(), time.time()
    if load.api == "Chat":
        messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
        outputs = llm.chat(messages, params, use_tqdm=False)
    else:
        outputs = llm.generate(list(prompts), params, use_tqdm=False)
    took = time.perf_counter() - start
    return times_of(outputs, called_at=start - begun, wall=wall, took=took, as_batch=load.batch_size is not None)


def times_of(outputs: Sequence[Any], *, called_at: float, wall: float, took: float, as_batch: bool) -> OfflineTimes:
    """The times of one call's requests.

    Args:
        outputs: vLLM's, one a prompt, in order.
        called_at: when the call was made; seconds from the first.
        wall: the same as Unix time, by which vLLM notes arrivals.
        took: how long the call took.
        as_batch: every request began with the call and ended with it, as for whoever waits for the whole batch.

    Raises:
        NoTimesKept: vLLM tells none.
    """
    stats = [output.metrics for output in outputs]
    if any(each is None for each in stats):
        raise NoTimesKept(
            "this version of vLLM tells no times of requests without its API server (0.11 and later do), "
            "or --disable-log-stats is among the arguments"
        )
    waits = [min(max(each.arrival_time - wall, 0.0), took) for each in stats]
    first_tokens = [max(each.first_token_latency, 0.0) for each in stats]
    decodes = [max(each.last_token_ts - each.first_token_ts, 0.0) for each in stats]
    answered = [sum(len(each.token_ids) for each in output.outputs) for output in outputs]
    if as_batch:
        return OfflineTimes(
            sent=(called_at,) * len(stats),
            ttft=tuple(min(wait + ttft, took) for wait, ttft in zip(waits, first_tokens, strict=True)),
            e2el=(took,) * len(stats),
            output_tokens=tuple(answered),
            call_seconds=(took,),
            took_seconds=took,
        )
    return OfflineTimes(
        sent=tuple(called_at + wait for wait in waits),
        ttft=tuple(first_tokens),
        e2el=tuple(ttft + decode for ttft, decode in zip(first_tokens, decodes, strict=True)),
        output_tokens=tuple(answered),
        call_seconds=(took,),
        took_seconds=took,
    )


def _sampling(output_tokens: int, *, ignore_eos: bool) -> Any:
    params = importlib.import_module("vllm").SamplingParams
    return params(n=1, temperature=1.0, top_p=1.0, ignore_eos=ignore_eos, max_tokens=output_tokens)
