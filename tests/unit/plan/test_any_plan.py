"""What holds of the plan of every valid spec: stages told apart, seeds of their own, objects that
fit together."""

import re
from collections import Counter
from decimal import ROUND_CEILING, Decimal
from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.names import load_point_id
from benchrun.plan import (
    estimate,
    load_points,
    most_probe_stages,
    place_in_repeat,
    plan_of_client,
    planned_stages,
    probe_seed,
    shared_seed,
    stage_seed,
    warmup_seed,
)
from benchrun_client.contract import Plan
from hypothesis import HealthCheck, given, settings, strategies as st
from unit.api.agreement import broken_in_python
from unit.api.generated_specs import RUN_SPECS
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects
from unit.plan.specs import OWNER

UID = "uid-1"
FEW = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
"""Two of three generated specs break a rule; they are passed over."""
SPECS = RUN_SPECS.filter(
    lambda spec: broken_in_python(BenchmarkRunSpec, spec) == (set(), False)
).map(BenchmarkRunSpec.model_validate)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@FEW
@given(SPECS)
def test_the_plan_of_every_valid_spec(spec: BenchmarkRunSpec) -> None:
    """All is checked on each spec: finding a valid one costs more than checking it."""
    stages_are_distinguished_and_each_is_in_one_load_point(spec)
    no_two_stages_send_the_same_unless_they_are_to_share(spec)
    the_estimate_is_what_is_planned(spec)
    a_second_plan_is_the_same_and_the_client_reads_what_was_written(spec)
    the_order_of_a_repeat_hangs_on_the_seed_and_not_on_other_repeats(spec)
    every_mount_has_its_volume_every_name_is_given_once_and_every_object_is_the_runs(
        spec
    )


def stages_are_distinguished_and_each_is_in_one_load_point(
    spec: BenchmarkRunSpec,
) -> None:
    planned = planned_stages(spec, run_uid=UID)
    ids = [stage.id for stage in planned]
    assert len(set(ids)) == len(ids)
    assert sorted(ids) == sorted(
        stage for load_point in load_points(spec) for stage in load_point.stage_ids
    )
    assert all(
        s.id == f"{load_point_id(s.workload.name, s.load.label)}/r{s.repeat}"
        for s in planned
    )
    assert [stage.repeat for stage in planned] == sorted(
        stage.repeat for stage in planned
    )


def no_two_stages_send_the_same_unless_they_are_to_share(
    spec: BenchmarkRunSpec,
) -> None:
    plan = plan_of_client(OWNER, spec, token_digest=TOKEN_DIGEST)
    seeds = [stage.seed for stage in plan.stages] + [
        seed for search in plan.searches for seed in search.seeds
    ]
    if spec.measurement.cache_policy == "Share":
        assert len(set(seeds)) <= len(spec.workloads)
    else:
        assert len(set(seeds)) == len(seeds)
    assert not {warmup.seed for warmup in plan.warmups} & set(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def the_estimate_is_what_is_planned(spec: BenchmarkRunSpec) -> None:
    found = estimate(spec)
    planned = planned_stages(spec, run_uid=UID)
    assert found.stages == len(planned) + most_probe_stages(spec)
    assert found.requests >= sum(stage.requests for stage in planned)
    assert (found.requests == sum(stage.requests for stage in planned)) is (
        most_probe_stages(spec) == 0
    )
    assert all(stage.requests >= 1 for stage in planned)
    for stage in planned:
        seconds = stage.workload.duration_seconds
        if seconds is not None:
            exact = Decimal(stage.load.value) * seconds
            assert stage.requests == max(
                1, int(exact.to_integral_value(rounding=ROUND_CEILING))
            )


def a_second_plan_is_the_same_and_the_client_reads_what_was_written(
    spec: BenchmarkRunSpec,
) -> None:
    plan = plan_of_client(OWNER, spec, token_digest=TOKEN_DIGEST)
    assert plan_of_client(OWNER, spec, token_digest=TOKEN_DIGEST) == plan
    assert Plan.model_validate_json(plan.to_json()) == plan


def the_order_of_a_repeat_hangs_on_the_seed_and_not_on_other_repeats(
    spec: BenchmarkRunSpec,
) -> None:
    planned = planned_stages(spec, run_uid=UID)
    once = planned_stages(spec.model_copy(update={"repeats": 1}), run_uid=UID)
    assert [stage.id for stage in planned[: len(once)]] == [
        stage.id for stage in once
    ]
    assert set(Counter(stage.repeat for stage in planned).values()) <= {len(once)}


def pods_of(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        m["spec"]["template"]["spec"]
        for m in manifests
        if "template" in m.get("spec", {})
    ]


def every_mount_has_its_volume_every_name_is_given_once_and_every_object_is_the_runs(
    spec: BenchmarkRunSpec,
) -> None:
    manifests = objects(OWNER, spec)
    identities = [(m["kind"], m["metadata"]["name"]) for m in manifests]
    assert len(set(identities)) == len(identities)
    assert all(
        m["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid for m in manifests
    )
    for pod in pods_of(manifests):
        volumes = [volume["name"] for volume in pod["volumes"]]
        assert len(set(volumes)) == len(volumes)
        assert all(DNS_LABEL.fullmatch(name) for name in volumes)
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            mounts = container.get("volumeMounts", [])
            assert {mount["name"] for mount in mounts} <= set(volumes)
            assert len({mount["mountPath"] for mount in mounts}) == len(mounts)
            variables = [variable["name"] for variable in container.get("env", [])]
            assert len(set(variables)) == len(variables)


TEXTS = st.text(alphabet="ab=/r1-", min_size=1, max_size=6)
PARTS = st.tuples(
    st.integers(0, 3), TEXTS, TEXTS, TEXTS, st.integers(1, 3), st.none() | TEXTS
)


@given(PARTS, PARTS)
def test_seeds_of_stages_meet_only_where_every_part_does(
    one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    def seed(parts: tuple[Any, ...]) -> int:
        base, workload, axis, value, repeat, uid = parts
        return stage_seed(
            base=base,
            workload=workload,
            load=f"{axis}={value}",
            repeat=repeat,
            run_uid=uid,
        )

    same = (*one[:2], f"{one[2]}={one[3]}", *one[4:]) == (
        *other[:2],
        f"{other[2]}={other[3]}",
        *other[4:],
    )
    assert (seed(one) == seed(other)) is same


@given(
    st.integers(0, 2**31 - 1),
    st.sampled_from(["chat", "search", "warmup", "shared", "1"]),
    st.integers(1, 32),
)
def test_seeds_of_different_kinds_never_meet(
    base: int, workload: str, number: int
) -> None:
    found = [
        stage_seed(
            base=base,
            workload=workload,
            load=f"rate={number}",
            repeat=1,
            run_uid=None,
        ),
        probe_seed(
            base=base, workload=workload, probe=number, repeat=1, run_uid=None
        ),
        warmup_seed(base=base, workload=workload, run_uid=None),
        shared_seed(base=base, workload=workload),
    ]
    assert len(set(found)) == 4


def test_the_seeds_and_places_of_the_first_release() -> None:
    """Written down: a change makes new runs incomparable, request by request, with all older
    ones."""
    assert (
        stage_seed(base=1, workload="chat", load="rate=4", repeat=1, run_uid=None)
        == 1316004095
    )
    assert (
        stage_seed(base=1, workload="chat", load="rate=4", repeat=1, run_uid="u")
        == 3731032306
    )
    assert (
        probe_seed(base=1, workload="chat", probe=1, repeat=1, run_uid=None)
        == 1875155769
    )
    assert warmup_seed(base=1, workload="chat", run_uid=None) == 1961721500
    assert shared_seed(base=1, workload="chat") == 2527967054
    assert (
        place_in_repeat(base=1, repeat=1, load_point="chat/rate=4").hex()[:16]
        == "4a165924fef2de74"
    )
