"""Rows of InferenceX: the arithmetic of its own `process_result.py` on vLLM's figures, and what a row may not pretend."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api.status import BenchmarkRunStatus
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.inferencex import rows, unfit, unknown_fields
from unit.report.export.runs import (
    CAPPED,
    CELLS,
    CHAT,
    CHAT_AGAIN,
    FIRST,
    endpoint_spec,
    failing,
    measured,
    row,
    run,
    spec,
    status,
)
from unit.report.export.split_runs import of_nodes, split_run, split_spec, split_status

SITE_METRICS = {
    *("tput_per_gpu", "output_tput_per_gpu", "input_tput_per_gpu"),
    *(
        f"{f}_{latency}"
        for f in ("mean", "median", "p90", "p99", "p99.9", "std")
        for latency in ("ttft", "tpot", "itl", "e2el")
    ),
    *(f"{f}_intvty" for f in ("mean", "median", "p90", "p99", "p99.9")),
}
"""Numbers that the site knows; others it takes for new ones of its own."""
SITE_SETTING = {
    *(
        "hw",
        "conc",
        "image",
        "model",
        "infmax_model_prefix",
        "framework",
        "precision",
        "spec_decoding",
        "disagg",
        "isl",
    ),
    *("osl", "is_multinode", "tp", "pp", "ep", "dp_attention", "benchmark_outcome"),
    *(f"{role}_{name}" for role in ("prefill", "decode") for name in ("tp", "pp", "ep", "dp_attention", "num_workers")),
    *("num_prefill_gpu", "num_decode_gpu", "kv_p2p_transfer"),
}


def one(of: ExportedRun, **fields: str) -> dict[str, Any]:
    (found,) = rows(of, fields)
    return found


def test_a_row_of_one_stage_is_vllms_figures_in_seconds() -> None:
    found, vllms = one(run(measured(CHAT))), measured(CHAT).scalars
    for latency in ("ttft", "tpot", "itl", "e2el"):
        for figure in ("mean", "median", "std"):
            vllm = vllms[f"{figure}_{latency}_ms"]
            assert vllm is not None
            assert found[f"{figure}_{latency}"] == pytest.approx(vllm / 1000, abs=1e-6), (figure, latency)


def test_throughput_is_a_gpu_s_share() -> None:
    found, vllms = one(run(measured(CHAT))), measured(CHAT).scalars
    total, output = vllms["total_token_throughput"], vllms["output_throughput"]
    assert total is not None
    assert output is not None
    assert found["tput_per_gpu"] == pytest.approx(total / 2, rel=1e-4)
    assert found["output_tput_per_gpu"] == pytest.approx(output / 2, rel=1e-4)
    assert found["input_tput_per_gpu"] == pytest.approx((total - output) / 2, rel=1e-4)


def test_interactivity_is_tokens_a_second_for_each_user() -> None:
    found, tpot = one(run(measured(CHAT))), measured(CHAT).scalars["median_tpot_ms"]
    assert tpot is not None
    assert found["median_intvty"] == pytest.approx(1000 / tpot, rel=1e-4)
    assert "std_intvty" not in found


def test_repeats_are_one_point() -> None:
    both, first, second = (
        one(run(*(measured(each) for each in of))) for of in ((CHAT, CHAT_AGAIN), (CHAT,), (CHAT_AGAIN,))
    )
    assert both["mean_ttft"] == pytest.approx((first["mean_ttft"] + second["mean_ttft"]) / 2)
    assert both["conc"] == 4


def test_the_setting_is_told_in_the_words_of_the_site() -> None:
    found = one(run(measured(CHAT)))
    assert {name: found[name] for name in SITE_SETTING & found.keys()} == {
        "hw": "h100",
        "conc": 4,
        "image": "vllm/vllm-openai:v0.32.0",
        "model": "Qwen/Qwen3-4B",
        "infmax_model_prefix": None,
        "framework": "vllm",
        "precision": None,
        "spec_decoding": "none",
        "disagg": False,
        "isl": 64,
        "osl": 12,
        "is_multinode": False,
        "tp": 2,
        "pp": 1,
        "ep": 1,
        "dp_attention": "false",
    }


def test_a_row_has_no_field_that_the_site_would_take_for_a_new_metric() -> None:
    for found in [found for of in (run(), split_run(), of_nodes()) for found in rows(of, {})]:
        numbers = {name for name, value in found.items() if isinstance(value, int | float)} - SITE_SETTING
        assert numbers <= SITE_METRICS
        assert found.keys() - SITE_METRICS - SITE_SETTING == {"verdict", "findings"}


@pytest.mark.parametrize(
    ("gpu", "hardware"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-B200", "b200"),
        ("NVIDIA-GB200", "gb200"),
        ("nvidia-h200-141gb", "h200"),
        ("AMD_Instinct_MI300X_OAM", "mi300x"),
        ("Tesla-T4", None),
        (None, None),
    ],
)
def test_the_gpu_in_the_site_s_words(gpu: str | None, hardware: str | None) -> None:
    assert one(run(measured(CHAT), of_status=status(gpu=gpu)))["hw"] == hardware


def test_what_somebody_knows_better_stands() -> None:
    found = one(run(measured(CHAT)), hw="h200", precision="fp8", infmax_model_prefix="qwen3")
    assert (found["hw"], found["precision"], found["infmax_model_prefix"]) == ("h200", "fp8", "qwen3")


def test_what_the_site_needs_and_nobody_told() -> None:
    assert unknown_fields(run(), {}) == ["precision"]
    assert unknown_fields(run(of_status=status(gpu=None)), {"precision": "fp8"}) == ["hw"]
    assert unknown_fields(run(), {"precision": "fp8"}) == []


def test_an_open_loop_is_no_row() -> None:
    assert [found["conc"] for found in rows(run(), {})] == [4, 2]
    assert list(unfit(run())) == [CELLS[1]]
    assert "closed loops only" in unfit(run())[CELLS[1]]


def test_rate_inf_under_a_cap_is_a_closed_loop() -> None:
    record = measured(CAPPED)
    scalars = {name: value for name, value in record.scalars.items() if name != "request_rate"}
    assert one(run(record.model_copy(update={"scalars": scalars})))["conc"] == 2


def test_lengths_that_vary_are_no_row() -> None:
    share_gpt = {"shareGPT": {"file": {"url": "https://data.example/s.json"}}}
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    body["workloads"][0]["dataset"] = share_gpt
    of = run(measured(CHAT), of_spec=type(spec()).model_validate(body))
    assert rows(of, {}) == []
    assert "fixed length only" in unfit(of)[CELLS[0]]


@pytest.mark.parametrize("of_status", [status(gpus=0), BenchmarkRunStatus(results=[row(CELLS[0])])])
def test_without_known_gpus_nothing_is_divided(of_status: BenchmarkRunStatus) -> None:
    found = one(run(measured(CHAT), of_status=of_status))
    assert [found[name] for name in ("tput_per_gpu", "output_tput_per_gpu", "input_tput_per_gpu")] == [None] * 3


def test_an_endpoint_has_no_setting_that_nobody_knows() -> None:
    found = one(run(measured(CHAT), of_spec=endpoint_spec()))
    assert {"tp", "pp", "ep"}.isdisjoint(found)
    assert (found["image"], found["spec_decoding"], found["tput_per_gpu"]) == (None, None, None)


def test_what_was_not_measured_or_not_bounded_is_absent() -> None:
    found = one(run(measured(FIRST)))
    assert not [name for name in found if name.endswith(("tpot", "itl", "intvty"))]
    assert "p99_ttft" not in one(run(measured(CHAT)))
    assert "p90_itl" in one(run(measured(CHAT)))


def test_an_invalid_point_is_marked_so_that_the_site_does_not_draw_it() -> None:
    invalid = run(failing(CHAT, failed=20), of_status=status([row(CELLS[0], "Invalid", ["RequestsFailed"])]))
    found = one(invalid)
    assert (found["verdict"], found["findings"]) == ("Invalid", "RequestsFailed")
    assert found["benchmark_outcome"] == {"status": "failed"}
    assert "benchmark_outcome" not in one(run(measured(CHAT)))


# ---- more than one server on one node --------------------------------------------------------------------------------


def topology(found: dict[str, Any]) -> dict[str, Any]:
    names = {"disagg", "is_multinode", "tp", "pp", "ep", "dp_attention", "kv_p2p_transfer"}
    return {name: value for name, value in found.items() if name in names or "prefill" in name or "decode" in name}


def test_roles_are_told_apart() -> None:
    assert topology(one(split_run())) == {
        "disagg": True,
        "is_multinode": True,
        "kv_p2p_transfer": "nixl",
        "prefill_tp": 1,
        "prefill_pp": 1,
        "prefill_ep": 1,
        "prefill_dp_attention": "false",
        "prefill_num_workers": 2,
        "num_prefill_gpu": 2,
        "decode_tp": 2,
        "decode_pp": 1,
        "decode_ep": 2,
        "decode_dp_attention": "true",
        "decode_num_workers": 1,
        "num_decode_gpu": 2,
    }


def test_prompts_are_the_share_of_those_that_prefill_and_answers_of_those_that_decode() -> None:
    found, vllms = one(split_run(of_status=split_status(prefill=1, decode=3))), measured(CHAT).scalars
    total, output = vllms["total_token_throughput"], vllms["output_throughput"]
    assert total is not None
    assert output is not None
    assert found["tput_per_gpu"] == pytest.approx(total / 4, rel=1e-4)
    assert found["input_tput_per_gpu"] == pytest.approx((total - output) / 1, rel=1e-4)
    assert found["output_tput_per_gpu"] == pytest.approx(output / 3, rel=1e-4)


def test_of_a_role_whose_gpus_nobody_counted_neither_they_nor_a_share_is_known() -> None:
    found = one(split_run(of_status=split_status(prefill=0)))
    assert (found["num_prefill_gpu"], found["num_decode_gpu"]) == (None, 2)
    assert (found["input_tput_per_gpu"], found["tput_per_gpu"]) == (None, None)
    assert found["output_tput_per_gpu"] is not None


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ([], "mooncake"),
        (['--kv-transfer-config={"kv_connector": "P2pNcclConnector"}'], "p2pnccl"),
        (["--kv-transfer-config={"], "mooncake"),
        (["--kv-transfer-config=[]"], "mooncake"),
        (["--kv-transfer-config"], "mooncake"),
    ],
)
def test_how_the_cache_is_handed_over(args: list[str], name: str) -> None:
    of_spec = split_spec(kvTransfer={"connector": "MooncakeConnector"}, decode={"args": args})
    assert one(split_run(of_spec=of_spec, of_status=split_status(args=False)))["kv_p2p_transfer"] == name


def test_servers_of_several_nodes_are_workers_that_prefill_and_decode() -> None:
    assert topology(one(of_nodes(replicas=2))) == {
        "disagg": False,
        "is_multinode": True,
        "prefill_tp": 2,
        "prefill_pp": 2,
        "prefill_ep": 1,
        "prefill_dp_attention": "false",
        "prefill_num_workers": 2,
        "num_prefill_gpu": 8,
        "decode_tp": 0,
        "decode_pp": 1,
        "decode_ep": 0,
        "decode_dp_attention": "false",
        "decode_num_workers": 0,
        "num_decode_gpu": 0,
    }


def test_attention_in_copies_takes_as_many_gpus_as_there_are_copies() -> None:
    args = ["--tensor-parallel-size=2", "--data-parallel-size=4", "--enable-expert-parallel"]
    found = one(run(measured(CHAT), of_status=status(args=args, gpus=8)))
    assert (found["tp"], found["ep"], found["dp_attention"]) == (8, 8, "true")
