"""The table of servers: a row a stage and role."""

from benchrun.api import BenchmarkRunStatus
from benchrun.measure.metrics_page import Sample
from benchrun.report.export.csv_parquet import server_table, stage_table
from benchrun.report.export.encoders import Value
from benchrun.report.export.formats import ExportedRun
from unit.report.export.runs import (
    CHAT,
    GPU,
    STAGES,
    UID,
    endpoint_spec,
    measured,
    renewed,
    rows,
    run,
    server_sample,
    status,
)
from unit.report.export.split_runs import split_run, split_sample


def roles(exported: ExportedRun) -> dict[str, dict[str, Value]]:
    return {str(each["role"]): each for each in rows(server_table(exported))}


READ: tuple[Sample, ...] = (
    *renewed(
        split_sample,
        watts=300.0,
        role="prefill",
        running=1.0,
        waiting=7.0,
        gpu_memory_mib=70_000.0,
        sm_clock_mhz=1_980.0,
    ),
    *renewed(
        split_sample,
        watts=500.0,
        role="decode",
        running=4.0,
        waiting=0.0,
        gpu_memory_mib=60_000.0,
        sm_clock_mhz=1_500.0,
    ),
)


def test_every_role_of_a_stage_has_a_row_with_its_own_figures() -> None:
    found = roles(split_run(samples=READ))
    assert list(found) == ["prefill", "decode", "proxy"]
    assert {
        role: (each["running_mean"], each["waiting_max"])
        for role, each in found.items()
    } == {
        "prefill": (1.0, 7.0),
        "decode": (4.0, 0.0),
        "proxy": (None, None),
    }
    assert {role: each["gpu_power_mean_watts"] for role, each in found.items()} == {
        "prefill": 300.0,
        "decode": 500.0,
        "proxy": None,
    }
    assert (
        found["prefill"]["gpu_memory_max_mib"],
        found["decode"]["sm_clock_mean_mhz"],
    ) == (
        70_000.0,
        1_500.0,
    )


def test_what_decode_fetched_and_what_failed_on_the_way() -> None:
    decode = roles(split_run())["decode"]
    assert (
        decode["fetched_tokens"],
        decode["fetched_percent"],
        decode["transfer_failures"],
    ) == (
        768.0,
        50.0,
        3.0,
    )


def test_the_proxy_row_has_its_added_latency_only() -> None:
    found = roles(split_run(samples=READ))
    assert (
        found["proxy"]["proxy_added_mean_ms"],
        found["decode"]["proxy_added_mean_ms"],
    ) == (
        2.0,
        None,
    )
    assert found["proxy"]["proxy_cpu_cores"] == 0.0
    assert [
        found["proxy"][name]
        for name in ("preemptions", "coverage_percent", "kv_cache_tokens")
    ] == [None] * 3


def test_each_role_has_its_hardware_and_version() -> None:
    found = roles(split_run())
    columns = (
        "replicas",
        "gpu",
        "gpus",
        "server_image",
        "server_version",
        "kv_cache_tokens",
    )
    assert {
        role: tuple(each[name] for name in columns) for role, each in found.items()
    } == {
        "prefill": (2, GPU, 2, "vllm/vllm-openai:v0.32.0", "0.32.0", 100_000),
        "decode": (1, GPU, 2, "vllm/vllm-openai:v0.32.0", "0.32.0", 100_000),
        "proxy": (1, None, 0, "benchrun/client", None, None),
    }


def test_rows_are_joined_with_stages_by_run_and_stage() -> None:
    whole = run()
    keys = ("namespace", "run", "run_uid", "stage", "verdict")
    servers, stages = (
        [tuple(each[key] for key in keys) for each in rows(table)]
        for table in (server_table(whole), stage_table(whole))
    )
    assert servers == stages
    assert [stage for *_, stage, _ in servers] == list(STAGES)
    assert servers[0][2] == UID


def test_a_role_without_a_sample_has_a_row_of_what_is_known() -> None:
    (row,) = rows(server_table(run(measured(CHAT, servers=()))))
    assert (row["role"], row["replicas"], row["gpus"]) == ("server", 1, 2)
    assert [
        row[name] for name in ("running_mean", "preemptions", "coverage_percent")
    ] == [None] * 3


def test_of_an_endpoint_only_what_it_says_itself_is_known() -> None:
    of_status = status(image=None, gpu=None, gpus=0, kv_cache_tokens=5_000)
    (row,) = rows(
        server_table(
            run(measured(CHAT), of_spec=endpoint_spec(), of_status=of_status)
        )
    )
    assert (row["server_version"], row["kv_cache_tokens"]) == ("0.32.0", 5_000)
    assert [row[name] for name in ("replicas", "gpus", "gpu", "server_image")] == [
        None
    ] * 4


def test_a_role_that_the_status_does_not_have_has_a_row() -> None:
    whole = run(
        measured(CHAT),
        of_status=BenchmarkRunStatus(),
        samples=[server_sample(CHAT, running=3.0)],
    )
    (row,) = rows(server_table(whole))
    assert (row["role"], row["running_mean"], row["replicas"]) == (
        "server",
        3.0,
        None,
    )
