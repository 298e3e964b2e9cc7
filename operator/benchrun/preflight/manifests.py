"""Runs and sweeps before they are applied: everything that can be known, in one report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from benchrun.api import BenchmarkRunSpec
from benchrun.api.schema.crd import root_schema
from benchrun.api.schema.structural import Schema
from benchrun.api.schema.sweep_crd import sweep_schema
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.names import GROUP, KIND
from benchrun.plan.roles import answering_args
from benchrun.plan.variants import Variant, variants
from benchrun.preflight.cache_room import ARGS, node_remarks, room_remarks, seats_remarks
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.preflight.schema import Object, object_remarks, spec_of
from benchrun.preflight.server_flags import flag_remarks
from benchrun.preflight.volume import Volume, length_remarks, sample_remarks, volume_of, volume_remarks
from benchrun.sizing.engine import ALLOW_LONGER, beyond_context, engine_of, max_model_tokens
from benchrun.sizing.layers import ModelShape, UnknownCacheType
from benchrun.sizing.pool import Memory
from benchrun.sizing.serve_args import ServeArgs, UnreadableValue
from benchrun.sizing.sizing import Sizing, sizing_of

# ---- run --------------------------------------------------------------------------------------------------------------
# A BenchmarkRun before it is applied: everything that can be known, in one report.


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
def cached_run_schema() -> Schema:
    """The schema of a BenchmarkRun; it takes longer to make than all the rest."""
    return root_schema()


def check_run(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkRun."""
    outside = object_remarks(body, cached_run_schema())
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
    told = told_by if max_tokens is not None else "no --max-model-len among the arguments, and no --model here"
    remarks += length_remarks(spec, max_tokens=max_tokens, told_by=told)
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


# ---- sweep ------------------------------------------------------------------------------------------------------------
# A BenchmarkSweep before it is applied: each of its variants, checked as the run that it becomes.

MAX_NAMED = 3
"""Variants named in a sentence; of more their number is told."""
_ARGUMENT = re.compile(r"spec\.(?:server|offline)\.args\[(\d+)\]")


@cache
def cached_sweep_schema() -> Schema:
    """The schema of a BenchmarkSweep; it takes longer to make than all the rest."""
    return sweep_schema()


def check_sweep(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkSweep."""
    outside = object_remarks(body, cached_sweep_schema())
    spec, problems = spec_of(body, BenchmarkSweepSpec)
    if spec is None:
        return Checked((*outside, *problems), None)
    try:
        found = variants(spec)
    except ValueError as problem:
        return Checked((*outside, error("spec.matrix", str(problem).removeprefix("spec.matrix: "))), None)
    volumes = [volume_of(variant.spec) for variant in found]
    whole = _together(volumes, spec.replications)
    remarks = [*outside, *_replications(spec), *_budget(spec, whole), *_of_variants(spec, found, volumes, known)]
    return Checked(tuple(remarks), whole)


def _replications(spec: BenchmarkSweepSpec) -> list[Remark]:
    if spec.replications > 1:
        return []
    return [
        note(
            "spec.replications", "1: variants are compared within one server each; 3 tell what servers differ by anyway"
        )
    ]


def _budget(spec: BenchmarkSweepSpec, volume: Volume) -> list[Remark]:
    budget, least = spec.gpu_seconds_budget, volume.gpu_seconds
    if budget is None or least is None or least <= budget:
        return []
    return [
        warning(
            "spec.gpuSecondsBudget", f"{budget:,}, but measuring alone takes {least:,}: not all runs will be started"
        )
    ]


def _of_variants(
    spec: BenchmarkSweepSpec, found: Sequence[Variant], volumes: Sequence[Volume], known: Known
) -> Iterator[Remark]:
    """What is said of several variants is said once, with their names where it does not hold for all."""
    told: dict[Remark, list[str]] = {}
    for variant, volume in zip(found, volumes, strict=True):
        own = known if variant.spec.model == spec.template.model else replace(known, shape=None, weights_bytes=None)
        for remark in spec_remarks(variant.spec, volume, own):
            told.setdefault(replace(remark, path=_path(remark.path, spec)), []).append(variant.name)
    for remark, names in told.items():
        yield remark if len(names) == len(found) else replace(remark, text=f"{_named(names)}: {remark.text}")


def _path(path: str, spec: BenchmarkSweepSpec) -> str:
    """Where it is written: in the template, or, for arguments that a variant adds, in the matrix."""
    argument = _ARGUMENT.match(path)
    template = spec.template.started
    if argument is not None and template is not None and int(argument[1]) >= len(template.args):
        return "spec.matrix"
    return path.replace("spec", "spec.template", 1)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def _together(volumes: Sequence[Volume], replications: int) -> Volume:
    seconds = [volume.gpu_seconds for volume in volumes if volume.gpu_seconds is not None]
    return Volume(
        runs=len(volumes) * replications,
        stages=replications * sum(volume.stages for volume in volumes),
        requests=replications * sum(volume.requests for volume in volumes),
        probe_stages=replications * sum(volume.probe_stages for volume in volumes),
        gpus=max(volume.gpus for volume in volumes),
        open_stages=replications * sum(volume.open_stages for volume in volumes),
        least_seconds=replications * sum(volume.least_seconds for volume in volumes),
        warmup_seconds=replications * sum(volume.warmup_seconds for volume in volumes),
        gpu_seconds=replications * sum(seconds) if seconds else None,
    )


# ---- manifests --------------------------------------------------------------------------------------------------------
# The objects of a manifest, each checked by what its kind takes.

CHECKS: Mapping[str, Callable[[Object, Known], Checked]] = {KIND: check_run, SWEEP_KIND: check_sweep}
"""How an object of each of our kinds is checked. A new kind is a module and a line here."""


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """One object of the manifest."""

    kind: str
    name: str
    checked: Checked


def check_objects(bodies: Sequence[Object], known: Known) -> tuple[CheckedObject, ...]:
    """Check each object, in order."""
    return tuple(_check(body, known) for body in bodies)


def _check(body: Object, known: Known) -> CheckedObject:
    kind = str(body.get("kind") or "")
    metadata = body.get("metadata")
    name = str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""
    check = CHECKS.get(kind)
    if check is not None:
        return CheckedObject(kind, name, check(body, known))
    ours = str(body.get("apiVersion") or "").startswith(f"{GROUP}/")
    text = f"this benchrun knows {', '.join(CHECKS)}"
    return CheckedObject(
        kind, name, Checked((error("kind", f"{kind!r}: {text}") if ours else note("kind", _FOREIGN),), None)
    )


_FOREIGN = "no benchmark; not looked at"
