"""Whether the KV cache has room for the load that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.workloads import Workload
from benchrun.plan.roles import answering_servers
from benchrun.preflight.lengths import longest_request
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.sizing.amounts import memory
from benchrun.sizing.fit import Fit
from benchrun.sizing.sizing import Sizing

ARGS = "spec.server.args"


def room_remarks(spec: BenchmarkRunSpec, sizing: Sizing | None, *, unknown: str) -> list[Remark]:
    """About the cache as a whole, then about each workload. `unknown` says why nothing is known of its size."""
    if sizing is None or sizing.fit is None:
        return [not_checked(ARGS, f"whether the KV cache has room for the load: {unknown}")]
    caveats = [
        not_checked(ARGS, f"the KV cache exactly: {each}") for each in (*sizing.shape.caveats, *sizing.engine.caveats)
    ]
    fit = sizing.fit
    if fit.usable_blocks == 0:
        return [*caveats, error(ARGS, _no_room(sizing))]
    remarks = [*caveats, _size(sizing, fit), *_start(sizing, fit)]
    for place, workload in enumerate(spec.workloads):
        tokens = longest_request(workload, max_tokens=sizing.engine.max_tokens)
        if tokens is not None:
            remarks += _load(
                workload,
                f"spec.workloads[{place}].load",
                tokens,
                fit,
                engines=sizing.engine.data_parallel * max(1, answering_servers(spec)),
            )
    return remarks


def seats_remarks(spec: BenchmarkRunSpec, sequences: int | None) -> list[Remark]:
    """Whether the server runs as many requests at once as are sent (--max-num-seqs)."""
    if sequences is None:
        return []
    servers = max(1, answering_servers(spec))
    seats = f"{sequences:,}" if servers == 1 else f"{sequences:,} in each of {servers} servers"
    return [
        warning(
            f"spec.workloads[{place}].load",
            f"{most:,} users at once, but --max-num-seqs lets {seats} run: the others wait, which TTFT then shows",
        )
        for place, workload in enumerate(spec.workloads)
        if (most := max(_users(workload), default=0)) > sequences * servers
    ]


def _no_room(sizing: Sizing) -> str:
    found = sizing.memory
    if found is None:
        return "the KV cache is smaller than two blocks: vLLM will not start"
    return (
        f"nothing is left for the KV cache: of {memory(found.total)} x {found.utilization:g} = {memory(found.usable)} a GPU, "
        f"weights take {memory(found.weights)} and overhead {memory(found.overhead)}; more GPUs, a smaller type, or more "
        "--gpu-memory-utilization"
    )


def _size(sizing: Sizing, fit: Fit) -> Remark:
    held = f"{sizing.tokens:,} tokens" if sizing.tokens is not None else f"{fit.blocks:,} blocks"
    size = memory(fit.blocks * sizing.pool.block_bytes)
    return note(ARGS, f"the KV cache holds about {held}: {size} a GPU, {memory(sizing.token_bytes_per_gpu)} a token")


def _start(sizing: Sizing, fit: Fit) -> list[Remark]:
    limit = sizing.engine.max_tokens
    longest = fit.longest(limit) if limit is not None else 0
    if limit is None or longest >= limit:
        return []
    return [
        error(
            ARGS,
            f"vLLM will not start: one sequence of {limit:,} tokens does not fit; the longest that does has {longest:,} "
            f"(--max-model-len={longest})",
        )
    ]


def _load(workload: Workload, path: str, tokens: int, fit: Fit, *, engines: int) -> list[Remark]:
    fits = fit.sequences(tokens) * engines
    which = ", ".join(f"{each:,}" for each in _at_once(workload) if each > fits)
    if not which:
        return []
    return [
        warning(
            path,
            f"{which} requests at once of up to {tokens:,} tokens, but {fits:,} of that length fit the KV cache: beyond "
            "that requests wait or are preempted, and latencies show that",
        )
    ]


def _at_once(workload: Workload) -> Sequence[int]:
    """How many requests may be under way; at a finite rate without a cap that depends on the server."""
    load = workload.load
    if load.max_concurrency is not None:
        return (load.max_concurrency,)
    if "inf" in (load.request_rates or ()) and workload.requests is not None:
        return (workload.requests,)
    return _users(workload)


def _users(workload: Workload) -> Sequence[int]:
    search = workload.load.search
    if search is not None and search.axis == "Concurrency":
        return (int(search.to),)
    return workload.load.concurrencies or workload.load.batch_sizes or ()
