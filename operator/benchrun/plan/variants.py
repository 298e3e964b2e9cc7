"""Apply the matrix of a sweep to its template.

This gives the variants, the order of their runs, and the manifest of each run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from benchrun import names
from benchrun.api import (
    BenchmarkRunSpec,
    Resources,
    Started,
    first_problem,
    json_name,
)
from benchrun.api.sweep import (
    KIND as SWEEP_KIND,
    MAX_RETRIES,
    BenchmarkSweepSpec,
    VariantSettings,
    combinations,
)
from benchrun.names import API_VERSION, KIND
from benchrun.plan.child_objects import Manifest, Owner, controlled_by
from benchrun.plan.stages import block_seed, digest, gpus

_OF_A_SERVER = ("replicas", "nodes_per_replica", "disaggregated")
_OF_ONLINE = ("engine", *_OF_A_SERVER)
_OF_AN_ENGINE = ("command", "args", "env", "compile_cache_claim")
"""Fields of a server that only its engine understands."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant: the settings of one row of the matrix."""

    number: int  # Number of the variant as listed, from 1.
    name: str
    spec: BenchmarkRunSpec  # The spec of each of its runs.

    @property
    def gpus(self) -> int:
        """Return how many GPUs the variant's server requests."""
        return gpus(self.spec)


def planned_variants(sweep: BenchmarkSweepSpec) -> tuple[Variant, ...]:
    """Return all variants in the order of the matrix.

    Raise ValueError if a variant's spec is not valid, or if two axes set the same field.
    """
    return tuple(
        Variant(number, name, _compiling(sweep, name, settings))
        for number, (name, settings) in enumerate(
            combinations(sweep.matrix), start=1
        )
    )


def _compiling(
    sweep: BenchmarkSweepSpec, name: str, settings: Sequence[VariantSettings]
) -> BenchmarkRunSpec:
    """Return the spec of a variant, without a compile cache where start-up is compared.

    The first server of a variant would fill the cache, and the others would start without
    compiling.
    """
    spec = _laid_over(sweep.template, name, settings)
    if not sweep.compare_startup or spec.started is None:
        return spec
    started = spec.started.model_copy(update={"compile_cache_claim": ""})
    return spec.model_copy(update={spec.started_name: started})


def _laid_over(
    template: BenchmarkRunSpec, name: str, settings: Sequence[VariantSettings]
) -> BenchmarkRunSpec:
    # Two axes that set the same thing would make variants that are not what their name says.
    counted = Counter(what for each in settings for what in set(_set_by(each)))
    twice = next((what for what, times in counted.items() if times > 1), None)
    if twice is not None:
        raise ValueError(
            f"spec.matrix: variant {name}: two axes set {twice}; take this setting out of one axis"
        )
    spec = template
    # An engine comes first, because it leaves out what others are added to.
    for each in sorted(settings, key=lambda each: each.engine is None):
        many = next(
            (what for what in _OF_ONLINE if getattr(each, what) is not None), None
        )
        if many is not None and spec.server is None:
            what = f"variant {name}: {json_name(many)}"
            raise ValueError(
                f"spec.matrix: {what} can't be set, because offline runs one engine in one pod"
            )
        server = (
            {spec.started_name: _started(spec.started, each)}
            if spec.started is not None
            else {}
        )
        model = {"model": each.model} if each.model is not None else {}
        spec = spec.model_copy(update=server | model)
    try:
        return BenchmarkRunSpec.model_validate(spec_body(spec))
    except ValidationError as error:
        raise ValueError(
            f"spec.matrix: variant {name}: its run's {first_problem(error)}"
        ) from error


def spec_body(spec: BenchmarkRunSpec) -> dict[str, Any]:
    """Return the spec as a manifest has it: only the fields that were set."""
    return spec.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )


def _started(started: Started, settings: VariantSettings) -> Started:
    started = _of_engine(started, settings)
    update: dict[str, Any] = (
        {} if settings.image is None else {"image": settings.image}
    )
    update |= {
        what: given
        for what in _OF_A_SERVER
        if (given := getattr(settings, what)) is not None
    }
    if settings.args:
        update["args"] = [*started.args, *settings.args]
    if settings.env:
        update["env"] = list(
            {
                variable.name: variable
                for variable in (*started.env, *settings.env)
            }.values()
        )
    if settings.disaggregated is not None:
        # The template's values describe another server: the roles have their own.
        update |= {"replicas": 1, "nodes_per_replica": 1, "resources": Resources()}
    elif (own := settings.resources) is not None:
        limits = started.resources.limits | own.limits
        requests = started.resources.requests | own.requests
        update["resources"] = Resources(limits=limits, requests=requests)
    return started.model_copy(update=update)


def _of_engine(started: Started, settings: VariantSettings) -> Started:
    """Return the server with the variant's engine; fields for the template's engine are reset."""
    if settings.engine in (None, started.engine):
        return started
    fields = type(started).model_fields
    return started.model_copy(
        update={
            "engine": settings.engine,
            **{
                name: fields[name].get_default(call_default_factory=True)
                for name in _OF_AN_ENGINE
            },
        }
    )


def _set_by(settings: VariantSettings) -> Iterator[str]:
    yield from (
        arg.partition("=")[0] for arg in settings.args if arg.startswith("-")
    )
    yield from (f"env {variable.name}" for variable in settings.env)
    yield from (
        json_name(what)
        for what in ("image", "model", *_OF_ONLINE)
        if getattr(settings, what) is not None
    )
    if settings.resources is not None:
        yield from (f"resources.limits {key}" for key in settings.resources.limits)
        yield from (
            f"resources.requests {key}" for key in settings.resources.requests
        )


_VERSION = "benchrun.sweep-order/1"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of a variant, on one fresh server."""

    name: str
    variant: Variant
    replication: int  # Number of the replication, from 1.
    attempt: int = 1  # Number of the attempt, from 1: each one uses a fresh server.


def run_name(sweep: str, variant: int, replication: int) -> str:
    """Return `<sweep>-v<variant>-r<replication>`: unique, at most 40 characters."""
    return f"{sweep}-v{variant}-r{replication}"


_BLOCK = re.compile(r"-r([0-9]{1,4})(?:-a[0-9]+)?")


def block_of(run: str, *, sweep_variant: int) -> int | None:
    """Return the replication in the name of a variant's run; None if the name has another form."""
    found = _BLOCK.fullmatch(run.rpartition(f"-v{sweep_variant}")[2])
    return int(found[1]) if found is not None else None


def in_block(spec: BenchmarkRunSpec, block: int) -> BenchmarkRunSpec:
    """Return a variant's spec with the seed of a block; blocks count from 1."""
    if block == 1:
        return spec
    update = {"seed": block_seed(base=spec.measurement.seed, block=block)}
    return spec.model_copy(
        update={"measurement": spec.measurement.model_copy(update=update)}
    )


def attempts(planned: PlannedRun) -> tuple[PlannedRun, ...]:
    """Return the planned run, then its retries, whose names end in `-a2`, `-a3` and so on."""
    numbers = range(2, MAX_RETRIES + 2)
    return (
        planned,
        *(
            replace(planned, name=f"{planned.name}-a{number}", attempt=number)
            for number in numbers
        ),
    )


def planned_runs(
    sweep: str, spec: BenchmarkSweepSpec, variants: Sequence[Variant]
) -> tuple[PlannedRun, ...]:
    """Return all runs in the order in which they are started.

    Equal specs give equal orders, whatever the name of the sweep.
    """
    seed = spec.template.measurement.seed
    in_order = list(variants)
    planned: list[PlannedRun] = []
    for replication in range(1, spec.replications + 1):
        if spec.order == "RandomisedBlocks":
            in_order.sort(
                key=lambda each: digest(
                    [_VERSION, str(seed), str(replication), each.name]
                )
            )
        planned += [
            PlannedRun(run_name(sweep, each.number, replication), each, replication)
            for each in in_order
        ]
    return tuple(planned)


def run_manifest(sweep: Owner, run: PlannedRun) -> Manifest:
    """Build the manifest of a BenchmarkRun that the sweep owns, and that is deleted with it.

    The label is for people; only the owner reference counts. A run has those labels of its sweep
    that the platform copies, so that its own objects get them too.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": run.name,
            "namespace": sweep.namespace,
            "labels": {**dict(sweep.labels), names.LABEL_SWEEP: sweep.name},
            "annotations": {names.ANNOTATION_VARIANT: run.variant.name},
            "ownerReferences": controlled_by(SWEEP_KIND, sweep),
        },
        "spec": spec_body(in_block(run.variant.spec, run.replication)),
    }
