"""Check whether the KV cache is large enough for the load."""

from collections.abc import Sequence

from benchrun_client.contract import WHOLE_ANSWERS
from benchrun_client.engines import EngineSetting

from benchrun.api import BenchmarkRunSpec, Workload
from benchrun.plan import answering_servers
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.preflight.request_volume import longest_request
from benchrun.sizing import Fit, ServeArgs, Sizing, memory

ARGS = "spec.server.args"


def cache_remarks(
    spec: BenchmarkRunSpec, sizing: Sizing | None, *, unknown: str
) -> list[Remark]:
    """Return remarks about the cache as a whole, then about each workload.

    `unknown` says why the cache's size is not known. It is used if `sizing` has no size.
    """
    if sizing is None or sizing.fit is None:
        return [
            not_checked(
                ARGS,
                f"it is not known whether the KV cache has room for the load: {unknown}",
            )
        ]
    remarks = pool_remarks(sizing, sizing.fit)
    if sizing.fit.usable_blocks == 0:
        return remarks
    return [*remarks, *_load_remarks(spec, sizing, sizing.fit)]


def pool_remarks(sizing: Sizing, fit: Fit) -> list[Remark]:
    """Return remarks on what the cache holds, with an error if it is too small to start vLLM."""
    longest = sizing.engine.max_tokens
    caveats = (*sizing.shape.caveats, *sizing.engine.caveats)
    remarks = [
        not_checked(ARGS, f"the KV cache is not known exactly: {each}")
        for each in caveats
    ]
    if fit.usable_blocks == 0:
        if (found := sizing.memory) is None:
            return [
                *remarks,
                error(
                    ARGS,
                    "the KV cache is smaller than two blocks: vLLM will not start",
                ),
            ]
        usable = f"{memory(found.total)} x {found.utilization:g} = {memory(found.usable)} a GPU"
        parts = f"weights take {memory(found.weights)} and overhead {memory(found.overhead)}"
        text = f"nothing is left for the KV cache: of {usable}, {parts}"
        remedy = "add GPUs, quantize the weights, or raise --gpu-memory-utilization"
        return [*remarks, error(ARGS, f"{text}; {remedy}")]
    held = (
        f"{sizing.tokens:,} tokens"
        if sizing.tokens is not None
        else f"{fit.blocks:,} blocks"
    )
    size = memory(fit.blocks * sizing.pool.block_bytes)
    a_token = memory(sizing.token_bytes_per_gpu)
    remarks.append(
        note(
            ARGS,
            f"the KV cache holds about {held}: {size} a GPU, {a_token} a token",
        )
    )
    if longest is not None and (most := fit.longest(longest)) < longest:
        text = (
            f"one sequence of {longest:,} tokens does not fit; the longest that does has {most:,} "
            f"(--max-model-len={most})"
        )
        remarks.append(error(ARGS, f"vLLM will not start: {text}"))
    return remarks


def _load_remarks(spec: BenchmarkRunSpec, sizing: Sizing, fit: Fit) -> list[Remark]:
    """Return a warning for each workload whose concurrent requests do not fit into the cache."""
    remarks: list[Remark] = []
    longest = sizing.engine.max_tokens
    for place, workload in enumerate(spec.workloads):
        tokens = longest_request(workload, spec.workloads, max_tokens=longest)
        if tokens is None or not workload.is_measured:
            continue
        fits = (
            fit.sequences(tokens)
            * sizing.engine.data_parallel
            * max(1, answering_servers(spec))
        )
        if which := ", ".join(
            f"{each:,}" for each in _at_once(workload) if each > fits
        ):
            text = (
                f"{which} requests are in flight at once, each of up to {tokens:,} tokens, but "
                f"only {fits:,} of that length fit into the KV cache"
            )
            waiting = (
                "the others wait or are preempted, which raises latencies; lower the load to avoid "
                "this"
            )
            remarks.append(
                warning(f"spec.workloads[{place}].load", f"{text}: {waiting}")
            )
    return remarks


def concurrency_remarks(spec: BenchmarkRunSpec, args: ServeArgs) -> list[Remark]:
    """Return a warning for each workload with more users at once than the server runs.

    Raises UnreadableValue.
    """
    sequences = args.whole(EngineSetting.MAX_RUNNING)
    if sequences is None:
        return []
    servers = max(1, answering_servers(spec))
    most_at_once = (
        f"{sequences:,}"
        if servers == 1
        else f"{sequences:,} in each of {servers} servers"
    )
    return [
        warning(
            f"spec.workloads[{place}].load",
            f"{most:,} users at once, but --{args.flag(EngineSetting.MAX_RUNNING)} lets "
            f"{most_at_once} run: the others wait, which raises "
            f"{'E2EL' if workload.api in WHOLE_ANSWERS else 'TTFT'}",
        )
        for place, workload in enumerate(spec.workloads)
        if (most := max(_users(workload), default=0)) > sequences * servers
    ]


def _at_once(workload: Workload) -> Sequence[int]:
    """Return how many requests may be in flight, for each load point whose load sets the number.

    A finite rate without a cap does not: the number depends on the server.
    """
    loads = workload.load.highest
    each = [load.most_in_flight(workload.requests_at(load)) for load in loads]
    return list(dict.fromkeys(number for number in each if number is not None))


def _users(workload: Workload) -> Sequence[int]:
    return [load.users for load in workload.load.highest if load.users is not None]
