"""`BenchmarkSweep.spec`: a run template and what is varied in it.

The names of variants and the limits of a sweep are here too.
"""

import itertools
from typing import Annotated, Literal

from benchrun_client.engines import EngineName
from pydantic import Field

from benchrun.api.base import (
    ATOMIC,
    DnsLabel,
    Rule,
    SpecModel,
    Text,
    Unique,
    exactly_one,
)
from benchrun.api.measurement import AUTO
from benchrun.api.server import Disaggregated, Env, Model, Resources
from benchrun.api.spec import BenchmarkRunSpec

MAX_AXES = 5
MAX_VARIANTS = 32

Args = Annotated[
    list[Annotated[str, Field(max_length=4096)]],
    Field(max_length=32, json_schema_extra=ATOMIC),
]
SettingName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=24,
        pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$",
    ),
]
VariantName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=60,
        pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$",
    ),
]


class VariantSettings(SpecModel):
    """Changes to the template; fields that are left out stay as in the template."""

    rules = (
        Rule(
            cel="!has(self.engine) || has(self.image)",
            message="another engine needs an image of its own: the template's image has the "
            "template's engine",
            path=".image",
        ),
    )
    engine: EngineName | None = None
    """Another engine, with image. The template's command, args, env and compileCacheClaim are not
    its own and are left out; args and env are the variant's alone."""
    args: Args = Field(default_factory=list)
    """Flags appended to the template's; vLLM uses the last of duplicates."""
    env: Env = Field(
        default_factory=list,
        description="Variables that add to or replace the template's.",
    )
    image: Text | None = Field(None, description="Another server image.")
    model: Model | None = Field(
        None, description="Another model; it replaces the template's as a whole."
    )
    replicas: Annotated[int, Field(ge=1, le=16)] | None = Field(
        None, description="Number of servers; 1 with offline."
    )
    nodes_per_replica: int | None = Field(
        None, ge=1, le=16, description="Pods of each server; 1 with offline."
    )
    resources: Resources | None = Field(
        None, description="Other amounts; resources not named stay as they are."
    )
    disaggregated: Disaggregated | None = None
    """Prefill and decode servers, in place of the template's replicas and resources."""


class Setting(VariantSettings):
    """One value of an axis."""

    name: SettingName = Field(
        description="Short name of the value, for example 64; part of the variants' names."
    )


class Axis(SpecModel):
    """One thing that is varied in a sweep, such as a flag, with the values that it takes."""

    name: Annotated[DnsLabel, Field(max_length=20)]
    """Name, for example seqs; part of the variants' names."""
    values: Annotated[
        list[Setting], Field(min_length=1, max_length=MAX_VARIANTS), Unique("name")
    ]
    """Values of the axis, at least one."""


class NamedVariant(VariantSettings):
    """One variant of a sweep, with all the settings that it changes."""

    name: VariantName = Field(description="Name of the variant.")


Axes = Annotated[
    list[Axis], Field(min_length=1, max_length=MAX_AXES), Unique("name")
]


def _product_cel(axes: str) -> str:
    """Return CEL for the number of variants of a grid.

    CEL has no product of a list, so the axes are multiplied one by one.
    """
    return " * ".join(
        f"(size({axes}) > {n} ? size({axes}[{n}].values) : 1)"
        for n in range(MAX_AXES)
    )


_GRID = _product_cel("self.grid")


class Matrix(SpecModel):
    """Exactly one of `grid`, `zip` and `variants`."""

    rules = (
        exactly_one("grid", "zip", "variants"),
        Rule(
            cel="!has(self.zip) || self.zip.all(a, size(a.values) == size(self.zip[0].values))",
            message="axes of a zip must have the same number of values",
            path=".zip",
        ),
        Rule(
            cel=f"!has(self.grid) || {_GRID} <= {MAX_VARIANTS}",
            message=f"the grid has too many variants; the limit is {MAX_VARIANTS}",
            cel_message=(
                f"'the grid has %d variants; the limit is {MAX_VARIANTS}'.format([{_GRID}])"
            ),
            path=".grid",
        ),
    )
    grid: Axes | None = Field(
        None,
        description="Every combination of the values, named axis=value,axis=value.",
    )
    zip: Axes | None = None
    """The first values of all axes, then the second, and so on. Names as in a grid."""
    variants: (
        Annotated[
            list[NamedVariant],
            Field(min_length=1, max_length=MAX_VARIANTS),
            Unique("name"),
        ]
        | None
    ) = None
    """Variants written out, each with a name. One without settings is the template."""


def combinations(matrix: Matrix) -> list[tuple[str, tuple[VariantSettings, ...]]]:
    """Return every variant, as listed: its name, and its changes to the template.

    The changes are applied one after the other.
    """
    if matrix.variants is not None:
        return [(variant.name, (variant,)) for variant in matrix.variants]
    axes = matrix.grid or matrix.zip or []
    of_axes = [
        [(f"{axis.name}={value.name}", value) for value in axis.values]
        for axis in axes
    ]
    together = (
        itertools.product(*of_axes)
        if matrix.grid is not None
        else zip(*of_axes, strict=True)
    )
    return [
        (",".join(name for name, _ in parts), tuple(value for _, value in parts))
        for parts in together
    ]


def named(matrix: Matrix, name: str) -> str | None:
    """Return the exact name of a variant whose name is given with its parts in any order.

    None if there is no such variant.
    """
    parts = sorted(name.split(","))
    return next(
        (own for own, _ in combinations(matrix) if sorted(own.split(",")) == parts),
        None,
    )


KIND = "BenchmarkSweep"
PLURAL = "benchmarksweeps"
SHORT_NAME = "bms"
MAX_NAME = 29
"""The longest name of a sweep's run is NAME-v32-r10-a4, and a run's name has at most 40
characters."""
MAX_REPLICATIONS = 10
MAX_RETRIES = 3
MAX_RUNS = 128

MUTABLE_FIELDS = (
    "maxParallel",
    "maxRetries",
    "maxFailed",
    "gpuSecondsBudget",
    "suspend",
    "cancel",
)
"""Everything else is immutable: other variants are another sweep."""

Order = Literal["RandomisedBlocks", "AsListed"]

_VARIANTS = (
    "(has(self.matrix.variants) ? size(self.matrix.variants) : "
    "has(self.matrix.zip) ? (size(self.matrix.zip) > 0 ? size(self.matrix.zip[0].values) : 0) : "
    f"has(self.matrix.grid) ? {_product_cel('self.matrix.grid')} : 0)"
)
_RUNS = f"{_VARIANTS} * self.replications"
_PARTS = "self.baseline.split(',')"
_NAMED = f"((a.name + '=' + v.name) in {_PARTS})"
_PLACE = f"a.values.map(v, {_NAMED}).indexOf(true)"
_FIRST = _PLACE.replace("a.", "self.matrix.zip[0].", 1).replace(
    "(a.name", "(self.matrix.zip[0].name"
)
_IN_GRID = (
    f"size({_PARTS}) == size(self.matrix.grid) && self.matrix.grid.all(a, a.values.exists(v, "
    f"{_NAMED}))"
)
_IN_ZIP = (
    f"size({_PARTS}) == size(self.matrix.zip) && self.matrix.zip.all(a, {_PLACE} >= 0 && {_PLACE} "
    f"== {_FIRST})"
)
_IN_VARIANTS = "self.matrix.variants.exists(v, v.name == self.baseline)"
_BASELINE = (
    "!has(self.baseline) || (has(self.matrix.variants) ? "
    f"{_IN_VARIANTS} : has(self.matrix.zip) ? ({_IN_ZIP}) : has(self.matrix.grid) && {_IN_GRID})"
)


class BenchmarkSweepSpec(SpecModel):
    """Runs that differ in what the matrix varies, each on a fresh server, against a baseline."""

    rules = (
        Rule(
            cel="has(self.template.server) || has(self.template.offline)",
            message=(
                "a sweep starts a fresh server for every run; its template needs one, or offline"
            ),
            path=".template.server",
        ),
        *(
            Rule(
                cel=f"!self.template.{switch}",
                message=f"set {switch} of the sweep, not of its template",
                path=f".template.{switch}",
            )
            for switch in ("suspend", "cancel")
        ),
        Rule(
            cel="!has(self.template.ttlSecondsAfterFinished)",
            message="runs live as long as their sweep; remove ttlSecondsAfterFinished",
            path=".template.ttlSecondsAfterFinished",
        ),
        Rule(
            cel=f"self.template.repeats != '{AUTO}'",
            message="variants are compared at equally many repeats: set a number",
            path=".template.repeats",
        ),
        Rule(
            # The matrix itself reports too many variants.
            cel=f"{_VARIANTS} > {MAX_VARIANTS} || {_RUNS} <= {MAX_RUNS}",
            message=f"too many runs (variants x replications); the limit is {MAX_RUNS}",
            cel_message=f"'%d variants x %d replications = %d runs; the limit is {MAX_RUNS}'"
            f".format([{_VARIANTS}, self.replications, {_RUNS}])",
            path=".replications",
        ),
        Rule(
            cel=_BASELINE,
            message="no variant of the matrix has this name",
            cel_message="'no variant of the matrix is called %s'.format([self.baseline])",
            path=".baseline",
        ),
    )
    template: BenchmarkRunSpec
    """Spec of every run, before the variant's changes. Each run starts a server of its own."""
    matrix: Matrix = Field(description="What is varied.")
    baseline: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Variant that the others are compared with; the first one if left out."""
    replications: Annotated[int, Field(ge=1, le=MAX_REPLICATIONS)] = 1
    """Runs of each variant, on a fresh server each: the unit of comparison. With 1, only the noise
    between repeats on one server is known."""
    compare_startup: bool = False
    """Compare the servers' time to ready, too: a row startup for each variant. Compile caches are
    off. It takes part in the correction for multiple testing, so all intervals widen."""
    order: Order = "RandomisedBlocks"
    """RandomisedBlocks: every variant once before any is replicated. Each such block is shuffled by
    template.measurement.seed, so that a drift of the hardware does not look like an effect.
    AsListed: in blocks too, not shuffled."""
    max_parallel: Annotated[int, Field(ge=1, le=32)] = 1
    """Runs at the same time. Runs that share a node or a network disturb each other."""
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 1
    """How often a lost run is retried: its server or client was deleted, evicted or killed, or the
    server restarted while it was measured. Each retry is a new run on a fresh server; its name ends
    in -a2 and so on. A run that is lost after all retries has failed. Other failures are not
    retried."""
    max_failed: Annotated[int, Field(ge=0, le=MAX_RUNS)] | None = None
    """How many runs may fail; one more ends the sweep and cancels its other runs. Any number if
    left out. A run that is lost and retried has not failed."""
    gpu_seconds_budget: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Most GPU seconds: GPUs x seconds from a server's scheduling to its release. No run is started
    that would exceed them, estimated by the mean of the ended runs. Started runs go on to their
    end."""
    suspend: bool = Field(
        False, description="Start no further runs. Started runs go on."
    )
    cancel: bool = Field(
        False, description="End the sweep and cancel its runs. Can't be undone."
    )
