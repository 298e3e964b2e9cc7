"""Real vLLM: which of two runs is true, where the prompts of the second are those of the first,
applied as docs/experiments has it."""

import pytest
from kit.examples import (
    LATENCIES,
    PERCENTILES,
    benchrun,
    example,
    explanation,
    finding,
    measured,
    rows,
)
from kit.kubectl import RUN as RUN_KIND, Namespace

pytestmark = pytest.mark.timeout(4000)

RUN = "BenchmarkRun"
SWEEP = "BenchmarkSweep"
FILE = "e1-which-run-is-true-tiny.yaml"
# Percent of prompt tokens, computed from the draws of the generator and blocks of 128 tokens.
RIDDLE_HITS = [19.1, 95.7, 95.7, 19.4, 95.7, 9.5, 95.7, 95.7, 95.7, 95.7]
CLOSING_HITS = [19.2, 19.1]


def test_which_run_is_true_is_answered_by_cache_hits(namespace: Namespace) -> None:
    # One after the other, as on a cluster with one GPU: two servers on two cores would be each
    # other's noise.
    statuses = {}
    runs = {
        name: body for name, body in example(FILE).items() if body["kind"] == RUN
    }
    for name, wanted in runs.items():
        namespace.apply(wanted)
        statuses[name] = measured(namespace, RUN, name, timeout_seconds=1500)
    same = statuses["e1-same-prompts-tiny"]
    new = statuses["e1-new-prompts-tiny"]

    # Run 1 is true and run 2 is not: nearly all of its prompts were computed before.
    told = finding(same, "PrefixCacheContaminated")
    assert (told["severity"], told["worstStage"], told["count"]) == (
        "Invalid",
        "long-prompts/rate=2/r2",
        1,
    )
    evidence = told["evidence"]
    assert evidence["lookedUpTokens"] == pytest.approx(60 * 1000, rel=0.02)
    assert (
        0.8 * evidence["lookedUpTokens"]
        < evidence["hitTokens"]
        < evidence["lookedUpTokens"]
    )
    # The report says so itself: which repeat is true, by how much the other differs, and that it is
    # the cache.
    load_point = "long-prompts/rate=2"
    answer = explanation(rows(same)[load_point], "TrueRun")
    assert (
        answer["answer"],
        answer["evidence"]["trueRepeats"],
        answer["evidence"]["otherRepeats"],
    ) == (
        "PrefixCache",
        "1",
        "2",
    )
    assert answer["evidence"]["changePercent"] < -20
    assert answer["evidence"]["hitTokens"] == evidence["hitTokens"]
    # It is the cache and no compilation: new prompts show no more than noise, and nothing was
    # compiled meanwhile. By how much a busy machine's repeats differ by chance is its own.
    noise = explanation(rows(new)[load_point], "TrueRun")
    assert (noise["answer"], noise["evidence"]["hitTokens"]) == ("Noise", 0)
    assert noise["evidence"]["lookedUpTokens"] > 100_000
    assert (
        answer["evidence"]["compilations"] == noise["evidence"]["compilations"] == 0
    )
    # And the cache, which is on there as well, need not be off.
    assert {row["roles"][0]["prefixHitPercent"] for row in new["results"]} == {0}
    assert "PrefixCacheContaminated" not in {
        each["code"] for each in new["findings"]
    }

    # Fewer tokens than expected: the model ended its answers.
    short = explanation(rows(new)["ends-early/concurrency=4"], "AnswerLength")
    assert short["answer"] == "StopToken"
    assert (
        short["evidence"].items()
        >= {"requests": 24, "expectedTokens": 24 * 512}.items()
    )
    assert 0 < short["evidence"]["outputTokens"] < 24 * 512

    said = benchrun(namespace, "report", "e1-same-prompts-tiny")
    assert said.exit_code == 4
    (shown,) = [
        row
        for row in said.table("severity", "finding")
        if row["finding"] == "PrefixCacheContaminated"
    ]
    assert (
        f"{100 * evidence['hitTokens'] / evidence['lookedUpTokens']:.3g} %"
        in shown["evidence"]
    )
    assert "measurement.cachePolicy" in shown["what to do"]

    # What a stream of all lengths would see; a percentile is bounded on both sides, or marked.
    said = benchrun(namespace, "report", "e1-new-prompts-tiny", "--wide")
    bounds = [
        row
        for row in said.table("load point", "percentile (ms)")
        if row["load point"] == "mix/rate=2"
    ]
    hidden = (
        {"itl"}
        if "ChunksAreNotTokens" in rows(new)["mix/rate=2"]["findings"]
        else set()
    )
    latencies = [name for name in LATENCIES if name not in hidden]
    assert {row["percentile (ms)"] for row in bounds} == {
        f"p{p}_{name}" for p in PERCENTILES for name in latencies
    }
    sure = [row for row in bounds if not row["measured"].endswith("?")]
    assert {f"p50_{name}" for name in latencies} <= {
        row["percentile (ms)"] for row in sure
    }
    assert all(
        float(row["at least"]) <= float(row["measured"]) <= float(row["at most"])
        for row in sure
    )
    means = [
        rows(new)["mix/rate=2"]["metrics"][f"mean_{name}_ms"]
        for name in ("ttft", "e2el")
    ]
    assert 0 < means[0] < means[1]
    # Of the repeat that found its prompts in the cache, too, the end-to-end latency is told.
    true, other = rows(same)[load_point]["byRepeat"]["mean_e2el_ms"]
    assert 0 < other < true
    settings = {
        row["setting"]: row["value"] for row in said.table("setting", "value")
    }
    assert settings["enable-log-requests"] == "false"


def test_the_riddle_is_one_sweep_whose_hits_explain_every_run(
    namespace: Namespace,
) -> None:
    name = "e1-riddle-tiny"
    namespace.apply(example(FILE)[name])
    status = measured(namespace, SWEEP, name, timeout_seconds=3600)
    hits = {
        (row["variant"], row["loadPoint"].partition("/")[0]): row["metrics"].get(
            "prefix_hit_percent"
        )
        for row in status["results"]
    }
    on = {
        workload: share
        for (variant, workload), share in hits.items()
        if variant == "cache-on"
    }
    # Blocks of 128 tokens. Run 1 is slow where its prompts begin as none before; longer answers
    # repeat it, longer prompts do not. With one prompt the test request was the whole of it.
    assert list(on) == [
        "in-1610-out-12-run-1",
        "in-1610-out-12-run-2",
        "in-1610-out-36",
        "in-2300-out-36",
        "in-1610-out-36-again",
        "in-1610-out-36-ten",
        *(f"in-2760-out-12-run-{n}" for n in range(1, 5)),
    ]
    assert list(on.values()) == pytest.approx(RIDDLE_HITS, abs=6)
    assert {
        share for (variant, _), share in hits.items() if variant == "cache-off"
    } == {None}


def test_the_closing_runs_are_slow_both_for_the_longer_prompts_begin_otherwise(
    namespace: Namespace,
) -> None:
    name = "e1-closing-tiny"
    namespace.apply(example(FILE)[name])
    told = rows(measured(namespace, RUN, name, timeout_seconds=1500))
    hits = [
        role["prefixHitPercent"] for row in told.values() for role in row["roles"]
    ]
    assert hits == pytest.approx(CLOSING_HITS, abs=6)


def test_a_dynamic_prefix_gains_only_where_its_prompts_were_sent_before(
    namespace: Namespace,
) -> None:
    name = "e3-sent-again-tiny"
    load_point = "agent-dynamic/concurrency=4"
    objects = example("e3-which-optimisation-tiny.yaml")
    namespace.apply(objects["e3-talks"])
    namespace.apply(objects[name])
    status = measured(namespace, RUN, name, timeout_seconds=1500)
    told = finding(status, "PrefixCacheContaminated")
    assert (told["severity"], told["worstStage"], told["count"]) == (
        "Invalid",
        f"{load_point}/r2",
        1,
    )
    answer = explanation(rows(status)[load_point], "TrueRun")
    assert (
        answer["answer"],
        answer["evidence"]["trueRepeats"],
        answer["evidence"]["otherRepeats"],
    ) == (
        "PrefixCache",
        "1",
        "2",
    )
    assert answer["evidence"]["changePercent"] < -20
    assert (
        answer["evidence"]["hitTokens"] > 0.8 * answer["evidence"]["lookedUpTokens"]
    )


def test_requests_wait_for_a_place_whatever_the_cache(namespace: Namespace) -> None:
    name = "e1-waiting-tiny"
    namespace.apply(example(FILE)[name])
    status = measured(namespace, SWEEP, name, timeout_seconds=3600)
    variants = [
        f"seqs={seqs},cache={cache}" for seqs in (8, 16) for cache in ("off", "on")
    ]
    assert [row["variant"] for row in status["results"]] == [
        variant for variant in variants for _ in range(3)
    ]
    # New prompts: whether they are looked up or not, nothing is found.
    assert not any(
        row["metrics"].get("prefix_hit_percent") for row in status["results"]
    )
    # 32 at once, and 8 places: 24 wait for one.
    for number in (1, 2):
        told = rows(namespace.get(RUN_KIND, f"{name}-v{number}-r1")["status"])
        crowd = told["prompts-32/rate=inf"]
        assert crowd["waiting"]["reason"] == "SequenceLimit", crowd["waiting"]
        # The most tokens of a request bound none of it: together these have more. It is said of
        # the first load point that shows it, which may be that of 16 prompts.
        (evidence,) = (
            each["evidence"]
            for row in told.values()
            for each in row["explanations"]
            if each["question"] == "MaxModelLen"
        )
        assert (
            evidence["maxModelLen"]
            == 4096
            < evidence["tokensInFlight"]
            < evidence["kvCacheTokens"]
        )
        assert evidence["longestTokens"] == pytest.approx(100 + 256, rel=0.02)
