"""Real vLLM: the sweeps of docs/experiments, applied as they are, with the tables that they print.
Minutes each, since every variant gets a server of its own."""

import re
from pathlib import Path

import pytest
from benchrun.api import TOTAL_COST
from kit.examples import benchrun, example, measured, rows
from kit.kubectl import RUN, Namespace, Object

pytestmark = pytest.mark.timeout(5400)

SWEEP = "BenchmarkSweep"
ENDS_WITHIN_SECONDS = 5200


def swept(namespace: Namespace, file: str, name: str) -> Object:
    """The status of one sweep of an example, once it has ended."""
    objects = example(file)
    wanted = [body for body in objects.values() if body["kind"] == "ConfigMap"] + [
        objects[name]
    ]
    namespace.apply(*wanted)
    return measured(namespace, SWEEP, name, timeout_seconds=ENDS_WITHIN_SECONDS)


def metric(status: Object, variant: str, workload: str, name: str) -> float | None:
    (found,) = [
        row
        for row in status["results"]
        if (row["variant"], row["loadPoint"].partition("/")[0])
        == (variant, workload)
    ]
    value: float | None = found["metrics"].get(name)
    return value


def test_which_optimisation_helps_is_two_tables(namespace: Namespace) -> None:
    name = "e3-which-optimisation-tiny"
    status = swept(namespace, "e3-which-optimisation-tiny.yaml", name)
    said = benchrun(namespace, "report", name)

    variants = ["baseline", "prefix-caching", "chunked-2048", "chunked-512", "all"]
    by_users = ["sharegpt", "agent-dynamic", "agent-static", "agent-growing"]
    workloads = [
        *by_users,
        "sharegpt-at-once",
        "agent-dynamic-at-once",
        "agent-static-at-once",
    ]
    results = said.table("variant", "load point", "runs")
    assert [
        (row["variant"], row["load point"].partition("/")[0]) for row in results
    ] == [(variant, workload) for variant in variants for workload in workloads]
    assert {row["verdict"] for row in results} <= {"Valid", "Suspect"}

    # The table of percent changes as the original drew it, with interval and word: a row a
    # configuration, a column a dataset.
    changes = said.table("figure", "variant")
    assert [point.partition("/")[0] for point in list(changes[0])[2:]] == workloads
    assert {row["variant"] for row in changes} == set(variants[1:])
    assert {"req/s", "TTFT", "TPOT", "E2EL"} <= {row["figure"] for row in changes}
    load_points = [
        load_point
        for row in changes
        if row["figure"] == "TTFT"
        for load_point in list(row.values())[2:][: len(by_users)]
    ]
    assert all(
        re.fullmatch(
            r"[-+][0-9.]+ % \([-+0-9.]+ to (over )?[-+0-9.]+\) \w+( \w+)?",
            load_point,
        )
        for load_point in load_points
    )
    assert all(
        row["paired"] for row in status["results"] if row["variant"] != "baseline"
    )

    # What the originals could not see: whether a gain came out of the cache, and whether there was
    # anything to be found in it.
    for variant in ("prefix-caching", "all"):
        assert (
            metric(status, variant, "agent-static", "prefix_hit_percent") or 0
        ) > 80
        assert (
            metric(status, variant, "agent-dynamic", "prefix_hit_percent") or 0
        ) < 5
        # Of a conversation in four turns each finds the one before: (1 + 2 + 3) of (1 + 2 + 3 + 4)
        # quarters, less the starts.
        assert (
            metric(status, variant, "agent-growing", "prefix_hit_percent") or 0
        ) > 25
        # Tokens that are found cost a tenth.
        assert (metric(status, variant, "agent-static", TOTAL_COST) or 9) < 0.5 * (
            metric(status, "baseline", "agent-static", TOTAL_COST) or 0
        )
        static, dynamic = (
            (metric(status, variant, workload, "mean_ttft_ms") or 0)
            / (metric(status, "baseline", workload, "mean_ttft_ms") or 1)
            for workload in ("agent-static", "agent-dynamic")
        )
        # By how much is the machine's affair: its two cores are shared, and each variant had a
        # server at another time.
        assert static < 0.8
        assert static < dynamic
    assert metric(status, "baseline", "agent-static", "prefix_hit_percent") is None

    # All at once, as the original: the report says what TTFT is then. And who did best, with whom
    # it may be confused.
    for number in range(1, len(variants) + 1):
        told = rows(namespace.get(RUN, f"{name}-v{number}-r1")["status"])
        at_once = {
            row["workload"]
            for row in told.values()
            if "AllAtOnce" in row["findings"]
        }
        assert at_once == {
            workload for workload in workloads if workload.endswith("-at-once")
        }
    best = {each["workload"]: each for each in status["best"]}
    assert set(best) == set(workloads)
    assert {"prefix-caching", "all"} & {
        best["agent-static"]["variant"],
        *best["agent-static"].get("tiedWith", []),
    }


def test_repeated_prompts_come_from_the_cache_where_it_is_on(
    namespace: Namespace,
) -> None:
    name = "e4-duplicates-tiny"
    status = swept(namespace, "e4-one-long-or-many-short-tiny.yaml", name)
    for workload in ("packed-12", "single"):
        assert metric(status, "uncached", workload, "prefix_hit_percent") is None
        assert (metric(status, "cached", workload, "prefix_hit_percent") or 0) > 50
    # A prompt of twelve texts is mostly prefill; of the short ones this model computes little that
    # a cache could save.
    before, after = (
        metric(status, variant, "packed-12", "total_token_throughput")
        for variant in ("uncached", "cached")
    )
    assert (after or 0) > 1.3 * (before or 1)
    # What is declared to come again is no contamination.
    assert {row["verdict"] for row in status["results"]} <= {"Valid", "Suspect"}
    assert (
        len(
            benchrun(namespace, "report", name, "--wide").table(
                "variant", "load point", "runs"
            )
        )
        == 4
    )


def test_a_new_instruction_leaves_the_texts_in_the_cache(
    namespace: Namespace,
) -> None:
    status = swept(
        namespace, "e4-one-long-or-many-short-tiny.yaml", "e4-new-instruction-tiny"
    )
    for workload in ("packed-12-new-instruction", "single-new-instruction"):
        assert metric(status, "uncached", workload, "prefix_hit_percent") is None
        assert (
            50
            < (metric(status, "cached", workload, "prefix_hit_percent") or 0)
            < 100
        )
    assert {row["verdict"] for row in status["results"]} <= {"Valid", "Suspect"}


def test_more_batch_brings_nothing_and_the_sweep_says_why(
    namespace: Namespace, tmp_path: Path
) -> None:
    name = "e4-batch-size-tiny"
    status = swept(namespace, "e4-one-long-or-many-short-tiny.yaml", name)
    results = status["results"]
    running = [row["metrics"]["running_mean"] for row in results]
    usage = [row["metrics"]["kv_cache_max_percent"] for row in results]
    assert len(results) == 3
    assert running[0] * 1.5 < running[1] < running[2]
    assert usage == sorted(usage)

    said = benchrun(namespace, "report", name)
    assert len(said.table("variant", "load point", "runs")) == 3
    # What other work on the two cores makes of throughput is its own: flat is what changes by 5 %
    # at most, and of which noise hides no growth.
    first, *others = (row["metrics"]["total_token_throughput"] for row in results)
    flat = [abs(throughput / first - 1) <= 0.05 for throughput in others]
    said_flat = ["limit" in row for row in results]
    assert not said_flat[0]
    assert all(
        is_flat
        for is_flat, said_so in zip(flat, said_flat[1:], strict=True)
        if said_so
    )
    limits = [row["limit"] for row in results if "limit" in row]
    for limit in limits:
        assert limit["limit"] == "Compute"
        assert "while running goes from" in limit["sentence"]
        assert "compute is the limit. The profile agrees:" in limit["sentence"]
        assert limit["sentence"] in said.text

    # A run alone says so where its queue changed nothing. Its profile stands behind that: steps of
    # as many tokens as they may have.
    of_runs = []
    for number, tokens in enumerate((1024, 2048, 3072), start=1):
        run = namespace.get(RUN, f"{name}-v{number}-r1")["status"]
        profile = run["profile"]
        (row,) = run["results"]
        assert (profile["limit"], profile["evidence"]["workload"]) == (
            "Compute",
            row["workload"],
        ), profile
        assert 0.8 * tokens <= profile["evidence"]["stepTokens"] <= tokens
        if row["bottleneck"]["limit"] == "Compute":
            of_runs.append(row["bottleneck"])
            assert (
                "compute is the limit. The profile agrees:"
                in row["bottleneck"]["sentence"]
            )
    assert limits or of_runs

    # The time series of all variants in one figure on the sweep's page, and each on its run's under
    # the stages.
    page = tmp_path / "sweep.html"
    assert benchrun(namespace, "report", name, f"--html={page}").exit_code == 0
    drawn = page.read_text()
    over_time = drawn.partition("Variants over time")[2]
    assert all(
        f"batch-tokens={tokens}" in over_time for tokens in (1024, 2048, 3072)
    )
    for number in (1, 2, 3):
        page = tmp_path / f"{number}.html"
        assert (
            benchrun(
                namespace, "report", f"{name}-v{number}-r1", f"--html={page}"
            ).exit_code
            == 0
        )
        drawn = page.read_text()
        assert all(
            word in drawn for word in ("Timeline", "running", "waiting", "KV")
        )
