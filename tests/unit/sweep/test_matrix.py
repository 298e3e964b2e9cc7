"""The matrix: how many variants it makes, in which order, and what they are called."""

import math
from itertools import permutations
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import (
    MAX_VARIANTS,
    BenchmarkSweepSpec,
    Matrix,
    combinations,
    named,
)
from benchrun.plan import (
    Variant,
    planned_runs,
    planned_variants,
    run_manifest,
    spec_body,
)
from hypothesis import assume, given, strategies as st
from pydantic import ValidationError
from unit.plan.specs import OWNER, spec_body as template_body, workload
from unit.sweep.generated_sweeps import MATRICES
from unit.sweep.spec_cases import ACCEPTED, Spec
from unit.sweep.sweeps import axis, sweep_spec, variant


def matrix(body: dict[str, Any]) -> Matrix:
    return Matrix.model_validate(body)


def names(body: dict[str, Any]) -> list[str]:
    return [name for name, _ in combinations(matrix(body))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"variants": [{"name": "b"}, {"name": "a"}]}, ["b", "a"]),
        ({"grid": [axis("a", "1", "2")]}, ["a=1", "a=2"]),
        ({"zip": [axis("a", "1", "2")]}, ["a=1", "a=2"]),
        (
            {"grid": [axis("b", "1", "2"), axis("a", "3", "4")]},
            ["b=1,a=3", "b=1,a=4", "b=2,a=3", "b=2,a=4"],
        ),
        (
            {"zip": [axis("b", "1", "2"), axis("a", "3", "4")]},
            ["b=1,a=3", "b=2,a=4"],
        ),
        (
            {"grid": [axis("a", "1"), axis("b", "2"), axis("c", "3", "4")]},
            ["a=1,b=2,c=3", "a=1,b=2,c=4"],
        ),
    ],
)
def test_variants_come_as_listed_the_last_axis_fastest(
    body: dict[str, Any], expected: list[str]
) -> None:
    assert names(body) == expected


@given(MATRICES)
def test_every_matrix_that_is_taken_makes_variants_each_of_its_own_name(
    body: dict[str, Any],
) -> None:
    try:
        made = matrix(body)
    except ValidationError:
        assume(False)
        return
    found = names(body)
    assert len(found) == len(set(found))
    assert 1 <= len(found) <= MAX_VARIANTS
    assert [named(made, name) for name in found] == found


@given(MATRICES)
def test_a_variant_is_meant_by_its_parts_in_any_order(body: dict[str, Any]) -> None:
    try:
        made = matrix(body)
    except ValidationError:
        assume(False)
        return
    for name in names(body)[:3]:
        for parts in list(permutations(name.split(",")))[:6]:
            assert named(made, ",".join(parts)) == name


@given(MATRICES, st.text(alphabet="abv=,12", max_size=8))
def test_no_other_name_means_one(body: dict[str, Any], name: str) -> None:
    try:
        found = named(matrix(body), name)
    except ValidationError:
        assume(False)
        return
    assert found is None or sorted(found.split(",")) == sorted(name.split(","))


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([32], True),
        ([2, 16], True),
        ([2, 2, 2, 2, 2], True),
        ([3, 11], False),
        ([2, 17], False),
        ([32, 2], False),
    ],
)
def test_a_grid_has_at_most_32_variants(sizes: list[int], taken: bool) -> None:
    body = {
        "grid": [
            axis(f"a{n}", *(str(v) for v in range(size)))
            for n, size in enumerate(sizes)
        ]
    }
    if taken:
        assert len(names(body)) == math.prod(sizes)
    else:
        with pytest.raises(
            ValidationError,
            match=f"the grid has {math.prod(sizes)} variants; the limit is 32",
        ):
            matrix(body)


def test_of_a_zip_the_lengths_count_and_not_their_product() -> None:
    axes = [axis(f"a{n}", *(str(v) for v in range(32))) for n in range(5)]
    assert len(names({"zip": axes})) == 32
    with pytest.raises(
        ValidationError, match="axes of a zip must have the same number of values"
    ):
        matrix({"zip": [axis("a", "1", "2"), axis("b", "1")]})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"grid": [axis("a", "1"), axis("a", "2")]}, "'a' is listed twice"),
        ({"grid": [axis("a", "1", "1")]}, "'1' is listed twice"),
        ({"variants": [{"name": "v"}, {"name": "v"}]}, "'v' is listed twice"),
    ],
)
def test_a_name_is_given_once(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        matrix(body)


def test_what_is_laid_over_is_that_of_each_axis_in_order() -> None:
    body = {"grid": [axis("a", "1", "2"), axis("b", "3")]}
    assert [
        [settings.args for settings in laid]
        for _, laid in combinations(matrix(body))
    ] == [
        [["--a=1"], ["--b=3"]],
        [["--a=2"], ["--b=3"]],
    ]


# What the matrix makes of the template.

TEMPLATE = template_body(
    server={
        "image": "vllm:1",
        "args": ["--max-model-len=4096"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "resources": {
            "limits": {"nvidia.com/gpu": 1, "memory": "8Gi"},
            "requests": {"cpu": "1"},
        },
    }
)


def made(*listed: dict[str, Any], **changes: Any) -> tuple[Variant, ...]:
    return planned_variants(sweep_spec(listed, template=TEMPLATE, **changes))


def server(settings: dict[str, Any]) -> dict[str, Any]:
    """The server of the only variant, as a manifest has it."""
    found: dict[str, Any] = spec_body(made(settings)[0].spec)["server"]
    return found


def test_a_variant_without_settings_is_the_template() -> None:
    [only] = made(variant("base"))
    assert only.spec == BenchmarkRunSpec.model_validate(TEMPLATE)
    assert spec_body(only.spec) == TEMPLATE


def test_flags_come_behind_those_of_the_template() -> None:
    assert server(variant("v", "--max-num-seqs=8"))["args"] == [
        "--max-model-len=4096",
        "--max-num-seqs=8",
    ]


def test_a_variable_of_the_same_name_is_replaced_and_others_stay() -> None:
    found = server(
        variant("v", env=[{"name": "B", "value": "2"}, {"name": "C", "value": "3"}])
    )
    assert {v["name"]: v["value"] for v in found["env"]} == {
        "A": "1",
        "B": "2",
        "C": "3",
    }


def test_amounts_that_are_not_named_stay() -> None:
    found = server(variant("v", resources={"limits": {"nvidia.com/gpu": 2}}))
    assert found["resources"] == {
        "limits": {"nvidia.com/gpu": 2, "memory": "8Gi"},
        "requests": {"cpu": "1"},
    }


def test_image_and_model_take_the_place_of_the_templates() -> None:
    [only] = made(
        variant("v", image="vllm:2", model={"name": "other", "revision": "r1"})
    )
    body = spec_body(only.spec)
    assert (body["server"]["image"], body["model"]) == (
        "vllm:2",
        {"name": "other", "revision": "r1"},
    )


def of_two_engines(**llamacpp: Any) -> BenchmarkSweepSpec:
    """A sweep of vLLM, as in the template, and llama.cpp."""
    server = {
        "image": "vllm:1",
        "command": ["vllm", "serve", "$(MODEL)"],
        "args": ["--max-num-seqs=8"],
        "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}],
        "compileCacheClaim": "kernels",
        "resources": {"requests": {"cpu": "2"}},
    }
    model = {
        "name": "tiny",
        "tokenizer": "org/m",
        "source": {"path": {"path": "/models/tiny.gguf"}},
    }
    other = {"engine": "LlamaCpp", "image": "llama:1", "model": model, **llamacpp}
    other = {name: value for name, value in other.items() if value is not None}
    variants = [variant("vllm"), variant("llama", "--parallel", "8", **other)]
    return sweep_spec(variants, template=template_body(server=server))


def test_variants_may_have_engines_of_their_own() -> None:
    vllm, llama = (each.spec for each in planned_variants(of_two_engines()))
    assert (vllm.engine_name, llama.engine_name) == ("VLLM", "LlamaCpp")
    assert vllm.server is not None
    assert llama.server is not None
    assert vllm.server.args == ["--max-num-seqs=8"]
    # What only the template's engine understands is left out; what any server has stays.
    assert llama.server.args == ["--parallel", "8"]
    assert llama.server.command == []
    assert llama.server.env == []
    assert llama.server.compile_cache_claim is None
    assert llama.server.image == "llama:1"
    assert llama.server.resources == vllm.server.resources
    assert llama.model.source.path is not None
    assert llama.workloads == vllm.workloads
    planned = planned_runs(
        "s", of_two_engines(), planned_variants(of_two_engines())
    )
    assert [
        run_manifest(OWNER, each)["spec"]["server"].get("engine")
        for each in planned
    ] == [
        None,
        "LlamaCpp",
    ]


def test_the_templates_engine_may_be_named_and_keeps_its_flags() -> None:
    found = planned_variants(
        of_two_engines(engine="VLLM", args=["--seed=1"], model=None)
    )
    assert found[1].spec.server is not None
    assert found[1].spec.server.args == ["--max-num-seqs=8", "--seed=1"]


def test_an_engine_comes_before_the_flags_of_other_axes() -> None:
    engines = {
        "name": "engine",
        "values": [
            {
                "name": "sglang",
                "engine": "SGLang",
                "image": "sglang:1",
                "args": ["--tp=1"],
            }
        ],
    }
    flags = {
        "name": "log",
        "values": [{"name": "info", "args": ["--log-level=info"]}],
    }
    spec = sweep_spec((), matrix={"grid": [flags, engines]})
    (only,) = planned_variants(spec)
    assert only.spec.server is not None
    assert only.spec.server.args == ["--tp=1", "--log-level=info"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": None}, "image"),
        ({"env": [{"name": "LLAMA_API_KEY", "value": "x"}]}, "env"),
        ({"replicas": 1, "nodesPerReplica": 2}, "nodesPerReplica"),
    ],
)
def test_what_another_engine_cannot_have_is_rejected(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        planned_variants(of_two_engines(**changes))


def test_an_engine_without_api_server_is_varied_like_a_server() -> None:
    offline = template_body(
        server=None,
        offline={"image": "vllm:1", "args": ["--max-model-len=4096"]},
        workloads=[workload(load={"requestRates": ["inf"]})],
    )
    [only] = planned_variants(
        sweep_spec([variant("v", "--max-num-seqs=8")], template=offline)
    )
    body = spec_body(only.spec)
    assert body["offline"]["args"] == ["--max-model-len=4096", "--max-num-seqs=8"]
    assert "server" not in body


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [({"replicas": 3}, 3), ({"replicas": 2, "nodesPerReplica": 4}, 8)],
)
def test_varied_replicas_and_nodes_count_their_gpus(
    fields: dict[str, int], gpus: int
) -> None:
    one, other = made(variant("one"), variant("other", **fields))
    assert (one.gpus, other.gpus) == (1, gpus)
    assert fields.items() <= spec_body(other.spec)["server"].items()


@pytest.mark.parametrize("field", ["replicas", "nodesPerReplica"])
def test_what_only_a_server_has_is_rejected_by_name_for_an_engine_without_one(
    field: str,
) -> None:
    offline = template_body(
        server=None,
        offline={"image": "v"},
        workloads=[workload(load={"batchSizes": [1]})],
    )
    with pytest.raises(
        ValueError, match=rf"spec\.matrix: variant two: {field} can't be set"
    ):
        planned_variants(
            sweep_spec([variant("two", **{field: 2})], template=offline)
        )


def test_gpus_are_those_of_the_variant() -> None:
    two = made(
        variant("one"), variant("two", resources={"limits": {"nvidia.com/gpu": 2}})
    )
    assert [(v.number, v.gpus) for v in two] == [(1, 1), (2, 2)]


def test_settings_of_all_axes_are_laid_over_one_after_the_other() -> None:
    found = planned_variants(
        sweep_spec(
            matrix={"grid": [axis("a", "1", "2"), axis("b", "3")]},
            template=TEMPLATE,
        )
    )
    assert [v.spec.server.args[1:] for v in found if v.spec.server] == [
        ["--a=1", "--b=3"],
        ["--a=2", "--b=3"],
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"args": ["--a=9"]}, "--a"),
        ({"image": "x"}, "image"),
        ({"nodesPerReplica": 2}, "nodesPerReplica"),
        ({"model": {"name": "m"}}, "model"),
        ({"env": [{"name": "A", "value": "1"}]}, "env A"),
        (
            {"resources": {"limits": {"nvidia.com/gpu": 2}}},
            "resources.limits nvidia.com/gpu",
        ),
    ],
    ids=lambda case: str(case)[:20],
)
def test_two_axes_that_set_the_same_are_rejected(
    settings: dict[str, Any], what: str
) -> None:
    both = [
        {"name": name, "values": [{"name": "v", **settings}]}
        for name in ("one", "two")
    ]
    with pytest.raises(
        ValueError, match=rf"variant one=v,two=v: two axes set {what}"
    ):
        planned_variants(sweep_spec(matrix={"grid": both}, template=TEMPLATE))


def test_a_variant_whose_run_is_none_is_rejected_by_name_and_field() -> None:
    many = variant("many", *(f"--x{n}" for n in range(32)))
    crowded = TEMPLATE | {
        "server": TEMPLATE["server"] | {"args": [f"--y{n}" for n in range(100)]}
    }
    with pytest.raises(
        ValueError,
        match=r"^spec\.matrix: variant many: its run's spec\.server\.args: List should have",
    ):
        planned_variants(sweep_spec([variant("base"), many], template=crowded))


# The variants of a matrix: how many, and their names.


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()]
)
def test_each_variant_has_its_own_name(spec: Spec) -> None:
    matrix = BenchmarkSweepSpec.model_validate(spec).matrix
    names = [name for name, _ in combinations(matrix)]
    assert len(names) == len(set(names))
    assert [named(matrix, name) for name in names] == names


def test_a_grid_is_every_combination_and_a_zip_goes_in_step() -> None:
    grid = BenchmarkSweepSpec.model_validate(
        ACCEPTED["a grid with a baseline in another order"]
    )
    zipped = BenchmarkSweepSpec.model_validate(ACCEPTED["a zip"])
    assert [name for name, _ in combinations(grid.matrix)] == [
        "max-num-seqs=64,block-size=16",
        "max-num-seqs=64,block-size=32",
        "max-num-seqs=256,block-size=16",
        "max-num-seqs=256,block-size=32",
    ]
    assert [name for name, _ in combinations(zipped.matrix)] == [
        "max-num-seqs=64,block-size=16",
        "max-num-seqs=256,block-size=32",
    ]
    assert (
        named(grid.matrix, "block-size=16,max-num-seqs=64")
        == "max-num-seqs=64,block-size=16"
    )
