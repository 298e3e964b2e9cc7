"""A chat template: one file at one place in server and client, whatever holds it."""

from hashlib import sha256

import pytest
from benchrun.plan import TEMPLATE_FILE, plan_of_client, started_args
from benchrun_client.contract import PLAN_FILE
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects, of_kind
from unit.plan.specs import (
    OWNER,
    UID,
    Json,
    endpoint_body,
    rates,
    spec,
    spec_body,
    workload,
)

INLINE = {"inline": "{{ messages[0].content }} ü\n"}
KEYED = {"configMap": {"name": "templates", "key": "chat.jinja"}}


def mounted(pod: Json) -> Json:
    """The ConfigMap that lies where the template is looked for; empty: nothing does."""
    (container,) = pod["containers"]
    name = next(
        (
            m["name"]
            for m in container["volumeMounts"]
            if TEMPLATE_FILE.startswith(m["mountPath"] + "/")
        ),
        None,
    )
    return next((v["configMap"] for v in pod["volumes"] if v["name"] == name), {})


@pytest.mark.parametrize(
    ("template", "key"), [(INLINE, "chat-template.jinja"), (KEYED, "chat.jinja")]
)
def test_server_and_client_have_the_same_file(template: Json, key: str) -> None:
    run = spec(chatTemplate=template)
    made = objects(OWNER, run)
    pods = [
        of_kind(made, kind)["spec"]["template"]["spec"]
        for kind in ("Job", "Deployment")
    ]
    one, other = map(mounted, pods)
    assert (one, one["items"]) == (
        other,
        [{"key": key, "path": TEMPLATE_FILE.rpartition("/")[2]}],
    )
    assert f"--chat-template={TEMPLATE_FILE}" in started_args(run)
    assert (
        plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.chat_template
        == TEMPLATE_FILE
    )
    plans = of_kind(made, "ConfigMap")
    holder: Json = template.get("configMap") or plans["metadata"]
    assert one["name"] == holder["name"]
    assert plans["data"].get("chat-template.jinja") == template.get("inline")


def test_without_one_nothing_speaks_of_it() -> None:
    assert "emplate.jinja" not in str(objects(OWNER, spec()))
    assert (
        "chat_template"
        not in plan_of_client(OWNER, spec(), token_digest=TOKEN_DIGEST).to_json()
    )


def test_an_engine_without_api_server_gets_it_from_the_client() -> None:
    offline = spec_body(
        server=None, offline={"image": "v"}, workloads=[workload(load=rates("inf"))]
    )
    run = spec(**offline | {"server": None, "chatTemplate": INLINE})
    made = objects(OWNER, run)
    assert "--chat-template" not in str(of_kind(made, "Deployment"))
    assert mounted(of_kind(made, "Job")["spec"]["template"]["spec"])


def test_at_an_endpoint_only_the_client_has_it() -> None:
    run = spec(
        **endpoint_body({"url": "http://llm"}, chatTemplate=INLINE)
        | {"server": None}
    )
    assert (
        plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.chat_template
        == TEMPLATE_FILE
    )


# Every child says whose it is; the plan, of what it is the digest.


def test_the_plan_says_its_digest_and_that_of_the_token() -> None:
    config_map, job = (
        of_kind(objects(OWNER, spec()), kind) for kind in ("ConfigMap", "Job")
    )
    noted = config_map["metadata"]["annotations"]
    data = config_map["data"][PLAN_FILE]
    assert noted == {
        "benchrun.dev/plan-digest": sha256(data.encode()).hexdigest(),
        "benchrun.dev/token-digest": TOKEN_DIGEST,
    }
    assert job["metadata"]["annotations"] == {
        "benchrun.dev/plan-digest": noted["benchrun.dev/plan-digest"]
    }


def test_every_child_has_the_run_as_its_controller() -> None:
    controllers = [
        [
            (r["kind"], r["uid"])
            for r in m["metadata"]["ownerReferences"]
            if r["controller"]
        ]
        for m in objects(OWNER, spec())
    ]
    assert controllers == [[("BenchmarkRun", UID)]] * 4


def test_selectors_meet_their_pods_and_only_theirs() -> None:
    manifests = objects(OWNER, spec())
    deployment, service, job = (
        of_kind(manifests, kind) for kind in ("Deployment", "Service", "Job")
    )
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert (
        deployment["spec"]["selector"]["matchLabels"]
        == service["spec"]["selector"]
        == pods
    )
    assert job["spec"]["template"]["metadata"]["labels"] != pods


def test_planning_twice_gives_equal_objects() -> None:
    assert objects(OWNER, spec()) == objects(OWNER, spec())
