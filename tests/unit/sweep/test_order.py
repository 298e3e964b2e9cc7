"""In which order runs are started, and what they are called."""

from dataclasses import replace

from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import MAX_NAME, MAX_RETRIES
from benchrun.decide.sweep.decide_sweep import decide
from benchrun.names import MAX_RUN_NAME
from benchrun.plan import (
    Owner,
    PlannedRun,
    RunDefaults,
    attempts,
    block_of,
    planned_runs,
    planned_stages,
    planned_variants,
    run_manifest,
)
from hypothesis import given, strategies as st
from unit.plan.specs import spec_body
from unit.sweep.sweeps import NAMESPACE, THREE, UID, facts, sweep_spec, variant


def planned(name: str = "s", **changes: object) -> tuple[PlannedRun, ...]:
    spec = sweep_spec(changes.pop("listed", THREE), **changes)  # type: ignore[arg-type]
    return planned_runs(name, spec, planned_variants(spec))


def test_as_listed_every_variant_comes_once_before_any_is_replicated() -> None:
    assert [run.name for run in planned(replications=2)] == [
        "s-v1-r1", "s-v2-r1", "s-v3-r1", "s-v1-r2", "s-v2-r2", "s-v3-r2",
    ]  # fmt: skip


def test_randomised_blocks_hold_every_variant_once_and_differ() -> None:
    runs = planned(replications=10, order="RandomisedBlocks")
    blocks = [
        [run.variant.number for run in runs if run.replication == r]
        for r in range(1, 11)
    ]
    assert [run.replication for run in runs] == sorted(
        run.replication for run in runs
    )
    assert all(sorted(block) == [1, 2, 3] for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1


def test_the_order_hangs_on_the_seed_and_not_on_the_name() -> None:
    def order(name: str, seed: int) -> list[tuple[str, int]]:
        template = spec_body(measurement={"seed": seed})
        runs = planned(
            name, replications=5, order="RandomisedBlocks", template=template
        )
        return [(run.variant.name, run.replication) for run in runs]

    assert order("one", 1) == order("two", 1)
    assert order("one", 1) != order("one", 2)


@given(
    sweep=st.from_regex(
        rf"[a-z][a-z0-9-]{{0,{MAX_NAME - 2}}}[a-z0-9]", fullmatch=True
    ),
    count=st.integers(1, 32),
    replications=st.integers(1, 4),
)
def test_names_are_short_and_each_is_given_once(
    sweep: str, count: int, replications: int
) -> None:
    runs = planned(
        sweep,
        listed=[variant(f"v{n}") for n in range(count)],
        replications=replications,
    )
    names = [attempt.name for run in runs for attempt in attempts(run)]
    assert len(set(names)) == len(names) == count * replications * (1 + MAX_RETRIES)
    assert max(map(len, names)) <= MAX_RUN_NAME


def test_a_run_that_is_measured_again_has_the_same_spec_and_another_name() -> None:
    first, second, *_ = attempts(planned()[1])
    owner = Owner(NAMESPACE, "s", UID)
    assert (first, second.name, second.attempt) == (planned()[1], "s-v2-r1-a2", 2)
    assert run_manifest(owner, second)["spec"] == run_manifest(owner, first)["spec"]
    assert run_manifest(owner, second)["metadata"] == {
        **run_manifest(owner, first)["metadata"],
        "name": second.name,
    }


def test_seeds_differ_by_block_and_are_equal_within_one() -> None:
    runs = planned(replications=4, template=spec_body(measurement={"seed": 7}))
    specs = [run_manifest(Owner(NAMESPACE, "s", UID), run)["spec"] for run in runs]
    seeds: dict[int, set[int]] = {}
    for run, spec in zip(runs, specs, strict=True):
        seeds.setdefault(run.replication, set()).add(spec["measurement"]["seed"])
    assert [len(of_block) for of_block in seeds.values()] == [1, 1, 1, 1]
    assert len(set.union(*seeds.values())) == 4
    assert seeds[1] == {7}
    assert all(
        0 <= seed < 2**31 for of_block in seeds.values() for seed in of_block
    )
    sent = [
        {
            stage.seed
            for stage in planned_stages(
                BenchmarkRunSpec.model_validate(spec), run_uid=""
            )
        }
        for spec in specs
    ]
    assert sent[0] == sent[1]
    assert not sent[0] & sent[3]


def test_the_block_of_a_run_stands_in_its_name() -> None:
    run_of = {
        attempt.name: run
        for run in planned("s-v1-r9", replications=3)
        for attempt in attempts(run)
    }
    assert all(
        block_of(name, sweep_variant=run.variant.number) == run.replication
        for name, run in run_of.items()
    )
    assert block_of("other", sweep_variant=1) is None


def test_a_run_has_the_copied_labels_of_its_sweep() -> None:
    seen = facts()
    queue = ("kueue.x-k8s.io/queue-name", "gpus")
    labels = (("app", "x"), queue, ("team", "research"))
    defaults = RunDefaults.model_validate({"copyLabels": ["team"]})
    seen = replace(
        seen, sweep=replace(seen.sweep, labels=labels), run_defaults=defaults
    )
    made = decide(seen).create
    assert made
    for run in made:
        assert run["metadata"]["labels"] == {
            "team": "research",
            "kueue.x-k8s.io/queue-name": "gpus",
            "benchrun.dev/sweep": run["metadata"]["ownerReferences"][0]["name"],
        }


def test_a_run_belongs_to_its_sweep_and_says_of_which_variant_it_is() -> None:
    manifest = run_manifest(Owner(NAMESPACE, "s", UID), planned()[1])
    assert manifest["metadata"] == {
        "name": "s-v2-r1",
        "namespace": NAMESPACE,
        "labels": {"benchrun.dev/sweep": "s"},
        "annotations": {"benchrun.dev/variant": "wide"},
        "ownerReferences": [
            {
                "apiVersion": "benchrun.dev/v1alpha1",
                "kind": "BenchmarkSweep",
                "name": "s",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert manifest["spec"]["server"]["args"] == ["--max-num-seqs=256"]
