"""`spec.matrix`: what is varied, and how the variants are called."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

from pydantic import Field

from benchrun.api.base import DnsLabel, SpecModel, Text
from benchrun.api.disaggregated import Disaggregated
from benchrun.api.model_source import Model
from benchrun.api.pods import Env, Resources
from benchrun.api.rules import ATOMIC, Rule, Unique, exactly_one

MAX_AXES = 5
MAX_VARIANTS = 32

Args = Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=32, json_schema_extra=ATOMIC)]
SettingName = Annotated[str, Field(min_length=1, max_length=24, pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$")]
VariantName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$")]


class Settings(SpecModel):
    """What is laid over the template; what is left out stays as the template has it."""

    args: Args = Field(
        default_factory=list,
        description="Flags added behind the template's; of a flag that is given twice, vLLM takes the last.",
    )
    env: Env = Field(
        default_factory=list, description="Variables added to the template's; one of the same name is replaced."
    )
    image: Text | None = Field(default=None, description="Another server image.")
    model: Model | None = Field(default=None, description="Another model, in place of the whole of the template's.")
    replicas: Annotated[int, Field(ge=1, le=16)] | None = Field(
        default=None, description="Another number of servers. With offline there is one."
    )
    nodes_per_replica: Annotated[int, Field(ge=1, le=16)] | None = Field(
        default=None, description="Another number of pods that make up each server. With offline there is one."
    )
    resources: Resources | None = Field(
        default=None, description="Other amounts; resources that are not named stay as they are."
    )
    disaggregated: Disaggregated | None = Field(
        default=None,
        description="Servers that prefill and servers that decode, in place of the template's replicas and resources.",
    )


class Setting(Settings):
    """One value of an axis."""

    name: SettingName = Field(description="Short name of the value, for example 64; part of the variants' names.")


class Axis(SpecModel):
    """One thing that is varied."""

    name: Annotated[DnsLabel, Field(max_length=20)] = Field(
        description="Name of the axis, for example seqs; part of the variants' names."
    )
    values: Annotated[list[Setting], Field(min_length=1, max_length=MAX_VARIANTS), Unique("name")] = Field(
        description="Its values, at least one."
    )


class NamedVariant(Settings):
    """One variant, written out."""

    name: VariantName = Field(description="Name of the variant.")


Axes = Annotated[list[Axis], Field(min_length=1, max_length=MAX_AXES), Unique("name")]


def _product_cel(axes: str) -> str:
    """CEL has no product of a list: the axes one by one."""
    return " * ".join(f"(size({axes}) > {n} ? size({axes}[{n}].values) : 1)" for n in range(MAX_AXES))


def count_cel(matrix: str) -> str:
    """CEL for the number of variants of the matrix at that path."""
    zipped = f"(size({matrix}.zip) > 0 ? size({matrix}.zip[0].values) : 0)"
    others = f"has({matrix}.zip) ? {zipped} : has({matrix}.grid) ? {_product_cel(f'{matrix}.grid')} : 0"
    return f"(has({matrix}.variants) ? size({matrix}.variants) : {others})"


_GRID = _product_cel("self.grid")


class Matrix(SpecModel):
    """Exactly one of `grid`, `zip` and `variants`."""

    rules = (
        exactly_one("grid", "zip", "variants"),
        Rule(
            cel="!has(self.zip) || self.zip.all(a, size(a.values) == size(self.zip[0].values))",
            holds=lambda matrix: len({len(axis.values) for axis in matrix.zip or ()}) <= 1,
            message="axes of a zip must have the same number of values",
            path=".zip",
        ),
        Rule(
            cel=f"!has(self.grid) || {_GRID} <= {MAX_VARIANTS}",
            holds=lambda matrix: count(matrix) <= MAX_VARIANTS,
            message=f"the grid has too many variants; the limit is {MAX_VARIANTS}",
            cel_message=f"'the grid has %d variants; the limit is {MAX_VARIANTS}'.format([{_GRID}])",
            python_message=lambda matrix: f"the grid has {count(matrix)} variants; the limit is {MAX_VARIANTS}",
            path=".grid",
        ),
    )
    grid: Axes | None = Field(
        default=None, description="Every combination of the axes' values. A variant is called axis=value,axis=value."
    )
    zip: Axes | None = Field(
        default=None,
        description="The first values of all axes together, then the second, and so on. Called as those of a grid.",
    )
    variants: Annotated[list[NamedVariant], Field(min_length=1, max_length=MAX_VARIANTS), Unique("name")] | None = (
        Field(default=None, description="Variants written out, each with a name. One without settings is the template.")
    )


def count(matrix: Matrix) -> int:
    """How many variants there are, without making them."""
    if matrix.variants is not None:
        return len(matrix.variants)
    if matrix.zip is not None:
        return len(matrix.zip[0].values)
    return math.prod(len(axis.values) for axis in matrix.grid or ())


def combinations(matrix: Matrix) -> list[tuple[str, tuple[Settings, ...]]]:
    """Every variant: its name, and what is laid over the template, one after the other; in the order as listed."""
    if matrix.variants is not None:
        return [(variant.name, (variant,)) for variant in matrix.variants]
    axes = matrix.grid or matrix.zip or []
    of_axes = [[(f"{axis.name}={value.name}", value) for value in axis.values] for axis in axes]
    together = itertools.product(*of_axes) if matrix.grid is not None else zip(*of_axes, strict=True)
    return [(",".join(name for name, _ in parts), tuple(value for _, value in parts)) for parts in together]


def named(matrix: Matrix, asked: str) -> str | None:
    """The variant that is meant by this name; its parts may come in any order. None: there is none."""
    parts = sorted(asked.split(","))
    return next((name for name, _ in combinations(matrix) if sorted(name.split(",")) == parts), None)
