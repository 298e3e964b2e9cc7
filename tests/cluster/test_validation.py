"""The API server refuses what can't be run, naming the field, and fills in what was left out.

The table of specs is shared with `tests/unit/api/test_rules_agree.py`: both sides must agree on
every one of them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from benchrun.api import crd
from cluster.admission import (
    assert_immutable,
    assert_refused_at,
    create,
    edited,
    refusals,
)
from kit.kubectl import RUN, CommandFailed, Namespace, Object
from unit.api.agreement import with_defaults
from unit.api.examples import EACH, Example
from unit.api.spec_cases import ACCEPTED, REFUSED, Refused, Spec, minimal


def manifest(spec: Spec, *, name: str = "run") -> Object:
    """A BenchmarkRun of that spec."""
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def stored(namespace: Namespace) -> Iterator[Object]:
    """A run that exists, to be edited."""
    spec = ACCEPTED["a whole server"] | {
        "ttlSecondsAfterFinished": 60,
        "client": {"image": "client:1"},
    }
    yield create(namespace, manifest(spec, name="stored"), dry_run=False)
    namespace.delete(RUN, "stored")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in REFUSED.items()]
)
def test_refused_at_the_field(namespace: Namespace, case: Refused) -> None:
    assert_refused_at(
        namespace,
        manifest(minimal(case.changes)),
        path=case.path,
        message=case.message,
    )


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()]
)
def test_accepted_with_the_documented_defaults(
    namespace: Namespace, spec: Spec
) -> None:
    assert create(namespace, manifest(spec))["spec"] == with_defaults(
        spec, crd.RUN.spec_schema()
    )


@pytest.mark.parametrize("example", EACH)
def test_examples_are_accepted(namespace: Namespace, example: Example) -> None:
    assert create(namespace, example.body)["kind"] == example.kind


def test_a_minimal_run_is_filled_in(namespace: Namespace) -> None:
    created = create(namespace, manifest(minimal()))
    assert created["spec"] == {
        "model": {"name": "Qwen/Qwen3-4B", "source": {"hub": {}}},
        "server": {
            "engine": "VLLM",
            "image": "vllm/vllm-openai:v0.32.0",
            "nodesPerReplica": 1,
            "replicas": 1,
            "sharedMemory": "2Gi",
        },
        "workloads": [
            {
                "name": "chat",
                "dataset": {
                    "random": {"generator": "Distinct"}
                },  # Lengths or distributions of them: neither is filled in.
                "load": {"requestRates": ["1", "4"]},
                "requests": 100,
                "api": "Completions",
                "ignoreEOS": True,
                "testRequest": False,
            }
        ],
        "repeats": 1,
        "client": {"parallelism": 1},
        "measurement": {
            "percentiles": ["50", "95", "99"],
            "seed": 1,
            "scrapeIntervalSeconds": 1,
            "warmup": {"auto": {"maxSeconds": 60}},
            "order": "Shuffled",
            "cachePolicy": "Isolate",
        },
        "validity": {"maxFailedPercent": "1"},
        "suspend": False,
        "cancel": False,
        "whenEvicted": "QueueAgain",
        "pendingDeadlineSeconds": 0,
        "startupDeadlineSeconds": 1800,
        "runDeadlineSeconds": 14400,
    }


def test_a_run_that_nobody_looked_at_says_so(
    namespace: Namespace, stored: Object
) -> None:
    assert namespace.get(RUN, stored["metadata"]["name"])["status"] == {
        "observedGeneration": -1
    }


def test_unknown_fields_are_refused_by_name(namespace: Namespace) -> None:
    with pytest.raises(
        CommandFailed, match=r'unknown field "spec\.server\.tensorParallel"'
    ):
        create(namespace, manifest(minimal({"server.tensorParallel": 2})))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("r" * 41, "40", id="41-characters"),
        pytest.param("a.b", "should match", id="dot"),
        pytest.param("-a", "should match", id="dash-first"),
    ],
)
def test_names_must_leave_room_for_those_of_children(
    namespace: Namespace, name: str, said: str
) -> None:
    with pytest.raises(CommandFailed) as refused:
        create(namespace, manifest(minimal(), name=name))
    assert said in refusals(refused.value)["metadata.name"]


def test_a_name_of_40_characters_is_accepted(namespace: Namespace) -> None:
    assert (
        create(namespace, manifest(minimal(), name="r" * 40))["metadata"]["name"]
        == "r" * 40
    )


IMMUTABLE: dict[str, tuple[str, Mapping[str, Any]]] = {
    "model": ("model", {"model": {"name": "other"}}),
    "an argument": ("server", {"server": {"args": ["--other"]}}),
    "a limit": (
        "server",
        {"server": {"resources": {"limits": {"nvidia.com/gpu": 2}}}},
    ),
    "a number instead of a word": (
        "server",
        {"server": {"resources": {"requests": {"cpu": 1}}}},
    ),
    "a key of a fragment exchanged": (
        "server",
        {
            "server": {
                "pod": {"affinity": {"nodeAffinity": None, "podAffinity": {}}}
            }
        },
    ),
    "a kind of volume exchanged": (
        "server",
        {"server": {"pod": {"volumes": [{"name": "cache", "hostPath": {}}]}}},
    ),
    "deep within a fragment": (
        "server",
        {
            "server": {
                "pod": {
                    "tolerations": [
                        {
                            "key": "nvidia.com/gpu",
                            "operator": "Exists",
                            "tolerationSeconds": 61,
                        }
                    ]
                }
            }
        },
    ),
    "a security context exchanged": (
        "server",
        {"server": {"pod": {"securityContext": {"runAsUser": None, "fsGroup": 1}}}},
    ),
    "repeats": ("repeats", {"repeats": 2}),
    "seed": ("measurement", {"measurement": {"seed": 2}}),
    "an optional field added": (
        "client",
        {"client": {"resources": {"limits": {"cpu": "1"}}}},
    ),
    "an optional field removed": ("client", {"client": None}),
    "validity": ("validity", {"validity": {"maxFailedPercent": "2"}}),
    "objectives added": (
        "objectives",
        {"objectives": [{"metric": "TTFT", "maxMilliseconds": 1}]},
    ),
    "workloads": ("workloads", {"workloads": ACCEPTED["users"]["workloads"]}),
}


@pytest.mark.parametrize(
    ("field", "patch"),
    [pytest.param(*case, id=name) for name, case in IMMUTABLE.items()],
)
def test_what_was_measured_cannot_be_changed(
    namespace: Namespace, stored: Object, field: str, patch: Mapping[str, Any]
) -> None:
    assert_immutable(namespace, stored, field=field, patch=patch, what="run")


@pytest.mark.parametrize(
    "patch",
    [
        {"suspend": True},
        {"cancel": True},
        {"pendingDeadlineSeconds": 60},
        {"startupDeadlineSeconds": 60},
        {"runDeadlineSeconds": 0},
        {"ttlSecondsAfterFinished": 0},
        {"ttlSecondsAfterFinished": None},
    ],
    ids=str,
)
def test_how_long_and_whether_it_runs_can_be_changed(
    namespace: Namespace, stored: Object, patch: Mapping[str, Any]
) -> None:
    assert edited(namespace, stored, patch) == {
        k: v for k, v in {**stored["spec"], **patch}.items() if v is not None
    }


def test_cancel_is_one_way(namespace: Namespace) -> None:
    create(
        namespace,
        manifest(minimal({"cancel": True}), name="cancelled"),
        dry_run=False,
    )
    with pytest.raises(CommandFailed) as refused:
        namespace.patch(RUN, "cancelled", {"spec": {"cancel": False}})
    assert (
        "cancel can't be taken back; create a new run"
        in refusals(refused.value)["spec.cancel"]
    )
    with pytest.raises(CommandFailed, match="cancel can't be taken back"):
        namespace.patch(RUN, "cancelled", {"spec": {"cancel": None}})


def test_a_deadline_is_only_lowered_once_the_run_is_accepted(
    namespace: Namespace,
) -> None:
    run = create(namespace, manifest(minimal(), name="accepted"), dry_run=False)
    raised = {"runDeadlineSeconds": run["spec"]["runDeadlineSeconds"] + 1}
    assert (
        edited(namespace, run, raised)["runDeadlineSeconds"]
        == raised["runDeadlineSeconds"]
    )
    accepted = {"status": {"acceptedTime": "2026-11-21T12:00:00Z"}}
    namespace.patch(RUN, "accepted", accepted, subresource="status")
    with pytest.raises(CommandFailed) as refused:
        edited(namespace, run, raised)
    assert list(refusals(refused.value)) == ["spec.runDeadlineSeconds"]
    assert (
        edited(namespace, run, {"runDeadlineSeconds": 60})["runDeadlineSeconds"]
        == 60
    )


@pytest.mark.parametrize("mode", ["--server-side=false", "--server-side"])
def test_applying_the_same_manifest_again_changes_nothing(
    namespace: Namespace, mode: str
) -> None:
    name = f"again-{len(mode)}"
    run = json.dumps(manifest(minimal(), name=name))
    namespace.kubectl("apply", mode, "--filename=-", stdin=run)
    before = namespace.get(RUN, name)
    namespace.kubectl("apply", mode, "--filename=-", stdin=run)
    after = namespace.get(RUN, name)
    assert after["metadata"]["generation"] == 1
    assert after["spec"] == before["spec"]
