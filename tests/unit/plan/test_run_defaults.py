"""The platform's defaults: what the spec leaves out they fill, and nothing that it says changes."""

import json
from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunSpec, first_problem
from benchrun.plan import (
    NOTHING_APPLIED,
    Applied,
    Owner,
    RunDefaults,
    applied_fields,
    applied_to,
    cache_of,
    noted,
    read_applied,
    with_defaults,
)
from benchrun.plan.run_defaults import MAX_STATUS_BYTES, OTHERS
from kit.restricted_scc import pods_of, violations
from pydantic import ValidationError
from unit.plan.cases import CASES
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, spec, spec_body

Json = dict[str, Any]
KEY = b"k" * 32
TOLERATION = {"key": "gpu", "operator": "Exists"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
}
AFFINITY: Json = {"podAntiAffinity": {}}
POD: Json = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [TOLERATION],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [SPREAD],
    "priorityClassName": "bench",
    "runtimeClassName": "nvidia",
}
ROLE: Json = {
    **POD,
    "imagePullSecrets": ["mirror"],
    "labels": {"team": "platform"},
    "annotations": {"sidecar.istio.io/inject": "false"},
    "env": [{"name": "LEVEL", "value": "platform"}],
    "volumes": [{"name": "cache", "emptyDir": {}}],
    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    "resources": {"requests": {"cpu": "3"}},
}
DISAGGREGATED: Json = {
    "image": "vllm/vllm-openai:v0.32.0",
    "disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
}


def applied(*, labels: dict[str, str] | None = None, **defaults: Any) -> Applied:
    """Build what holds for a run."""
    return Applied(
        RunDefaults.model_validate(defaults), tuple((labels or {}).items())
    )


def template(kind: str, given: Applied, **changes: Any) -> Json:
    """Build the pod template of the one object of that kind."""
    made = of_kind(objects(OWNER, spec(**changes), applied=given), kind)
    found: Json = made["spec"]["template"]
    return found


def templates(given: Applied, **changes: Any) -> dict[str, Json]:
    """Build the pod template of each role."""
    return {
        made["metadata"]["labels"][names.LABEL_ROLE]: made["spec"]["template"]
        for made in objects(OWNER, spec(**changes), applied=given)
        if "template" in made.get("spec", {})
    }


def env_of(pod: Json) -> dict[str, Any]:
    return {
        each["name"]: each.get("value", each.get("valueFrom"))
        for each in pod["containers"][0]["env"]
    }


ROLES: dict[str, tuple[Json, str]] = {
    "server": ({"server": {"image": "vllm/vllm-openai:v0.32.0"}}, "server"),
    "client": ({}, "client"),
    "proxy": ({"server": DISAGGREGATED}, "proxy"),
    "prefill": ({"server": DISAGGREGATED}, "server"),
    "decode": ({"server": DISAGGREGATED}, "server"),
    "offline": (
        {
            "server": None,
            "offline": {"image": "vllm/vllm-openai:v0.32.0"},
            "workloads": [
                {
                    "name": "all",
                    "dataset": {"random": {"inputTokens": 8, "outputTokens": 8}},
                    "load": {"requestRates": ["inf"]},
                    "requests": 8,
                }
            ],
        },
        "offline",
    ),
}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_gets_its_own_defaults_and_no_other_does(role: str) -> None:
    changes, field = ROLES[role]
    found = templates(applied(**{field: ROLE}), **changes)
    mine = found[names.ROLE_SERVER if role == "offline" else role]
    pod = mine["spec"]
    assert {name: pod.get(name) for name in POD} == POD
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert mine["metadata"]["labels"]["team"] == "platform"
    assert mine["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert env_of(pod)["LEVEL"] == "platform"
    assert {"name": "cache", "emptyDir": {}} in pod["volumes"]
    assert {"name": "cache", "mountPath": "/cache"} in pod["containers"][0][
        "volumeMounts"
    ]
    assert pod["containers"][0]["resources"]["requests"]["cpu"] == "3"
    for other, each in found.items():
        shares = {"prefill", "decode"} >= {role, other}
        if each is not mine and not shares:
            assert "nodeSelector" not in each["spec"], other
            assert "team" not in each["metadata"]["labels"], other


def test_a_field_of_the_spec_wins_as_a_whole() -> None:
    own = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [],
        "affinity": {},
        "priorityClassName": "mine",
    }
    server = {**spec_body()["server"], "pod": own}
    pod = template("Deployment", applied(server=ROLE), server=server)["spec"]
    assert {name: pod[name] for name in own} == own
    assert pod["runtimeClassName"] == "nvidia"
    # the spec gives a GPU, so it gives the resources
    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}


def test_lists_and_maps_are_merged_by_name_and_the_specs_entries_win() -> None:
    own = {
        "imagePullSecrets": ["mine"],
        "labels": {"team": "research", "a": "b"},
        "annotations": {"c": "d"},
        "volumes": [{"name": "cache", "configMap": {"name": "mine"}}],
        "volumeMounts": [{"name": "cache", "mountPath": "/mine"}],
    }
    server = {
        **spec_body()["server"],
        "pod": own,
        "env": [{"name": "LEVEL", "value": "mine"}, {"name": "B", "value": "1"}],
    }
    made = template("Deployment", applied(server=ROLE), server=server)
    pod = made["spec"]
    assert pod["imagePullSecrets"] == [{"name": "mine"}, {"name": "mirror"}]
    labels = made["metadata"]["labels"]
    assert (labels["team"], labels["a"]) == ("research", "b")
    assert made["metadata"]["annotations"]["c"] == "d"
    assert [v for v in pod["volumes"] if v["name"] == "cache"] == own["volumes"]
    mounts = [
        each["mountPath"]
        for each in pod["containers"][0]["volumeMounts"]
        if each["name"] == "cache"
    ]
    assert mounts == ["/mine", "/cache"]
    assert (env_of(pod)["LEVEL"], env_of(pod)["B"]) == ("mine", "1")


def test_a_default_never_replaces_the_token_of_the_models_source() -> None:
    given = applied(
        server={"env": [{"name": "HF_TOKEN", "value": "x"}]},
        client={"env": [{"name": "HF_TOKEN", "value": "x"}]},
    )
    model = {"name": "m", "source": {"hub": {"tokenSecretRef": {"name": "hf"}}}}
    for kind in ("Deployment", "Job"):
        token = env_of(template(kind, given, model=model)["spec"])["HF_TOKEN"]
        assert token == {"secretKeyRef": {"name": "hf", "key": "token"}}


def test_a_default_never_replaces_the_place_of_a_model_on_a_claim() -> None:
    given = applied(
        server={
            "env": [
                {"name": "HF_HUB_CACHE", "value": "/models"},
                {"name": "HF_HUB_OFFLINE", "value": "0"},
            ]
        }
    )
    model = {"name": "m", "source": {"hub": {"cacheClaim": "weights"}}}
    server = env_of(template("Deployment", given, model=model)["spec"])
    assert server["HF_HUB_CACHE"] != "/models"
    assert server["HF_HUB_OFFLINE"] == "1"


HUB_RUN: Json = {"name": "org/m", "source": {"hub": {}}}
OWN_CLAIM: Json = {"name": "org/m", "source": {"hub": {"cacheClaim": "mine"}}}
NO_CLAIM: Json = {"name": "org/m", "source": {"hub": {"cacheClaim": ""}}}
OWN_FOLDER: Json = {
    **spec_body()["server"],
    "env": [{"name": "HF_HUB_CACHE", "value": "/mine"}],
}


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        pytest.param({"model": HUB_RUN}, "shared", id="names none"),
        pytest.param({"model": OWN_CLAIM}, "mine", id="names its own"),
        pytest.param({"model": NO_CLAIM}, None, id="says none"),
        pytest.param(
            {"model": {"name": "m", "source": {"path": {"path": "/m"}}}},
            None,
            id="not from the hub",
        ),
        pytest.param(
            {"model": HUB_RUN | {"tokenizer": "org/other"}},
            None,
            id="tokenizer from the hub",
        ),
        pytest.param(
            {"model": HUB_RUN | {"tokenizer": "/files"}}, "shared", id="its folder"
        ),
        pytest.param(
            {"model": HUB_RUN, "server": OWN_FOLDER}, None, id="own place"
        ),
        pytest.param(
            {
                "model": HUB_RUN,
                "server": None,
                "endpoint": {"url": "http://llm:8000"},
            },
            None,
            id="endpoint",
        ),
    ],
)
def test_the_claim_for_models_is_that_of_runs_that_do_not_say_otherwise(
    changes: Json, claim: str | None
) -> None:
    given = applied(modelCacheClaim="shared")
    declared = spec(**changes)
    effective = with_defaults(declared, given)
    found = cache_of(effective.model)
    assert (None if found is None else found.claim) == claim
    pods = templates(given, **changes)
    mounted = {
        role: each["persistentVolumeClaim"]["claimName"]
        for role, pod in pods.items()
        for each in pod["spec"]["volumes"]
        if each["name"] == "model-cache"
    }
    assert mounted == ({} if claim is None else dict.fromkeys(pods, claim))
    told = {"modelCacheClaim": "shared"} if claim == "shared" else {}
    for role in pods:
        assert applied_fields(declared, role, given) == told


def test_the_place_of_a_model_on_the_platforms_claim_is_not_replaced() -> None:
    env = [{"name": "HF_HUB_OFFLINE", "value": "0"}]
    given = applied(modelCacheClaim="shared", server={"env": env})
    server = env_of(template("Deployment", given, model=HUB_RUN)["spec"])
    assert server["HF_HUB_OFFLINE"] == "1"


def test_without_defaults_nothing_changes() -> None:
    declared = spec()
    assert with_defaults(declared, NOTHING_APPLIED) is declared
    assert objects(OWNER, declared) == objects(OWNER, declared, applied=applied())


def test_the_clients_variables_and_those_of_its_preparation() -> None:
    given = applied(
        client={
            "env": [{"name": "A", "value": "1"}],
            "preparationEnv": [
                {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
                {"name": "NO_PROXY", "value": ".svc"},
                {"name": "A", "value": "2"},
            ],
        }
    )
    client = {"env": [{"name": "NO_PROXY", "value": "mine"}]}
    pod = template("Job", given, client=client)["spec"]
    env = env_of(pod)
    assert (env["A"], env["NO_PROXY"]) == ("1", "mine")
    assert env["HTTPS_PROXY"] == "http://proxy:3128"
    # what holds for the whole run is not dropped
    assert pod["containers"][0]["args"][-1] == "--preparation-env=HTTPS_PROXY"


def test_only_the_named_capabilities_are_added_and_only_to_the_main_container() -> (
    None
):
    given = applied(server={"capabilities": ["IPC_LOCK"]})
    measurement = {"profile": {"seconds": 2}}
    pod = template("Deployment", given, measurement=measurement)["spec"]
    added = [each["securityContext"]["capabilities"] for each in pod["containers"]]
    assert added == [{"drop": ["ALL"], "add": ["IPC_LOCK"]}, {"drop": ["ALL"]}]
    client = template("Job", given)["spec"]["containers"][0]
    assert client["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_copied_labels_are_on_every_object_and_pod_and_in_no_selector() -> None:
    given = applied(
        labels={"cost-center": "17"},
        copyLabels=["cost-center"],
        server={"labels": {"cost-center": "default"}},
    )
    made = objects(
        OWNER, spec(server={**spec_body()["server"], "replicas": 2}), applied=given
    )
    for each in made:
        assert each["metadata"]["labels"]["cost-center"] == "17", each["kind"]
        spec_of = each.get("spec", {})
        if "template" in spec_of:
            assert spec_of["template"]["metadata"]["labels"]["cost-center"] == "17"
        selectors = [spec_of.get("selector"), spec_of.get("podSelector")]
        assert "cost-center" not in json.dumps(selectors), each["kind"]


def test_only_labels_of_the_list_are_copied() -> None:
    defaults = RunDefaults.model_validate({"copyLabels": ["team", "queue"]})
    labels = (("app", "x"), ("team", "research"))
    assert applied_to(labels, defaults) == Applied(
        defaults, (("team", "research"),)
    )


@pytest.mark.parametrize("case", [name for name in CASES if name != "image-volume"])
def test_every_pod_passes_restricted_v2_where_the_namespace_gives_the_user(
    case: str,
) -> None:
    declared = BenchmarkRunSpec.model_validate(CASES[case])
    without, named = (
        [
            violation
            for made in objects(OWNER, declared, applied=given)
            for pod in pods_of(made)
            for violation in violations(pod)
        ]
        for given in (applied(userFromNamespace=True), NOTHING_APPLIED)
    )
    own = [
        each.pod.security_context
        for each in (declared.started, declared.client)
        if each is not None
    ]
    if not any(own):
        assert without == []
        assert set(named) == {"fsGroup", "runAsUser"}


@pytest.mark.parametrize(
    ("path", "text", "defaults"),
    [
        ("runs.copyLabels", "benchrun's own", {"copyLabels": ["benchrun.dev/run"]}),
        ("runs.copyLabels", "a name of", {"copyLabels": ["-"]}),
        (
            "runs.server.labels",
            "benchrun's own",
            {"server": {"labels": {"x.benchrun.dev/role": "server"}}},
        ),
        (
            "runs.client.annotations",
            "benchrun's own",
            {"client": {"annotations": {"benchrun.dev/hold-seconds": "1"}}},
        ),
        (
            "runs.client.preparationEnv",
            "valueFrom.secretKeyRef",
            {
                "client": {
                    "preparationEnv": [
                        {"name": "HTTP_PROXY", "value": "http://me:secret@proxy"}
                    ]
                }
            },
        ),
        (
            "runs.server.volumes",
            "serviceAccountToken",
            {
                "server": {
                    "volumes": [
                        {
                            "name": "t",
                            "projected": {"sources": [{"serviceAccountToken": {}}]},
                        }
                    ]
                }
            },
        ),
        ("runs.proxy.preparationEnv", "", {"proxy": {"preparationEnv": []}}),
        (
            "runs.server.capabilities[0]",
            "",
            {"server": {"capabilities": ["CAP-SYS"]}},
        ),
    ],
)
def test_wrong_defaults_are_refused_by_field(
    path: str, text: str, defaults: Json
) -> None:
    with pytest.raises(ValidationError) as error:
        RunDefaults.model_validate(defaults)
    problem = first_problem(error.value, root="runs")
    assert problem.startswith(path)
    assert text in problem
    assert "secret@" not in problem


def test_what_was_noted_is_read_again_and_only_by_the_key_for_the_run() -> None:
    given = applied(
        labels={"team": "a"}, copyLabels=["team"], server=ROLE, client=ROLE
    )
    texts = [*noted(given, key=KEY, run_uid="1").values()]
    assert read_applied(*texts, key=KEY, run_uid="1") == given
    assert read_applied(*texts, key=b"other", run_uid="1") is None
    assert read_applied(*texts, key=KEY, run_uid="2") is None
    worse = texts[0].replace('"gpu"', '"cpu"')
    assert read_applied(worse, *texts[1:], key=KEY, run_uid="1") is None
    assert read_applied("{}", "{}", "", key=KEY, run_uid="1") is None


def test_the_status_says_what_the_defaults_set_beside_the_spec() -> None:
    given = applied(
        server={
            **POD,
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "capabilities": ["IPC_LOCK"],
        },
        client={"preparationEnv": [{"name": "HTTPS_PROXY", "value": "http://p"}]},
        userFromNamespace=True,
    )
    server = {
        **spec_body()["server"],
        "env": [{"name": "A", "value": "1"}],
        "pod": {"nodeSelector": {"zone": "a"}},
    }
    declared = spec(server=server)
    assert applied_fields(declared, names.ROLE_SERVER, given) == {
        "tolerations": "[{key: gpu, operator: Exists}]",
        "affinity": "{podAntiAffinity: {}}",
        "runtimeClassName": "nvidia",
        "priorityClassName": "bench",
        "topologySpreadConstraints": "[{maxSkew: 1, topologyKey: kubernetes.io/hostname, "
        "whenUnsatisfiable: ScheduleAnyway}]",
        "env.B": "2",
        "capabilities": "[IPC_LOCK]",
        "userFromNamespace": "true",
    }
    assert applied_fields(declared, names.ROLE_CLIENT, given) == {
        "userFromNamespace": "true",
        "preparationEnv": "[HTTPS_PROXY]",
    }


def test_many_defaults_take_a_bounded_part_of_the_status() -> None:
    env = [{"name": f"V{n}", "value": "x" * 300} for n in range(63)]
    found, other = (
        applied_fields(
            spec(),
            names.ROLE_SERVER,
            applied(server={"env": [*env, {"name": "Z", "value": last}]}),
        )
        for last in ("1", "2")
    )
    size = sum(len(k.encode()) + len(v.encode()) for k, v in found.items())
    assert size <= MAX_STATUS_BYTES + 100
    assert found[OTHERS] != other[OTHERS]
    assert found["env.V0"].startswith("xxx")


def test_a_label_of_benchrun_is_refused_in_a_spec_too() -> None:
    body = spec_body()
    body["server"]["pod"] = {"labels": {"benchrun.dev/role": "client"}}
    with pytest.raises(ValidationError, match="benchrun's own"):
        BenchmarkRunSpec.model_validate(body)


def test_an_owners_labels_do_not_replace_those_of_benchrun() -> None:
    owner = Owner("lab", "qwen", "uid", labels=((names.LABEL_RUN, "other"),))
    for made in objects(owner, spec(), applied=Applied(labels=owner.labels)):
        assert made["metadata"]["labels"][names.LABEL_RUN] == "qwen"
