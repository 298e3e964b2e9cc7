"""The table of replicas: a row a stage and server."""

from benchrun.measure.metrics_page import Sample
from benchrun.report.export.csv_parquet import replica_table, server_table
from benchrun.report.export.encoders import Value
from benchrun.report.export.formats import ExportedRun
from benchrun_client.contract import START_TIME, ServerEdge
from unit.measure.records import edge
from unit.report.export.runs import (
    CHAT,
    STAGES,
    UID,
    measured,
    rows,
    run,
    server_sample,
    spec,
    status,
)
from unit.report.export.split_runs import split_run, split_sample

A = "10.0.0.1:8000"
B = "10.0.0.2:8000"
COUNTED_BY_A = {
    "request_success_total": 16.0,
    "prompt_tokens_total": 1600.0,
    "generation_tokens_total": 192.0,
    "time_to_first_token_seconds_sum": 0.8,
    "time_to_first_token_seconds_count": 16.0,
    "request_queue_time_seconds_sum": 0.032,
    "request_queue_time_seconds_count": 16.0,
    "prefix_cache_queries_total": 1600.0,
    "prefix_cache_hits_total": 400.0,
    "num_preemptions_total": 2.0,
}
COUNTED_BY_B = {name: rise / 2 for name, rise in COUNTED_BY_A.items()} | {
    "time_to_first_token_seconds_sum": 0.2,
    "request_queue_time_seconds_sum": 0.0,
    "prefix_cache_hits_total": 0.0,
    "num_preemptions_total": 0.0,
}
COUNTS = ("requests_finished", "prompt_tokens", "generation_tokens")
MEANS = (
    "server_mean_ttft_ms",
    "server_mean_queue_ms",
    "prefix_hit_percent",
    "preemptions",
)
READ = (
    "running_mean",
    "running_max",
    "waiting_mean",
    "waiting_max",
    "kv_cache_max_percent",
)


def edges(
    *, started: tuple[float, float] = (1000.0, 2000.0)
) -> tuple[ServerEdge, ServerEdge]:
    return (
        edge(A, before={START_TIME: started[0]}, rises=COUNTED_BY_A),
        edge(B, before={START_TIME: started[1]}, rises=COUNTED_BY_B),
    )


def replica_samples(
    *, started: tuple[float, float] = (1000.0, 2000.0)
) -> list[Sample]:
    """Two of the pod that began first, one of the other, in no order of the addresses."""
    first, second = started
    return [
        server_sample(
            CHAT,
            pod="server-b",
            start_time=second,
            running=1.0,
            waiting=0.0,
            kv_cache=0.125,
        ),
        server_sample(
            CHAT,
            pod="server-a",
            start_time=first,
            running=3.0,
            waiting=4.0,
            kv_cache=0.5,
        ),
        server_sample(
            CHAT,
            pod="server-a",
            start_time=first,
            running=5.0,
            waiting=0.0,
            kv_cache=0.25,
        ),
    ]


def two(
    *,
    servers: tuple[ServerEdge, ...] | None = None,
    samples: list[Sample] | None = None,
) -> ExportedRun:
    return run(
        measured(CHAT, servers=edges() if servers is None else servers),
        of_spec=spec(server={"image": "vllm/vllm-openai:v0.32.0", "replicas": 2}),
        of_status=status(replicas=2),
        samples=replica_samples() if samples is None else samples,
    )


def by_address(exported: ExportedRun) -> dict[str, dict[str, Value]]:
    return {str(each["address"]): each for each in rows(replica_table(exported))}


def values_of(exported: ExportedRun, *names: str) -> dict[str, tuple[Value, ...]]:
    return {
        address: tuple(each[name] for name in names)
        for address, each in by_address(exported).items()
    }


def test_every_server_tells_its_own_counts_and_means() -> None:
    assert values_of(two(), *COUNTS) == {A: (16, 1600, 192), B: (8, 800, 96)}
    assert values_of(two(), *MEANS) == {
        A: (50.0, 2.0, 25.0, 2.0),
        B: (25.0, 0.0, 0.0, 0.0),
    }


def test_samples_go_to_the_server_whose_process_they_tell_of() -> None:
    assert values_of(two(), "pod", *READ) == {
        A: ("server-a", 4.0, 5.0, 2.0, 4.0, 50.0),
        B: ("server-b", 1.0, 1.0, 0.0, 0.0, 12.5),
    }


def test_samples_of_indistinguishable_servers_are_not_assigned() -> None:
    same = (1000.0, 1000.0)
    found = two(servers=edges(started=same), samples=replica_samples(started=same))
    assert values_of(found, "pod", *READ) == {A: (None,) * 6, B: (None,) * 6}
    assert values_of(found, "requests_finished") == {A: (16,), B: (8,)}


def test_two_pods_of_one_start_are_not_both_the_server_that_has_it() -> None:
    found = two(
        servers=edges()[:1], samples=replica_samples(started=(1000.0, 1000.0))
    )
    assert values_of(found, "pod", *READ) == {A: (None,) * 6}


def test_what_a_server_did_not_say_is_unknown_and_never_zero() -> None:
    silent = ServerEdge(address=A, before=None, after=edges()[0].after)
    found = values_of(
        two(servers=(silent, edges()[1]), samples=[]), *COUNTS, *MEANS, *READ
    )
    assert (found[A], found[B]) == (
        (None,) * 12,
        (8, 800, 96, 25.0, 0.0, 0.0, 0.0, *(None,) * 5),
    )


def test_a_server_without_a_request_has_counts_of_zero_and_no_mean() -> None:
    idle = edge(B, before={START_TIME: 2000.0}, rises={})
    assert values_of(two(servers=(edges()[0], idle)), *COUNTS, *MEANS)[B] == (
        0,
        0,
        0,
        None,
        None,
        None,
        0.0,
    )


def test_a_restarted_server_has_no_counter_difference() -> None:
    anew = edge(
        A, before={START_TIME: 1000.0}, rises=COUNTED_BY_A | {START_TIME: 5.0}
    )
    assert (
        values_of(two(servers=(anew, edges()[1])), *COUNTS, *MEANS)[A]
        == (None,) * 7
    )


def test_servers_of_both_roles_are_there_and_the_proxy_is_not() -> None:
    read = [
        split_sample("prefill", running=1.0),
        split_sample("decode", running=4.0),
    ]
    found = rows(replica_table(split_run(samples=read)))
    assert [
        (each["role"], each["pod"], each["running_mean"]) for each in found
    ] == [
        ("prefill", "prefill", 1.0),
        ("prefill", None, None),
        ("decode", "decode", 4.0),
    ]


def test_rows_are_joined_with_servers_by_run_stage_and_role() -> None:
    keys = ("namespace", "run", "run_uid", "stage", "verdict", "role")
    replicas, servers = (
        [tuple(each[key] for key in keys) for each in rows(table)]
        for table in (replica_table(run()), server_table(run()))
    )
    assert replicas == servers
    assert [each[3] for each in replicas] == list(STAGES)
    assert replicas[0][2] == UID
