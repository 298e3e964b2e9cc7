"""A BenchmarkRun before it is applied: everything that can be known, in one report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from benchrun.api.crd import root_schema
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.structural import Schema
from benchrun.plan.roles import answering_args
from benchrun.preflight.cache_room import ARGS, room_remarks, seats_remarks
from benchrun.preflight.lengths import length_remarks
from benchrun.preflight.nodes import node_remarks
from benchrun.preflight.remark import Remark, error, not_checked, note
from benchrun.preflight.samples import sample_remarks
from benchrun.preflight.schema import Object, object_remarks, spec_of
from benchrun.preflight.server_flags import flag_remarks
from benchrun.preflight.volume import Volume, volume_of, volume_remarks
from benchrun.sizing.cache_dtypes import UnknownCacheType
from benchrun.sizing.context import ALLOW_LONGER, beyond_context
from benchrun.sizing.engine import engine_of, max_model_tokens
from benchrun.sizing.fit import Memory
from benchrun.sizing.layers import ModelShape
from benchrun.sizing.serve_args import ServeArgs, UnreadableValue
from benchrun.sizing.sizing import Sizing, sizing_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the user tells beside the manifest."""

    shape: ModelShape | None = None
    gpu_bytes: int | None = None
    weights_bytes: int | None = None
    overhead_bytes: int = 0
    vllm_version: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What came out."""

    remarks: tuple[Remark, ...]
    volume: Volume | None
    """None where the spec is not valid."""

    @property
    def has_errors(self) -> bool:
        """Whether it can't run as it is."""
        return any(remark.level == "Error" for remark in self.remarks)


@cache
def schema_of_all() -> Schema:
    """The schema of a BenchmarkRun; it takes longer to make than all the rest."""
    return root_schema()


def check_run(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkRun."""
    outside = object_remarks(body, schema_of_all())
    spec, problems = spec_of(body, BenchmarkRunSpec)
    if spec is None:
        return Checked((*outside, *problems), None)
    volume = volume_of(spec)
    return Checked((*outside, *spec_remarks(spec, volume, known)), volume)


def spec_remarks(spec: BenchmarkRunSpec, volume: Volume, known: Known) -> list[Remark]:
    """About a valid spec."""
    return [*_at_its_field(spec, _server(spec, known)), *sample_remarks(spec), *volume_remarks(spec, volume)]


def _at_its_field(spec: BenchmarkRunSpec, remarks: list[Remark]) -> list[Remark]:
    """Arguments are read alike, by whichever field they were given."""
    return [replace(remark, path=remark.path.replace("spec.server", spec.started_field, 1)) for remark in remarks]


def _server(spec: BenchmarkRunSpec, known: Known) -> list[Remark]:
    """Flags, lengths and the KV cache: all that hangs on the server's arguments."""
    server = spec.started
    if server is None:
        words = "an endpoint's server is not started here: its flags, its longest sequence and its KV cache"
        return [not_checked("spec.endpoint", words)]
    remarks = flag_remarks(server.args, image=server.image, version=known.vllm_version, path=ARGS)
    args = ServeArgs.of(answering_args(spec))
    try:
        sizing = _sizing(args, known)
        longest = max_model_tokens(args)
        sequences = args.whole_if_given("max-num-seqs")
        remarks += node_remarks(spec)
    except UnreadableValue as problem:
        return [*remarks, error(ARGS, str(problem))]
    except UnknownCacheType as problem:
        return [*remarks, not_checked(ARGS, f"the KV cache: {problem}")]
    told_by = "--max-model-len" if longest is not None else "config.json"
    max_tokens = longest or (known.shape.context_tokens if known.shape is not None else None)
    for place, workload in enumerate(spec.workloads):
        told = told_by if max_tokens is not None else "no --max-model-len among the arguments, and no --model here"
        remarks += length_remarks(workload, f"spec.workloads[{place}]", max_tokens=max_tokens, told_by=told)
    return [
        *remarks,
        *_too_long(spec, args, known.shape),
        *seats_remarks(spec, sequences),
        *room_remarks(spec, sizing, unknown=_missing(known)),
    ]


def _sizing(args: ServeArgs, known: Known) -> Sizing | None:
    if known.shape is None:
        return None
    engine = engine_of(args, known.shape, gpu_bytes=known.gpu_bytes)
    if known.gpu_bytes is None or known.weights_bytes is None:
        return sizing_of(known.shape, engine)
    memory = Memory(
        total=known.gpu_bytes,
        utilization=engine.utilization,
        weights=-(-known.weights_bytes // engine.gpus),
        overhead=known.overhead_bytes,
    )
    return sizing_of(known.shape, engine, memory=memory)


def _too_long(spec: BenchmarkRunSpec, args: ServeArgs, shape: ModelShape | None) -> list[Remark]:
    if shape is None or spec.started is None:
        return []
    found = beyond_context(args, shape, is_allowed=any(each.name == ALLOW_LONGER for each in spec.started.env))
    if found is None:
        return []
    return [note(ARGS, found.sentence) if found.is_meant else error(ARGS, found.sentence)]


def _missing(known: Known) -> str:
    wanted = {"--model": known.shape, "--gpu-memory": known.gpu_bytes, "--weights": known.weights_bytes}
    return f"tell {', '.join(name for name, value in wanted.items() if value is None)}"
