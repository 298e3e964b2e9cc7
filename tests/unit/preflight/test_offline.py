"""Arguments of an engine without API server are read like a server's, and told at their own field."""

from typing import Any

from unit.api.spec_cases import absent
from unit.preflight.checks import checked, messages


def offline(*args: str) -> dict[str, Any]:
    return {
        "server": absent(),
        "offline": {"image": "vllm/vllm-openai:v0.32.0", "args": list(args)},
        "workloads.0.load": {"requestRates": ["inf"]},
    }


def test_a_flag_that_vllm_has_not_is_reported_at_its_place() -> None:
    errors = messages(checked(offline("--max-model-len=4096", "--max-num-sequences=4")), "Error")
    assert list(errors) == ["spec.offline.args[1]"]
    assert "has no flag --max-num-sequences" in errors["spec.offline.args[1]"]


def test_unknown_cache_size_is_reported_for_offline_runs() -> None:
    paths = {remark.path for remark in checked(offline()).remarks}
    assert "spec.offline.args" in paths
    assert not any(path.startswith("spec.server") for path in paths)


def test_prompts_longer_than_its_context_are_reported_before_a_gpu_is_taken() -> None:
    changes = offline("--max-model-len=100") | {
        "workloads.0.dataset": {"random": {"inputTokens": 128, "outputTokens": 16}}
    }
    assert any(path.startswith("spec.workloads[0]") for path in messages(checked(changes), "Error"))
