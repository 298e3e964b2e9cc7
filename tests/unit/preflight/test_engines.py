"""What can be checked of a server whose flags and cache are not known."""

from benchrun.preflight.manifest_checks import Known, check_run
from unit.plan.specs import rates, spec_body, workload


def test_of_sglang_lengths_and_places_are_checked_and_the_rest_is_said_to_be_unknown() -> (
    None
):
    args = ["--context-length=100", "--max-running-requests=2", "--no-such-flag"]
    body = spec_body(
        server={"image": "lmsysorg/sglang:v0.5", "engine": "SGLang", "args": args},
        workloads=[workload("chat", load={"concurrencies": [4]})],
    )
    found = check_run({"spec": body}, Known()).remarks
    by_path = {(remark.level, remark.path) for remark in found}
    assert ("NotChecked", "spec.server.args") in by_path
    assert ("Warning", "spec.workloads[0].load") in by_path
    texts = " ".join(remark.text for remark in found if remark.level == "Error")
    assert "--context-length" in texts
    assert not [remark for remark in found if "vLLM will not start" in remark.text]


def test_of_llamacpp_the_length_of_a_slot_is_checked() -> None:
    words = ["--ctx-size", "1024", "--parallel", "4"]
    body = spec_body(
        server={"image": "l", "engine": "LlamaCpp", "args": words},
        workloads=[
            workload(
                "chat",
                dataset={"random": {"inputTokens": 250, "outputTokens": 50}},
                load={"concurrencies": [8]},
            )
        ],
    )
    found = check_run({"spec": body}, Known()).remarks
    (too_long,) = (r for r in found if r.path == "spec.workloads[0].dataset")
    assert too_long.level == "Error"
    assert "256 (--ctx-size): llama.cpp refuses" in too_long.text
    by_path = {(remark.level, remark.path) for remark in found}
    assert ("NotChecked", "spec.server.args") in by_path
    assert ("Warning", "spec.workloads[0].load") in by_path


def test_a_flag_that_hides_something_is_named() -> None:
    flag = "--enable-metrics-for-all-schedulers"
    body = spec_body(
        server={"image": "s", "engine": "SGLang", "args": [flag]},
        workloads=[workload("chat", load=rates("1"))],
    )
    found = check_run({"spec": body}, Known()).remarks
    assert [r.path for r in found if r.text.startswith(flag)] == [
        "spec.server.args[0]"
    ]


def test_of_tensorrt_llm_flags_are_named_as_it_writes_them() -> None:
    body = spec_body(
        server={
            "image": "nvcr.io/nvidia/tensorrt-llm/release:1.4.0rc4",
            "engine": "TensorRTLLM",
            "args": ["--max_seq_len=100", "--max_batch_size=2"],
        },
        workloads=[workload("chat", load={"concurrencies": [4]})],
    )
    found = check_run({"spec": body}, Known()).remarks
    texts = {
        remark.path: remark.text for remark in found if remark.level != "NotChecked"
    }
    assert "(--max_seq_len)" in texts["spec.workloads[0].dataset"]
    assert "--max_batch_size lets" in texts["spec.workloads[0].load"]
    unknown = {r.path for r in found if r.level == "NotChecked"}
    assert "spec.server.args" in unknown
