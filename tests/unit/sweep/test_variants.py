"""What the matrix makes of the template."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Variant, planned_variants, spec_body
from unit.plan.specs import spec_body as template_body, workload
from unit.sweep.sweeps import axis, sweep_spec, variant

TEMPLATE = template_body(
    server={
        "image": "vllm:1",
        "args": ["--max-model-len=4096"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}, "requests": {"cpu": "1"}},
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
    assert server(variant("v", "--max-num-seqs=8"))["args"] == ["--max-model-len=4096", "--max-num-seqs=8"]


def test_a_variable_of_the_same_name_is_replaced_and_others_stay() -> None:
    found = server(variant("v", env=[{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]))
    assert {v["name"]: v["value"] for v in found["env"]} == {"A": "1", "B": "2", "C": "3"}


def test_amounts_that_are_not_named_stay() -> None:
    found = server(variant("v", resources={"limits": {"nvidia.com/gpu": 2}}))
    assert found["resources"] == {"limits": {"nvidia.com/gpu": 2, "memory": "8Gi"}, "requests": {"cpu": "1"}}


def test_image_and_model_take_the_place_of_the_templates() -> None:
    [only] = made(variant("v", image="vllm:2", model={"name": "other", "revision": "r1"}))
    body = spec_body(only.spec)
    assert (body["server"]["image"], body["model"]) == ("vllm:2", {"name": "other", "revision": "r1"})


def test_an_engine_without_api_server_is_varied_like_a_server() -> None:
    offline = template_body(
        server=None,
        offline={"image": "vllm:1", "args": ["--max-model-len=4096"]},
        workloads=[workload(load={"requestRates": ["inf"]})],
    )
    [only] = planned_variants(sweep_spec([variant("v", "--max-num-seqs=8")], template=offline))
    body = spec_body(only.spec)
    assert body["offline"]["args"] == ["--max-model-len=4096", "--max-num-seqs=8"]
    assert "server" not in body


@pytest.mark.parametrize(("fields", "gpus"), [({"replicas": 3}, 3), ({"replicas": 2, "nodesPerReplica": 4}, 8)])
def test_varied_replicas_and_nodes_count_their_gpus(fields: dict[str, int], gpus: int) -> None:
    one, other = made(variant("one"), variant("other", **fields))
    assert (one.gpus, other.gpus) == (1, gpus)
    assert fields.items() <= spec_body(other.spec)["server"].items()


@pytest.mark.parametrize("field", ["replicas", "nodesPerReplica"])
def test_what_only_a_server_has_is_rejected_by_name_for_an_engine_without_one(field: str) -> None:
    offline = template_body(server=None, offline={"image": "v"}, workloads=[workload(load={"batchSizes": [1]})])
    with pytest.raises(ValueError, match=rf"spec\.matrix: variant two: {field} can't be set"):
        planned_variants(sweep_spec([variant("two", **{field: 2})], template=offline))


def test_gpus_are_those_of_the_variant() -> None:
    two = made(variant("one"), variant("two", resources={"limits": {"nvidia.com/gpu": 2}}))
    assert [(v.number, v.gpus) for v in two] == [(1, 1), (2, 2)]


def test_settings_of_all_axes_are_laid_over_one_after_the_other() -> None:
    found = planned_variants(sweep_spec(matrix={"grid": [axis("a", "1", "2"), axis("b", "3")]}, template=TEMPLATE))
    assert [v.spec.server.args[1:] for v in found if v.spec.server] == [["--a=1", "--b=3"], ["--a=2", "--b=3"]]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"args": ["--a=9"]}, "--a"),
        ({"image": "x"}, "image"),
        ({"nodesPerReplica": 2}, "nodesPerReplica"),
        ({"model": {"name": "m"}}, "model"),
        ({"env": [{"name": "A", "value": "1"}]}, "env A"),
        ({"resources": {"limits": {"nvidia.com/gpu": 2}}}, "resources.limits nvidia.com/gpu"),
    ],
    ids=lambda case: str(case)[:20],
)
def test_two_axes_that_set_the_same_are_rejected(settings: dict[str, Any], what: str) -> None:
    both = [{"name": name, "values": [{"name": "v", **settings}]} for name in ("one", "two")]
    with pytest.raises(ValueError, match=rf"variant one=v,two=v: two axes set {what}"):
        planned_variants(sweep_spec(matrix={"grid": both}, template=TEMPLATE))


def test_a_variant_whose_run_is_none_is_rejected_by_name_and_field() -> None:
    many = variant("many", *(f"--x{n}" for n in range(32)))
    crowded = TEMPLATE | {"server": TEMPLATE["server"] | {"args": [f"--y{n}" for n in range(100)]}}
    with pytest.raises(
        ValueError, match=r"^spec\.matrix: variant many: its run's spec\.server\.args: List should have"
    ):
        planned_variants(sweep_spec([variant("base"), many], template=crowded))
