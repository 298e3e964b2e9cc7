"""Sweeps that must be refused, and where.

Pydantic in the operator and the API server must agree on them.
"""

from typing import Any

from unit.api.spec_cases import Refused, absent, minimal
from unit.sweep.sweeps import axis, variant

Spec = dict[str, Any]

ACCEPTED: dict[str, Spec] = {
    "variants": {
        "template": minimal(),
        "matrix": {
            "variants": [variant("base"), variant("wide", "--max-num-seqs=8")]
        },
    },
    "a grid with a baseline in another order": {
        "template": minimal(),
        "matrix": {
            "grid": [
                axis("max-num-seqs", "64", "256"),
                axis("block-size", "16", "32"),
            ]
        },
        "baseline": "block-size=16,max-num-seqs=64",
        "replications": 3,
    },
    "a zip": {
        "template": minimal(),
        "matrix": {
            "zip": [
                axis("max-num-seqs", "64", "256"),
                axis("block-size", "16", "32"),
            ]
        },
        "baseline": "max-num-seqs=256,block-size=32",
    },
    "everything that can be varied": {
        "template": minimal(),
        "matrix": {
            "variants": [
                {
                    "name": "other",
                    "args": ["--tensor-parallel-size=2"],
                    "env": [
                        {"name": "VLLM_ATTENTION_BACKEND", "value": "FLASHINFER"}
                    ],
                    "image": "vllm/vllm-openai:v0.31.0",
                    "model": {"name": "Qwen/Qwen3-8B"},
                    "resources": {"limits": {"nvidia.com/gpu": 2}},
                }
            ]
        },
        "order": "AsListed",
        "maxParallel": 4,
        "maxRetries": 0,
        "maxFailed": 0,
        "gpuSecondsBudget": 3600,
    },
    "32 variants": {
        "template": minimal(),
        "matrix": {"grid": [axis(name, "1", "2") for name in "abcde"]},
    },
}


def sweep(
    changes: dict[str, Any], *, template: dict[str, Any] | None = None
) -> Spec:
    """Build an accepted sweep with top-level fields replaced.

    `template` sets fields of its template by dotted path.
    """
    return {**ACCEPTED["variants"], "template": minimal(template or {}), **changes}


def refused(
    path: str,
    message: str | None = None,
    *,
    template: dict[str, Any] | None = None,
    **changes: Any,
) -> Refused:
    """Build a sweep with one thing wrong."""
    return Refused(path, sweep(changes, template=template), message)


_GRID = {"grid": [axis("a", "1", "2"), axis("b", "1", "2")]}
_ZIP = {"zip": [axis("a", "1", "2"), axis("b", "1", "2")]}
_MANY = [str(n) for n in range(1, 33)]

REFUSED: dict[str, Refused] = {
    "no template": Refused(
        "spec.template", {"matrix": ACCEPTED["variants"]["matrix"]}
    ),
    "no matrix": Refused("spec.matrix", {"template": minimal()}),
    "an empty matrix": refused(
        "spec.matrix", "must set exactly one of grid, zip and variants", matrix={}
    ),
    "grid and zip": refused(
        "spec.matrix",
        "must set exactly one of grid, zip and variants",
        matrix={**_GRID, **_ZIP},
    ),
    "no axis": refused("spec.matrix.grid", matrix={"grid": []}),
    "no value": refused(
        "spec.matrix.grid[0].values", matrix={"grid": [{"name": "a", "values": []}]}
    ),
    "a million variants": refused(
        "spec.matrix.grid",
        "the grid has 1048576 variants; the limit is 32",
        matrix={"grid": [axis(name, *_MANY) for name in "abcd"]},
    ),
    "33 variants": refused(
        "spec.matrix.variants",
        matrix={"variants": [variant(f"v{n}") for n in range(33)]},
    ),
    "two variants of one name": refused(
        "spec.matrix.variants[1]", matrix={"variants": [variant("a"), variant("a")]}
    ),
    "two axes of one name": refused(
        "spec.matrix.grid[1]", matrix={"grid": [axis("a", "1"), axis("a", "2")]}
    ),
    "two values of one name": refused(
        "spec.matrix.grid[0].values[1]",
        matrix={"grid": [{"name": "a", "values": [variant("1"), variant("1")]}]},
    ),
    "a variant called like two": refused(
        "spec.matrix.variants[0].name", matrix={"variants": [variant("a=1,b=2")]}
    ),
    "a zip of uneven axes": refused(
        "spec.matrix.zip",
        "axes of a zip must have the same number of values",
        matrix={"zip": [axis("a", "1", "2"), axis("b", "1")]},
    ),
    "another engine in the template's image": refused(
        "spec.matrix.variants[0].image",
        "another engine needs an image of its own",
        matrix={"variants": [{"name": "a", "engine": "SGLang"}]},
    ),
    "an engine of an axis without an image": refused(
        "spec.matrix.grid[0].values[0].image",
        "another engine needs an image of its own",
        matrix={
            "grid": [
                {"name": "engine", "values": [{"name": "a", "engine": "SGLang"}]}
            ]
        },
    ),
    "a baseline that is not there": refused(
        "spec.baseline", "no variant of the matrix is called none", baseline="none"
    ),
    "a baseline off the grid": refused(
        "spec.baseline",
        "no variant of the matrix is called a=1,b=3",
        matrix=_GRID,
        baseline="a=1,b=3",
    ),
    "a baseline with an axis missing": refused(
        "spec.baseline",
        "no variant of the matrix is called a=1",
        matrix=_GRID,
        baseline="a=1",
    ),
    "a baseline across a zip": refused(
        "spec.baseline",
        "no variant of the matrix is called a=1,b=2",
        matrix=_ZIP,
        baseline="a=1,b=2",
    ),
    "129 runs": refused(
        "spec.replications",
        "32 variants x 5 replications = 160 runs; the limit is 128",
        matrix=ACCEPTED["32 variants"]["matrix"],
        replications=5,
    ),
    "no replication": refused("spec.replications", replications=0),
    "an unknown order": refused("spec.order", order="Sorted"),
    "too many retries": refused("spec.maxRetries", maxRetries=4),
    "no run at a time": refused("spec.maxParallel", maxParallel=0),
    "a budget of nothing": refused("spec.gpuSecondsBudget", gpuSecondsBudget=0),
    "a template with an endpoint": refused(
        "spec.template.server",
        "a sweep starts a fresh server for every run; its template needs one, or offline",
        template={"endpoint": {"url": "http://llm"}, "server": absent()},
    ),
    "a template that repeats until all is decided": refused(
        "spec.template.repeats",
        "variants are compared at equally many repeats",
        template={
            "repeats": "Auto",
            "budget": {"requests": 5000},
            "objectives": [{"metric": "TTFT", "maxMilliseconds": 200}],
        },
    ),
    "a template that is suspended": refused(
        "spec.template.suspend",
        "set suspend of the sweep, not of its template",
        template={"suspend": True},
    ),
    "a template that is cancelled": refused(
        "spec.template.cancel",
        "set cancel of the sweep, not of its template",
        template={"cancel": True},
    ),
    "a template whose runs go before their sweep": refused(
        "spec.template.ttlSecondsAfterFinished",
        "runs live as long as their sweep; remove ttlSecondsAfterFinished",
        template={"ttlSecondsAfterFinished": 60},
    ),
    "a template that is invalid itself": refused(
        "spec.template.repeats", template={"repeats": 0}
    ),
    "a template with too many stages": refused(
        "spec.template.repeats",
        template={
            "repeats": 100,
            "workloads.0.load": {"requestRates": ["1", "2", "3"]},
        },
    ),
    "a variable without value": refused(
        "spec.matrix.variants[0].env[0]",
        "must set exactly one of value and valueFrom",
        matrix={"variants": [variant("a", env=[{"name": "A"}])]},
    ),
}
