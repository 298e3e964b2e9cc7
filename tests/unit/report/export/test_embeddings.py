"""Exports of embeddings: what vLLM writes of them, and no column of tokens that do not exist."""

from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.report.export import csv_parquet, vllm_json
from benchrun.report.export.formats import ExportedRun
from benchrun_client.contract import GapCounts, StageRecord
from unit.plan.specs import concurrencies, spec_body, workload
from unit.report.export import runs

STAGE = runs.CHAT


def embedded() -> StageRecord:
    measured = runs.measured(STAGE)
    none = (0,) * len(measured.requests.ok)
    columns = measured.requests.model_copy(
        update={
            "ttft_us": measured.requests.e2el_us,
            "output_tokens": none,
            "asked_tokens": none,
        }
    )
    return measured.model_copy(
        update={"requests": columns, "gaps": GapCounts(), "whole_answers": True}
    )


def run() -> ExportedRun:
    asked = workload(
        "chat",
        api="Embeddings",
        dataset={"random": {"inputTokens": 64}},
        load=concurrencies(4),
        requests=24,
    )
    spec = BenchmarkRunSpec.model_validate(spec_body(workloads=[asked]))
    status = runs.status([runs.row("chat/concurrency=4")])
    return runs.run(embedded(), of_spec=spec, of_status=status)


def test_the_file_is_that_of_vllms_back_end() -> None:
    exported = run()
    (stage,) = exported.stages
    found = vllm_json.detailed(exported, stage, embedded().requests)
    assert found["backend"] == found["endpoint_type"] == "openai-embeddings"
    assert {"ttfts", "itls", "output_lens"}.isdisjoint(found)
    assert len(found["latencies"]) == len(found["input_lens"]) == 24


def test_stages_have_no_columns_of_latencies_that_there_are_not() -> None:
    exported = run()
    (row,) = runs.rows(csv_parquet.stage_table(exported))
    lacking = ("ttft", "tpot", "itl")
    assert [name for name in row if any(each in name for each in lacking)] == []
    assert row["p99_e2el_ms"] is not None
    assert row["total_output_tokens"] is None


def test_rows_of_requests_have_no_tokens_and_no_first_one() -> None:
    table: list[dict[str, Any]] = runs.rows(csv_parquet.request_table(run()))
    for row in table:
        assert [row[name] for name in ("ttft_ms", "tpot_ms", "output_tokens")] == [
            None,
            None,
            None,
        ]
        assert row["asked_tokens"] is None
        assert row["e2el_ms"] is not None
        assert row["input_tokens"]
