"""Whether a server over several nodes has something for each of them to do."""

from __future__ import annotations

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan.stages import gpus_of
from benchrun.preflight.cache_room import ARGS
from benchrun.preflight.remark import Remark, error, warning
from benchrun.sizing.serve_args import ServeArgs

OWN_FLAGS = ("nnodes", "node-rank", "master-addr", "headless")
"""What the operator tells each pod."""
_SIZES = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size", "data-parallel-size")


def node_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """About nodesPerReplica; nothing for servers of one node. Raises UnreadableValue."""
    server = spec.server
    if server is None or server.nodes_per_replica == 1:
        return []
    args = ServeArgs.of(server.args)
    taken = [f"--{flag}" for flag in OWN_FLAGS if args.is_given(flag)]
    if taken:
        return [error(ARGS, f"{', '.join(taken)}: the operator tells each pod, by nodesPerReplica; take it out")]
    processes = 1
    for size in _SIZES:
        processes *= args.whole(size, 1)
    return _shared(processes, server.nodes_per_replica, gpus_of(server.resources))


def _shared(processes: int, nodes: int, gpus: int) -> list[Remark]:
    each, rest = divmod(processes, nodes)
    if rest:
        words = f"vLLM will not start: {processes} parallel processes (the product of the parallel sizes) can't be shared evenly"
        return [error(ARGS, f"{words} by {nodes} nodes; set --tensor-parallel-size and --pipeline-parallel-size")]
    if gpus and each > gpus:
        return [error(ARGS, f"{each} parallel processes on each of {nodes} nodes, but {gpus} GPUs in server.resources")]
    if gpus and each < gpus:
        return [warning(ARGS, f"{gpus} GPUs on each of {nodes} nodes, of which vLLM uses {each}; the others are idle")]
    return []
