"""The platform's defaults hold for a run from when its plan is made, whatever the operator is later
told."""

import json
from dataclasses import replace
from typing import Any

import pytest
from benchrun.decide import Decision, RefusedObject, decide
from benchrun.observe import Child, child_of
from benchrun.plan import Manifest, RunDefaults
from benchrun_client.contract import ModelFiles
from unit.decide.scenes import CONTEXT, Scene
from unit.plan.objects import of_kind

BEFORE = RunDefaults.model_validate(
    {
        "server": {"nodeSelector": {"pool": "before"}},
        "client": {"nodeSelector": {"pool": "cpu"}},
        "copyLabels": ["team"],
    }
)
AFTER = RunDefaults.model_validate(
    {"server": {"nodeSelector": {"pool": "after"}}, "userFromNamespace": True}
)
READY = Scene().client_ready()
LABELS = (("app", "x"), ("team", "research"))


def decided(
    scene: Scene,
    defaults: RunDefaults,
    labels: tuple[tuple[str, str], ...] = LABELS,
) -> Decision:
    """Decide as an operator with these defaults, on a run with these labels."""
    facts = scene.facts()
    context = replace(scene.context, run_defaults=defaults)
    return decide(
        replace(facts, run=replace(facts.run, labels=labels), context=context)
    )


def plan_made(defaults: RunDefaults) -> Manifest:
    return of_kind([*decided(Scene(), defaults).apply], "ConfigMap")


def with_plan(
    manifest: Manifest,
    *,
    changed: dict[str, str] | None = None,
    scene: Scene = READY,
) -> Scene:
    """Return the scene with the plan that was made; by default the client is ready."""
    noted = {**manifest["metadata"]["annotations"], **(changed or {})}
    metadata = {**manifest["metadata"], "annotations": noted, "uid": "plan-uid"}
    read = child_of("ConfigMap", {**manifest, "metadata": metadata})

    def exchanged(child: Child) -> Child:
        return (
            replace(child, defaults=read.defaults)
            if child.role == "plan"
            else child
        )

    return replace(scene, objects=tuple(map(exchanged, scene.objects)))


def server_made(scene: Scene, defaults: RunDefaults) -> tuple[Any, dict[str, str]]:
    """Return the node selector of the server that is created, and its labels."""
    made = of_kind([*decided(scene, defaults, ()).apply], "Deployment")
    pod = made["spec"]["template"]
    return pod["spec"].get("nodeSelector"), made["metadata"]["labels"]


def test_all_children_are_made_with_the_defaults() -> None:
    made = decided(Scene(), BEFORE).apply
    job = of_kind([*made], "Job")
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert [each["metadata"]["labels"]["team"] for each in made] == ["research"] * 3
    assert not any("app" in each["metadata"]["labels"] for each in made)


def test_another_operator_makes_the_server_as_the_plan_says() -> None:
    scene = with_plan(plan_made(BEFORE))
    selector, labels = server_made(scene, AFTER)
    assert selector == {"pool": "before"}
    assert labels["team"] == "research", "though the run has lost that label"


def test_where_the_plan_is_lost_the_job_says_it() -> None:
    made = of_kind([*decided(Scene(), BEFORE).apply], "Job")
    read = child_of("Job", {**made, "metadata": {**made["metadata"], "uid": "u"}})
    scene = Scene().client_ready().without("ConfigMap", "plan")
    jobs = (
        replace(child, defaults=read.defaults) if child.kind == "Job" else child
        for child in scene.objects
    )
    scene = replace(scene, objects=tuple(jobs))
    assert server_made(scene, AFTER)[0] == {"pool": "before"}


def test_a_plan_of_a_release_without_defaults_gets_none() -> None:
    selector, labels = server_made(Scene().client_ready(), AFTER)
    assert selector is None
    assert "team" not in labels


@pytest.mark.parametrize(
    "changed",
    [
        {"benchrun.dev/defaults": '{"server":{"capabilities":["SYS_ADMIN"]}}'},
        {"benchrun.dev/copied-labels": '{"team":"other"}'},
        {"benchrun.dev/defaults-mac": "0" * 64},
        {"benchrun.dev/defaults": "x" * 100_000},
    ],
)
def test_what_somebody_else_noted_counts_for_nothing(
    changed: dict[str, str],
) -> None:
    scene = with_plan(plan_made(BEFORE), changed=changed)
    made = of_kind([*decided(scene, AFTER, ()).apply], "Deployment")
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "after"}
    assert "add" not in pod["containers"][0]["securityContext"]["capabilities"]
    assert "team" not in made["metadata"]["labels"]


def test_cores_of_the_defaults_decide_how_many_pods_the_client_has() -> None:
    defaults = RunDefaults.model_validate(
        {"client": {"resources": {"requests": {"cpu": "4"}}}}
    )
    scene = Scene().with_spec(client={"parallelism": 4})
    pods = [
        of_kind([*decided(scene, each).apply], "Job")["spec"]["completions"]
        for each in (RunDefaults(), defaults)
    ]
    assert pods == [4, 1]


def test_a_client_that_has_cores_by_default_is_ready_with_its_one_pod() -> None:
    defaults = RunDefaults.model_validate(
        {"client": {"resources": {"requests": {"cpu": "4"}}}}
    )
    scene = with_plan(plan_made(defaults)).with_spec(client={"parallelism": 4})
    assert server_made(scene, defaults)[1]["benchrun.dev/role"] == "server"


def test_a_refused_object_says_which_fields_the_user_did_not_write() -> None:
    invalid = RefusedObject(
        "Job",
        "br-qwen-client",
        "client",
        'Job.batch "br-qwen-client" is invalid: spec.template.spec.tolerations[0]',
        curable=False,
    )
    scene = Scene().knowing(refused_object=invalid)
    told = [
        decided(scene, each).status.message or ""
        for each in (RunDefaults(), BEFORE)
    ]
    assert "the chart's runs" not in told[0]
    assert "The platform's defaults (the chart's runs) set nodeSelector" in told[1]


CLAIM = RunDefaults.model_validate({"modelCacheClaim": "models"})
FROM_HUB = {"name": "org/tiny", "source": {"hub": {}}}


def test_a_run_gets_the_platforms_claim_and_keeps_it_whatever_the_operator_is_told() -> (
    None
):
    scene = Scene().with_spec(model=FROM_HUB)
    made = of_kind([*decided(scene, CLAIM).apply], "ConfigMap")
    assert (
        json.loads(made["data"]["plan.json"])["target"]["cache"]["claim"]
        == "models"
    )
    going_on = with_plan(made).with_spec(model=FROM_HUB)
    assert not of_kind_deployment(going_on, RunDefaults())
    commit = "0" * 40
    done = ModelFiles(state="Complete", commit=commit, start="Warm")
    filled = going_on.reports(phase="Waiting", model=done).settled()
    server = of_kind([*decided(filled, RunDefaults()).apply], "Deployment")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert f"--revision={commit}" in container["args"]
    assert "model-cache" in {each["name"] for each in container["volumeMounts"]}


def of_kind_deployment(scene: Scene, defaults: RunDefaults) -> list[Manifest]:
    made = decided(scene, defaults).apply
    return [each for each in made if each["kind"] == "Deployment"]


def test_a_plan_without_the_claim_gets_none_from_a_later_value() -> None:
    scene = Scene().with_spec(model=FROM_HUB)
    made = of_kind([*decided(scene, RunDefaults()).apply], "ConfigMap")
    assert of_kind_deployment(with_plan(made).with_spec(model=FROM_HUB), CLAIM)


def test_where_the_namespace_lacks_the_platforms_claim_the_run_says_who_named_it() -> (
    None
):
    lacks = '0/1 nodes are available: persistentvolumeclaim "{}" not found.'

    def told(claim: str) -> Decision:
        scene = Scene().with_spec(model=FROM_HUB)
        made = of_kind([*decided(scene, CLAIM).apply], "ConfigMap")
        waits = scene.client_created().pod(
            "client",
            phase="Pending",
            node=None,
            ip=None,
            unschedulable=lacks.format(claim),
        )
        return decided(with_plan(made, scene=waits), CLAIM)

    status = told("models").status
    reasons = {each.type: each.reason for each in status.conditions}
    assert reasons["ClientReady"] == "Unschedulable"
    for part in ("models", "runs.modelCacheClaim", "cacheClaim", "namespace"):
        assert part in (status.message or "")
    assert "modelCacheClaim" not in (told("others").status.message or "")
    assert not [
        each for each in told("models").apply if each["kind"] == "Deployment"
    ]


def test_the_status_says_what_the_defaults_set() -> None:
    scene = with_plan(plan_made(BEFORE)).server_loading()
    (server,) = decided(scene, AFTER).status.servers
    assert server.defaults == {"nodeSelector": "{pool: before}"}
    assert CONTEXT.run_defaults == RunDefaults()
