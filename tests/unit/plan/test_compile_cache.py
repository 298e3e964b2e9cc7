"""A claim for what engines compile: mounted by servers alone, shared only by those that are alike."""

from typing import Any

import pytest
from benchrun import names
from benchrun.plan import applied_fields, planned_variants
from unit.plan.specs import spec, spec_body
from unit.plan.test_run_defaults import Json, applied, env_of, templates
from unit.sweep.sweeps import sweep_spec, variant

ROOT = "VLLM_CACHE_ROOT"
GPU = {"limits": {"nvidia.com/gpu": 1}}


def with_claim(**changes: Any) -> Json:
    return {
        "server": {**spec_body()["server"], "compileCacheClaim": "own", **changes}
    }


def claims(pod: Json) -> dict[str, str]:
    return {
        each["name"]: each["persistentVolumeClaim"]["claimName"]
        for each in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in each
    }


def folder(**changes: Any) -> str:
    """Return where a server keeps what it compiles."""
    pod = templates(applied(), **with_claim(**changes))[names.ROLE_SERVER]
    value = env_of(pod["spec"])[ROOT]
    assert isinstance(value, str)
    return value


def test_the_server_writes_to_a_folder_of_the_claim_and_the_client_has_none() -> (
    None
):
    pods = templates(applied(), **with_claim())
    server = pods[names.ROLE_SERVER]
    assert claims(server) == {"compile-cache": "own"}
    mounts = {m["name"]: m for m in server["spec"]["containers"][0]["volumeMounts"]}
    mount = mounts["compile-cache"]
    assert "readOnly" not in mount
    env = env_of(server["spec"])
    caches = [
        env[name] for name in (ROOT, "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    ]
    assert len(set(caches)) == 3
    assert all(each.startswith(f"{mount['mountPath']}/") for each in caches)
    assert claims(pods[names.ROLE_CLIENT]) == {}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"image": "vllm/vllm-openai:v0.33.0"}, id="image"),
        pytest.param({"args": ["--max-model-len=64"]}, id="flags"),
        pytest.param({"env": [{"name": "VLLM_X", "value": "1"}]}, id="variables"),
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": 2}}}, id="GPUs"),
        pytest.param(
            {"pod": {"nodeSelector": {"nvidia.com/gpu.product": "H200"}}}, id="kind"
        ),
    ],
)
def test_servers_that_may_compile_differently_share_no_folder(
    changes: Json,
) -> None:
    assert folder(**changes) != folder()


def test_servers_that_are_alike_share_a_folder() -> None:
    assert folder() == folder()
    elsewhere = {"pod": {"priorityClassName": "high"}, "compileCacheClaim": "other"}
    assert folder(**elsewhere) == folder()


def test_a_users_own_place_for_a_cache_is_left_alone() -> None:
    env = [{"name": ROOT, "value": "/mine"}]
    assert folder(env=env) == "/mine"
    server = {**spec_body()["server"], "env": env}
    given = applied(compileCacheClaim="shared")
    assert claims(templates(given, server=server)[names.ROLE_SERVER]) == {}


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        pytest.param({}, "shared", id="names none"),
        pytest.param(with_claim(), "own", id="names its own"),
        pytest.param(with_claim(compileCacheClaim=""), None, id="says none"),
        pytest.param(
            {"server": {"image": "sglang:1", "engine": "SGLang"}}, None, id="SGLang"
        ),
    ],
)
def test_the_platforms_claim_is_that_of_runs_that_do_not_say_otherwise(
    changes: Json, claim: str | None
) -> None:
    given = applied(compileCacheClaim="shared")
    pods = templates(given, **changes)
    found = {"compile-cache": claim} if claim is not None else {}
    assert claims(pods[names.ROLE_SERVER]) == found
    told = {"compileCacheClaim": "shared"} if claim == "shared" else {}
    assert applied_fields(spec(**changes), names.ROLE_SERVER, given) == told
    assert applied_fields(spec(**changes), names.ROLE_CLIENT, given) == {}


def test_a_sweep_that_compares_start_up_has_no_cache() -> None:
    def claims_of(**fields: Any) -> set[str | None]:
        swept = sweep_spec([variant("a"), variant("b")], **fields)
        servers = [each.spec.server for each in planned_variants(swept)]
        return {each.compile_cache_claim for each in servers if each is not None}

    assert claims_of(compareStartup=True) == {""}
    assert claims_of() == {None}
