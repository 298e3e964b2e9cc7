"""Checks of the manifests of runs and sweeps before they are applied, in one report."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from benchrun_client.engines import ENGINES, EngineSetting

from benchrun import sizing
from benchrun.api import BenchmarkRunSpec, EnvVar, swept_metrics
from benchrun.api.crd import RUN, SWEEP
from benchrun.api.sweep import KIND as SWEEP_KIND, BenchmarkSweepSpec
from benchrun.measure import SERVERS, power_sentence
from benchrun.names import GROUP, KIND, ROLE_DECODE, ROLE_PREFILL
from benchrun.plan import (
    Variant,
    answering_args,
    cpu_limits,
    gpus_of,
    load_points,
    planned_variants,
)
from benchrun.preflight.adapters import adapter_remarks
from benchrun.preflight.embeddings import embedding_remarks
from benchrun.preflight.kv_cache import (
    ARGS,
    cache_remarks,
    concurrency_remarks,
    pool_remarks,
)
from benchrun.preflight.parallel_sizes import Shape, gpu_remarks, shapes
from benchrun.preflight.remark import Remark, error, not_checked, note, warning
from benchrun.preflight.request_volume import (
    Volume,
    length_remarks,
    sample_remarks,
    volume_of,
    volume_remarks,
)
from benchrun.preflight.schema import Object, spec_of
from benchrun.preflight.server_flags import (
    command_remarks,
    endpoint_remarks,
    entry_point_remarks,
    flag_remarks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts that the user gives besides the manifest, by options of `benchrun check`."""

    shape: sizing.ModelShape | None = None
    gpu_bytes: int | None = None
    weights_bytes: int | None = None
    overhead_bytes: int = 0
    vllm_version: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """An object of a manifest, with the remarks about this object."""

    remarks: tuple[Remark, ...]
    volume: Volume | None = None  # None if the spec is not valid.
    kind: str = ""
    name: str = ""

    @property
    def has_errors(self) -> bool:
        """Return whether the object has an error and so can't run."""
        return any(remark.level == "Error" for remark in self.remarks)


# Making a schema takes longer than all other work.
_cached_schema = cache(lambda make: make())


def check_run(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkRun."""
    spec, remarks = spec_of(body, BenchmarkRunSpec, _cached_schema(RUN.root_schema))
    if spec is None:
        return Checked(tuple(remarks))
    volume = volume_of(spec)
    return Checked((*remarks, *spec_remarks(spec, volume, known)), volume)


def spec_remarks(
    spec: BenchmarkRunSpec, volume: Volume, known: Known
) -> list[Remark]:
    """Return all remarks about a valid spec."""
    # Arguments are read in the same way from either field (server, offline).
    server = [
        replace(
            r, path=r.path.replace("spec.server", f"spec.{spec.started_name}", 1)
        )
        for r in _server(spec, known)
    ]
    throttled = [note(path, THROTTLED) for path in cpu_limits(spec).values()]
    return [
        *server,
        *throttled,
        *adapter_remarks(spec),
        *sample_remarks(spec),
        *volume_remarks(spec, volume),
    ]


def _server(spec: BenchmarkRunSpec, known: Known) -> list[Remark]:
    """Return remarks on what depends on the server's arguments: flags, lengths, KV cache."""
    if (server := spec.started) is None:
        words = (
            "the flags, longest sequence and KV cache of the endpoint's server are not "
            "known, because benchrun does not start it"
        )
        return [not_checked("spec.endpoint", words), *endpoint_remarks(spec)]
    remarks = _flags(spec, known)
    args = sizing.ServeArgs.of(answering_args(spec), spec.engine)
    shape = known.shape
    try:
        if spec.engine_name != sizing.SIZED:
            return [*remarks, *_of_another_engine(spec, args, shape)]
        longest = sizing.max_model_tokens(args)
        remarks += gpu_remarks(spec)
        remarks += _demands(spec, shape)
        remarks += _lengths(spec, longest, args, shape)
        remarks += _context(args, server.env, shape)
        remarks += concurrency_remarks(spec, args)
        embedding = embedding_remarks(spec, args)
        remarks += embedding or _cache(spec, known)
    except sizing.UnreadableValue as problem:
        remarks.append(error(ARGS, str(problem)))
    return remarks


def _of_another_engine(
    spec: BenchmarkRunSpec, args: sizing.ServeArgs, shape: sizing.ModelShape | None
) -> list[Remark]:
    """Return remarks for a server whose engine's cache and demands are not known.

    Raises UnreadableValue.
    """
    known_of = ENGINES[sizing.SIZED].name
    unknown = (
        f"the KV cache and parallel sizes of {spec.engine.name} can't be computed, only "
        f"those of {known_of}"
    )
    return [
        not_checked(ARGS, unknown),
        *_lengths(spec, args.whole(EngineSetting.MAX_TOKENS), args, shape),
        *concurrency_remarks(spec, args),
    ]


def _lengths(
    spec: BenchmarkRunSpec,
    longest: int | None,
    args: sizing.ServeArgs,
    shape: sizing.ModelShape | None,
) -> list[Remark]:
    flag = f"--{args.flag(EngineSetting.MAX_TOKENS)}"
    changed = sizing.model_changed_by(args)
    known = shape if changed is None else None
    max_tokens = longest or (known.default_tokens if known is not None else None)
    source = flag if longest is not None else "config.json"
    if max_tokens is None:
        source = f"set {flag}, or run benchrun check with --model"
        if changed is not None:
            source = f"--{changed} changes the model: set {flag}"
    return length_remarks(spec, max_tokens=max_tokens, source=source)


def _flags(spec: BenchmarkRunSpec, known: Known) -> list[Remark]:
    """Return remarks on each word of the command and the arguments, including each role's."""
    server = spec.started
    assert server is not None, "an endpoint has no flags"
    version = known.vllm_version
    image = server.image
    command = spec.server.command if spec.server is not None else []
    remarks = (
        entry_point_remarks(image, command, spec.engine, version=version)
        if spec.server
        else []
    )
    remarks += command_remarks(command, spec.engine, image=image, version=version)
    remarks += flag_remarks(
        server.args, spec.engine, image=image, version=version, path=ARGS
    )
    if spec.server is not None and (split := spec.server.disaggregated) is not None:
        for role in (ROLE_PREFILL, ROLE_DECODE):
            path = f"spec.server.disaggregated.{role}.args"
            given = split.of_role(role).args
            remarks += flag_remarks(
                given, spec.engine, image=image, version=version, path=path
            )
    return remarks


def _demands(
    spec: BenchmarkRunSpec, shape: sizing.ModelShape | None
) -> list[Remark]:
    """Return an error for each role whose model and flags vLLM refuses together.

    Without a model, parallel sizes are reported as not checked. Raises UnreadableValue.
    """
    what = (
        "it is not known whether the model's heads, layers and experts allow these "
        "parallel sizes"
    )
    remarks: list[Remark] = []
    for each in shapes(spec):
        args = sizing.ServeArgs.of(each.words, spec.engine)
        path = f"{each.path}.args"
        has_gpus = gpus_of(each.resources) > 0
        found = (
            sizing.refusals_of_flags(args)
            if shape is None
            else sizing.refusals(shape, args, has_gpus=has_gpus)
        )
        remarks += [error(path, f"vLLM will not start: {text}") for text in found]
        remarks += [
            not_checked(path, f"it is not known {text}")
            for text in _of_weights(shape, args, has_gpus=has_gpus)
        ]
        changed = sizing.model_changed_by(args)
        if sizing.is_parallel(args) and (shape is None or changed is not None):
            why = (
                f"--{changed} changes the model"
                if changed
                else "run benchrun check with --model"
            )
            remarks.append(not_checked(path, f"{what}: {why}"))
    return remarks


def _of_weights(
    shape: sizing.ModelShape | None, args: sizing.ServeArgs, *, has_gpus: bool
) -> Iterator[str]:
    """Yield what is not known of the weights' format. Raises UnreadableValue."""
    given = args.text("quantization")
    changed = sizing.model_changed_by(args)
    if shape is not None and changed is None:
        yield from sizing.unknown_of_weights(shape, args, has_gpus=has_gpus)
    elif given is not None:
        why = (
            "run benchrun check with --model"
            if changed is None
            else f"--{changed} changes the model"
        )
        yield f"whether --quantization={given} fits the checkpoint's weights: {why}"


def _context(
    args: sizing.ServeArgs, env: Sequence[EnvVar], shape: sizing.ModelShape | None
) -> list[Remark]:
    """Return remarks on a --max-model-len beyond the model's own limit. Raises UnreadableValue."""
    is_allowed = any(each.name == sizing.ALLOW_LONGER for each in env)
    if shape is None:
        return []
    beyond = sizing.beyond_context(args, shape, is_allowed=is_allowed)
    if beyond is None:
        return []
    is_meant, text = beyond
    return [note(ARGS, text) if is_meant else error(ARGS, text)]


def _cache(spec: BenchmarkRunSpec, known: Known) -> list[Remark]:
    """Return remarks on each role's cache, and on the load of the servers that write answers."""
    wanted = {
        "--model": known.shape,
        "--gpu-memory": known.gpu_bytes,
        "--weights": known.weights_bytes,
    }
    missing = ", ".join(name for name, value in wanted.items() if value is None)
    unknown = f"run benchrun check with {missing}"
    env = () if spec.started is None else [each.name for each in spec.started.env]
    if "VLLM_MLA_DISABLE" in env:
        return cache_remarks(
            spec, None, unknown="the variable VLLM_MLA_DISABLE changes the cache"
        )
    found: list[Remark] = []
    if not (roles := shapes(spec)):
        return cache_remarks(
            spec, None, unknown="benchrun does not read what a script gives to vLLM"
        )
    for each in roles:
        remarks = _of_role(spec, known, each, unknown)
        own = f"{each.path}.args"
        found += [replace(r, path=own) if r.path == ARGS else r for r in remarks]
    return found


def _of_role(
    spec: BenchmarkRunSpec, known: Known, role: Shape, unknown: str
) -> list[Remark]:
    shape = known.shape
    args = sizing.ServeArgs.of(role.words, spec.engine)
    if shape is None:
        return cache_remarks(spec, None, unknown=unknown)
    has_gpus = gpus_of(role.resources) > 0
    if sizing.refusals(shape, args, has_gpus=has_gpus):
        return []
    try:
        sized, why = _sizing_of(args, known, shape)
    except sizing.UnknownCacheType as problem:
        return [not_checked(ARGS, f"the KV cache can't be computed: {problem}")]
    if role.role == ROLE_PREFILL:
        return pool_remarks(sized, sized.fit) if sized.fit is not None else []
    return cache_remarks(spec, sized, unknown=why or unknown)


def _sizing_of(
    args: sizing.ServeArgs, known: Known, shape: sizing.ModelShape
) -> tuple[sizing.Sizing, str | None]:
    """Return the sizing of the cache, and why its memory does not follow from the weights.

    The reason is None if it does follow, or if the GPU's memory or the weights are not given.
    """
    engine = sizing.engine_of(args, shape, gpu_bytes=known.gpu_bytes)
    memory = sizing.memory_of(
        engine,
        known.gpu_bytes,
        weights=known.weights_bytes,
        overhead=known.overhead_bytes,
    )
    why = sizing.unknown_weights(shape, args) if memory is not None else None
    if why is None:
        return sizing.sizing_of(shape, engine, memory=memory), None
    text = f"the size of the weights on a GPU is unknown: {why}; {_SAY_MEMORY}"
    return sizing.sizing_of(shape, engine), text


_SAY_MEMORY = "give the memory for the KV cache with --kv-cache-memory-bytes"


THROTTLED = (
    "at this limit the kernel stops the server for up to 100 ms at a time: remove the limit, set "
    "only requests.cpu"
)
MAX_NAMED = 3  # Most variants that a sentence names; it only counts the others.
_ARGUMENT = re.compile(r"spec\.(?:server|offline)\.args\[(\d+)\]")


def check_sweep(body: Object, known: Known) -> Checked:
    """Check one object of kind BenchmarkSweep: each variant as the run that it becomes."""
    spec, remarks = spec_of(
        body, BenchmarkSweepSpec, _cached_schema(SWEEP.root_schema)
    )
    if spec is None:
        return Checked(tuple(remarks))
    try:
        found = planned_variants(spec)
    except ValueError as problem:
        return Checked(
            (
                *remarks,
                error("spec.matrix", str(problem).removeprefix("spec.matrix: ")),
            )
        )
    volumes = [volume_of(variant.spec) for variant in found]
    whole = _together(volumes, spec.replications)
    if spec.replications == 1:
        text = (
            "with 1, each variant is measured on a single server; 3 show how much "
            "servers differ by chance"
        )
        remarks.append(note("spec.replications", text))
    elif (
        questions := (len(found) - 1)
        * len(load_points(spec.template))
        * len(swept_metrics(spec.replications))
    ):
        remarks.append(
            note(
                "spec.replications",
                power_sentence(spec.replications, questions, unit=SERVERS),
            )
        )
    budget = spec.gpu_seconds_budget
    least = whole.gpu_seconds
    if budget is not None and least is not None and least > budget:
        text = f"{budget:,}, but measuring alone takes {least:,}: not all runs will be started"
        remarks.append(warning("spec.gpuSecondsBudget", text))
    return Checked((*remarks, *_of_variants(spec, found, volumes, known)), whole)


def _of_variants(
    spec: BenchmarkSweepSpec,
    found: Sequence[Variant],
    volumes: Sequence[Volume],
    known: Known,
) -> Iterator[Remark]:
    """Yield each remark on the variants once.

    A remark that does not concern all variants begins with the names of those that it concerns.
    """
    named: dict[Remark, list[str]] = {}
    for variant, volume in zip(found, volumes, strict=True):
        own = (
            known
            if variant.spec.model == spec.template.model
            else replace(known, shape=None, weights_bytes=None)
        )
        for remark in spec_remarks(variant.spec, volume, own):
            named.setdefault(
                replace(remark, path=_path(remark.path, spec)), []
            ).append(variant.name)
    for remark, names in named.items():
        more = (
            f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        )
        text = f"{', '.join(names[:MAX_NAMED])}{more}: {remark.text}"
        yield remark if len(names) == len(found) else replace(remark, text=text)


def _path(path: str, spec: BenchmarkSweepSpec) -> str:
    """Translate a path in a variant's spec into a path in the spec of its sweep.

    An argument that a variant adds stands in the matrix, everything else in the template.
    """
    argument = _ARGUMENT.match(path)
    template = spec.template.started
    if (
        argument is not None
        and template is not None
        and int(argument[1]) >= len(template.args)
    ):
        return "spec.matrix"
    return path.replace("spec", "spec.template", 1)


def _together(volumes: Sequence[Volume], replications: int) -> Volume:
    seconds = [
        volume.gpu_seconds for volume in volumes if volume.gpu_seconds is not None
    ]
    added = (
        "stages",
        "requests",
        "probe_stages",
        "open_stages",
        "least_seconds",
        "warmup_seconds",
    )
    return Volume(
        runs=len(volumes) * replications,
        gpus=max(volume.gpus for volume in volumes),
        gpu_seconds=replications * sum(seconds) if seconds else None,
        **{
            name: replications * sum(getattr(volume, name) for volume in volumes)
            for name in added
        },
    )


CHECKS: Mapping[str, Callable[[Object, Known], Checked]] = {
    KIND: check_run,
    SWEEP_KIND: check_sweep,
}
"""Functions that check an object of benchrun, by its kind."""


def check_object(body: Object, known: Known) -> Checked:
    """Check an object of any kind.

    A kind of another API group gets a note, an unknown kind of this group an error.
    """
    kind = str(body.get("kind") or "")
    metadata = body.get("metadata")
    name = (
        str(metadata.get("name") or metadata.get("generateName") or "")
        if isinstance(metadata, Mapping)
        else ""
    )
    if (check := CHECKS.get(kind)) is not None:
        return replace(check(body, known), kind=kind, name=name)
    if str(body.get("apiVersion") or "").startswith(f"{GROUP}/"):
        remark = error("kind", f"{kind!r}: this benchrun knows {', '.join(CHECKS)}")
    else:
        remark = note("kind", "not a benchmark; not checked")
    return Checked((remark,), kind=kind, name=name)
