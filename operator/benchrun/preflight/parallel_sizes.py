"""Whether a server's parallel processes fill its nodes and GPUs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchrun.api import BenchmarkRunSpec, Resources, is_script
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_SERVER
from benchrun.plan import gpus_of
from benchrun.preflight.remark import Remark, error, not_checked, warning
from benchrun.sizing import ServeArgs

_SIZES = {
    "tensor-parallel-size": "tensor",
    "pipeline-parallel-size": "pipeline",
    "prefill-context-parallel-size": "prefill context",
    "data-parallel-size": "data",
}
_ELSEWHERE = (
    "data-parallel-external-lb",
    "data-parallel-hybrid-lb",
    "data-parallel-rank",
    "data-parallel-start-rank",
    "data-parallel-multi-port-external-lb",
)
"""Flags by which a server is only a part of a larger server."""
_VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "VLLM_DP_SIZE",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Servers that have the same arguments and resources."""

    role: str
    path: str  # Path of the fields that belong to this shape only.
    words: tuple[str, ...]
    resources: Resources
    nodes: int = 1


def shapes(spec: BenchmarkRunSpec) -> tuple[Shape, ...]:
    """Return one shape for each role whose arguments are known.

    Returns none for an endpoint, or if a script starts the servers.
    """
    started = spec.started
    if started is None:
        return ()
    if (server := spec.server) is None:
        return (
            Shape(ROLE_SERVER, "spec.server", (*started.args,), started.resources),
        )
    if is_script(server.command):
        return ()
    if (split := server.disaggregated) is None:
        words = (*server.command, *server.args)
        nodes = server.nodes_per_replica
        return (Shape(ROLE_SERVER, "spec.server", words, server.resources, nodes),)
    return tuple(
        Shape(
            role,
            f"spec.server.disaggregated.{role}",
            (*server.command, *server.args_of(role)),
            split.of_role(role).resources,
        )
        for role in (ROLE_PREFILL, ROLE_DECODE)
    )


def gpu_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return remarks on whether each role's processes fill its GPUs. Raises UnreadableValue."""
    env = (
        ()
        if spec.started is None
        else tuple(each.name for each in spec.started.env)
    )
    found: list[Remark] = []
    for shape in shapes(spec):
        found += _of_shape(shape, ServeArgs.of(shape.words, spec.engine), env)
    return found


def _of_shape(
    shape: Shape, args: ServeArgs, env: tuple[str, ...]
) -> Iterator[Remark]:
    path = f"{shape.path}.args"
    if (unknown := _unknown(args, env)) is not None:
        yield not_checked(
            path,
            f"it is not known whether the parallel processes fill the GPUs: {unknown}",
        )
        return
    local = args.whole("data-parallel-size-local") if shape.nodes == 1 else None
    sizes = {name: args.whole(name) or 1 for name in _SIZES}
    if local is not None and local > sizes["data-parallel-size"]:
        yield error(
            path,
            f"--data-parallel-size-local={local} is more than --data-parallel-size="
            f"{sizes['data-parallel-size']}: vLLM will not start",
        )
        return
    if local is not None:
        sizes["data-parallel-size"] = local
    processes = math.prod(sizes.values())
    product = " x ".join(
        f"{_SIZES[name]} {size}" for name, size in sizes.items() if size > 1
    )
    each, rest = divmod(processes, shape.nodes)
    if rest:
        text = f"{processes} parallel processes ({product}) do not divide evenly by {shape.nodes}"
        remedy = "set --tensor-parallel-size and --pipeline-parallel-size"
        yield error(path, f"vLLM will not start: {text} nodes; {remedy}")
        return
    yield from _of_pod(shape, path, each, product)


def _of_pod(
    shape: Shape, path: str, processes: int, product: str
) -> Iterator[Remark]:
    """Yield a remark unless a pod has exactly one GPU for each of its processes."""
    gpus = gpus_of(shape.resources)
    held = f"{gpus} GPU{'' if gpus == 1 else 's'}"
    where = f"{shape.path.removeprefix('spec.')}.resources"
    which = f" on each of {shape.nodes} nodes" if shape.nodes > 1 else ""
    if gpus == 0 and processes > 1:
        yield not_checked(
            path,
            f"it is not known whether the pod has a GPU for each of {processes} "
            f"processes: {where} has no GPUs",
        )
    elif gpus and processes > gpus:
        remedy = f"set nvidia.com/gpu: {processes} there, or smaller sizes"
        yield error(
            path,
            f"{processes} parallel processes ({product}){which}, but {held} in {where}: vLLM "
            f"will not start; {remedy}",
        )
    elif gpus and processes < gpus:
        used = f"{held} in {where}{which}, of which vLLM uses {processes}"
        remedy = "raise --tensor-parallel-size or --data-parallel-size, or request fewer GPUs"
        yield warning(path, f"{used}; the others are idle: {remedy}")


def _unknown(args: ServeArgs, env: tuple[str, ...]) -> str | None:
    """Return why the sizes do not give the number of a pod's processes; None if they do."""
    for flag in ("distributed-executor-backend", "data-parallel-backend"):
        if (args.text(flag) or "mp") not in ("mp", "uni"):
            return f"--{flag}={args.text(flag)} decides where they run"
    part = next((each for each in _ELSEWHERE if args.is_given(each)), None)
    if part is not None:
        return f"--{part} makes it a part of a larger server"
    name = next((each for each in _VISIBLE if each in env), None)
    return None if name is None else f"the variable {name} decides"
