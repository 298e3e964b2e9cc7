"""How a model is spread over GPUs, in InferenceX's words.

A server on one node has `tp`, `pp` and `ep`. One of several nodes, or of two roles, has these of every worker, under `prefill_`
and `decode_`; `is_multinode` marks such rows, wherever their workers run. Without roles all workers are of prefill. `tp` is over how
many GPUs attention is spread, with `dp_attention` in copies instead of slices.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchrun.api.disaggregated import Disaggregated
from benchrun.api.names import ROLE_DECODE, ROLE_PREFILL
from benchrun.api.server import Server
from benchrun.judge.per_gpu import gpus_of
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.files import Json
from benchrun.report.export.server_flags import Flags, flags_of, parallelism_of


@dataclass(frozen=True, slots=True)
class Shares:
    """GPUs that a throughput is divided by; None: not known."""

    every: int | None
    prompts: int | None
    answers: int | None


def topology(run: ExportedRun) -> Json:
    """Of an endpoint nothing is known."""
    server = run.spec.server
    if server is not None and server.disaggregated is not None:
        return _of_roles(run, server, server.disaggregated)
    if server is not None and server.nodes_per_replica > 1:
        return _of_nodes(run, server)
    spread = _spread(flags_of(run)) if run.spec.started is not None else {}
    return {"disagg": False, "is_multinode": False, **spread}


def shares(run: ExportedRun) -> Shares:
    """Prompts are the work of those that prefill, answers of those that decode; of servers without roles, both of all."""
    if run.spec.started is None:
        return Shares(None, None, None)
    if run.spec.server is None or run.spec.server.disaggregated is None:
        return Shares(*[run.gpus or None] * 3)
    prefill, decode = _gpus(run, ROLE_PREFILL), _gpus(run, ROLE_DECODE)
    return Shares(prefill + decode if prefill and decode else None, prefill, decode)


def _of_roles(run: ExportedRun, server: Server, split: Disaggregated) -> Json:
    return {
        "disagg": True,
        "is_multinode": True,
        "kv_p2p_transfer": _transfer(flags_of(run), split),
        **_workers(run, server, ROLE_PREFILL),
        **_workers(run, server, ROLE_DECODE),
    }


def _of_nodes(run: ExportedRun, server: Server) -> Json:
    """No worker of its own decodes."""
    none = {"tp": 0, "pp": 1, "ep": 0, "dp_attention": "false", "num_workers": 0}
    return {
        "disagg": False,
        "is_multinode": True,
        **_named(ROLE_PREFILL, _spread(flags_of(run)) | {"num_workers": server.replicas}, run.gpus or None),
        **_named(ROLE_DECODE, none, 0),
    }


def _workers(run: ExportedRun, server: Server, role: str) -> Json:
    workers = _spread(flags_of(run, role)) | {"num_workers": server.replicas_of(role)}
    return _named(role, workers, _gpus(run, role))


def _named(role: str, workers: Json, gpus: int | None) -> Json:
    return {**{f"{role}_{name}": value for name, value in workers.items()}, f"num_{role}_gpu": gpus}


def _spread(flags: Flags) -> Json:
    found = parallelism_of(flags)
    return {
        "tp": found.tensor * found.data,
        "pp": found.pipeline,
        "ep": found.expert,
        "dp_attention": str(found.data > 1).lower(),
    }


def _gpus(run: ExportedRun, role: str) -> int | None:
    return gpus_of([server for server in run.status.servers if server.role == role]) or None


def _transfer(flags: Flags, split: Disaggregated) -> str:
    """`nixl` of NixlConnector: the one that vLLM was told, in whatever way."""
    try:
        said = json.loads(flags.get("--kv-transfer-config") or "{}")
    except ValueError:
        said = {}
    told = said.get("kv_connector") if isinstance(said, dict) else None
    name = told if isinstance(told, str) else split.kv_transfer.connector
    return name.removesuffix("Connector").lower()
