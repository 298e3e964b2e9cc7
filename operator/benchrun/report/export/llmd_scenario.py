"""`scenario` of the llm-d benchmark report: the server and the load; and the parallelism in `vllm serve` arguments."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import RandomData

from benchrun.api import answering
from benchrun.judge.result_row import gpus_of
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_SERVER
from benchrun.report.export.encoders import Json, without_unknown
from benchrun.report.export.formats import ExportedRun, ExportedStage, server_version

_SHORT = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size"}
Flags = Mapping[str, str | None]
"""Values by flag, dashes throughout; None for a switch. The last of several holds."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Over how many GPUs, in which way. vLLM's own default is 1."""

    tensor: int
    pipeline: int
    data: int
    expert: int


def flags_of(run: ExportedRun, role: str | None = None) -> Flags:
    """Of the servers of a role, or of those that write answers; none at an endpoint, whose arguments are unknown."""
    server = answering(each for each in run.status.servers if role in (None, each.role))
    if server is not None and server.args:
        return parsed(server.args)
    # A server without roles has one set of arguments.
    return parsed(run.spec.started.args_of(role or ROLE_DECODE)) if run.spec.started is not None else {}


def parsed(args: Sequence[str]) -> Flags:
    """`--flag=value`, `--flag value` and `--switch`; words that belong to no flag are skipped."""
    flags: dict[str, str | None] = {}
    open_flag: str | None = None
    for word in args:
        if re.match(r"-(?!\.?\d)", word):
            name, equals, value = word.partition("=")
            name = _SHORT.get(name, name).replace("_", "-")
            flags[name] = value if equals else None
            open_flag = None if equals else name
        elif open_flag is not None:
            flags[open_flag], open_flag = word, None
    return flags


def parallelism_of(flags: Flags) -> Parallelism:
    """A value that is not a number counts as not given."""
    given = (flags.get(name) or "" for name in _SHORT.values())
    tensor, pipeline, data = (max(1, int(value)) if value.isdecimal() else 1 for value in given)
    return Parallelism(tensor, pipeline, data, expert=tensor * data if "--enable-expert-parallel" in flags else 1)


_COMPONENT_SCHEMA = "0.0.1"
_UNKNOWN = "unknown"  # Where the schema requires a value.


def scenario(run: ExportedRun, stage: ExportedStage) -> Json:
    """The measured servers and the load. A component's label is its role."""
    server = run.spec.server
    split = server is not None and server.disaggregated is not None
    roles = (ROLE_PREFILL, ROLE_DECODE) if split else (ROLE_SERVER,)
    return {"stack": [_server(run, stage, role) for role in roles], "load": _load(run, stage)}


def _server(run: ExportedRun, stage: ExportedStage, role: str) -> Json:
    native: Json = {}
    if (server := run.spec.started) is not None:
        variables = {each.name: each.value for each in server.env if each.value is not None}
        native = {"args": dict(flags_of(run, role)), "envars": variables, "config": {"image": server.image}}
    return {
        "metadata": {"schema_version": _COMPONENT_SCHEMA, "label": role, "cfg_id": _digest(native)},
        "standardized": _engine(run, stage, role),
        "native": native,
    }


def _engine(run: ExportedRun, stage: ExportedStage, role: str) -> Json:
    """An endpoint is `generic`: the kind `inference_engine` requires the hardware, which is unknown there."""
    model = {"name": run.spec.model.name}
    version = server_version(run, stage) or (run.spec.started.image if run.spec.started is not None else _UNKNOWN)
    if run.spec.started is None:
        return {"kind": "generic", "tool": "vllm", "tool_version": version, "model": model}
    spread = parallelism_of(flags_of(run, role))
    of_role = [server for server in run.status.servers if server.role == role]
    gpu = next((server.gpu for server in of_role if server.gpu is not None), None)
    gpus = gpus_of(of_role)
    return {
        "kind": "inference_engine",
        "tool": "vllm",
        "tool_version": version,
        "role": "replica" if role == ROLE_SERVER else role,
        "replicas": max(1, sum(edge.role == role for edge in stage.record.servers)),
        "model": model,
        "accelerator": {
            "model": gpu or (_UNKNOWN if gpus else "none"),
            "count": gpus,
            "parallelism": {"tp": spread.tensor, "pp": spread.pipeline, "dp": spread.data, "ep": spread.expert},
        },
    }


def _load(run: ExportedRun, stage: ExportedStage) -> Json:
    record = stage.record
    parts = {"workload": stage.workload, "measurement": run.spec.measurement}
    native = {
        "config": {name: part.model_dump(mode="json", by_alias=True, exclude_none=True) for name, part in parts.items()}
    }
    standardized = {
        "tool": "vllm-benchmark",
        "tool_version": record.engine.version,
        "parallelism": record.client.processes,
        "source": "random" if isinstance(stage.workload.dataset.single, RandomData) else "sampled",
        "stage": record.sequence,
        "input_seq_len": _lengths(record.requests.input_tokens),
        "output_seq_len": _lengths(record.requests.asked_tokens) if stage.workload.ignore_eos else None,
        "rate_qps": stage.request_rate,
        "concurrency": stage.max_concurrency,
    }
    return {
        "metadata": {"schema_version": _COMPONENT_SCHEMA, "cfg_id": _digest(native), "description": stage.id},
        "standardized": without_unknown(standardized),
        "native": native,
    }


def _lengths(tokens: Sequence[int]) -> Json:
    least, most = min(tokens), max(tokens)
    if least == most:
        return {"distribution": "fixed", "value": most}
    return {"distribution": "other", "value": math.fsum(tokens) / len(tokens), "min": least, "max": most}


def _digest(config: Json) -> str:
    """Equal for equal configurations: what llm-d groups reports by."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
