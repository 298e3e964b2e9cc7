"""Remarks on adapters that requests are for, where the run starts the server."""

from benchrun.api import BenchmarkRunSpec
from benchrun.plan import answering_args
from benchrun.preflight.remark import Remark, error


def adapter_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return an error for each adapter that no argument of the server loads."""
    if spec.server is None:
        return []
    loaded = spec.engine.loaded_adapters(answering_args(spec))
    return [
        error(
            f"spec.workloads[{number}].request.adapters",
            f"{adapter.name} is not loaded: add --enable-lora and --lora-modules "
            f"{adapter.name}=PATH to server.args",
        )
        for number, workload in enumerate(spec.workloads)
        for adapter in (workload.request and workload.request.adapters) or ()
        if adapter.name not in loaded
    ]
