"""Output throughput for each GPU of a run's servers, whatever their role: what fewer or more GPUs are compared by."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.status import Result, ServerStatus
from benchrun.measure.cells import rounded

PER_GPU = "output_throughput_per_gpu"
"""Key of `results[].metrics`, there only where the servers hold a GPU that is known of."""


def gpus_of(servers: Sequence[ServerStatus]) -> int:
    """GPUs of all roles together; 0 where they are not known, as behind an endpoint, or there are none."""
    return sum(server.gpus for server in servers)


def shared_out(row: Result, gpus: int) -> Result:
    """The row with the throughput of a GPU, None where that of all is not known; as it was without GPUs."""
    return row if not gpus else row.model_copy(update={"metrics": row.metrics | {PER_GPU: _per_gpu(row, gpus)}})


def _per_gpu(row: Result, gpus: int) -> float | None:
    throughput = row.metrics.get("output_throughput")
    return None if throughput is None else rounded(throughput / gpus)
