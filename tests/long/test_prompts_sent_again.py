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

RUN, SWEEP = "BenchmarkRun", "BenchmarkSweep"
FILE = "e1-which-run-is-true-tiny.yaml"


def test_which_run_is_true_is_answered_by_cache_hits(namespace: Namespace) -> None:
    # One after the other, as on a cluster with one GPU: two servers on two cores would be each
    # other's noise.
    statuses = {}
    runs = {name: body for name, body in example(FILE).items() if body["kind"] == RUN}
    for name, wanted in runs.items():
        namespace.apply(wanted)
        statuses[name] = measured(namespace, RUN, name, timeout_seconds=1500)
    same, new = statuses["e1-same-prompts-tiny"], statuses["e1-new-prompts-tiny"]

    # Run 1 is true and run 2 is not: nearly all of its prompts were computed before.
    told = finding(same, "PrefixCacheContaminated")
    assert (told["severity"], told["worstStage"], told["count"]) == (
        "Invalid",
        "long-prompts/rate=2/r2",
        1,
    )
    evidence = told["evidence"]
    assert evidence["lookedUpTokens"] == pytest.approx(60 * 1000, rel=0.02)
    assert 0.8 * evidence["lookedUpTokens"] < evidence["hitTokens"] < evidence["lookedUpTokens"]
    # The report says so itself: which repeat is true, by how much the other differs, and that it is
    # the cache.
    cell = "long-prompts/rate=2"
    answer = explanation(rows(same)[cell], "TrueRun")
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
    noise = explanation(rows(new)[cell], "TrueRun")
    assert (noise["answer"], noise["evidence"]["hitTokens"]) == ("Noise", 0)
    assert noise["evidence"]["lookedUpTokens"] > 100_000
    assert answer["evidence"]["compilations"] == noise["evidence"]["compilations"] == 0
    # And the cache, which is on there as well, need not be off.
    assert {row["roles"][0]["prefixHitPercent"] for row in new["results"]} == {0}
    assert "PrefixCacheContaminated" not in {each["code"] for each in new["findings"]}

    # Fewer tokens than expected: the model ended its answers.
    short = explanation(rows(new)["ends-early/concurrency=4"], "AnswerLength")
    assert short["answer"] == "StopToken"
    assert short["evidence"].items() >= {"requests": 24, "expectedTokens": 24 * 512}.items()
    assert 0 < short["evidence"]["outputTokens"] < 24 * 512

    said = benchrun(namespace, "report", "e1-same-prompts-tiny")
    assert said.exit_code == 4
    (shown,) = [
        row
        for row in said.table("severity", "finding")
        if row["finding"] == "PrefixCacheContaminated"
    ]
    assert f"{100 * evidence['hitTokens'] / evidence['lookedUpTokens']:.3g} %" in shown["evidence"]
    assert "measurement.cachePolicy" in shown["what to do"]

    # What a stream of all lengths would see; a percentile is bounded on both sides, or marked.
    said = benchrun(namespace, "report", "e1-new-prompts-tiny", "--wide")
    bounds = [
        row
        for row in said.table("load point", "percentile (ms)")
        if row["load point"] == "mix/rate=2"
    ]
    hidden = {"itl"} if "ChunksAreNotTokens" in rows(new)["mix/rate=2"]["findings"] else set()
    latencies = [name for name in LATENCIES if name not in hidden]
    assert {row["percentile (ms)"] for row in bounds} == {
        f"p{p}_{name}" for p in PERCENTILES for name in latencies
    }
    sure = [row for row in bounds if not row["measured"].endswith("?")]
    assert {f"p50_{name}" for name in latencies} <= {row["percentile (ms)"] for row in sure}
    assert all(
        float(row["at least"]) <= float(row["measured"]) <= float(row["at most"]) for row in sure
    )
    means = [rows(new)["mix/rate=2"]["metrics"][f"mean_{name}_ms"] for name in ("ttft", "e2el")]
    assert 0 < means[0] < means[1]
    # Of the repeat that found its prompts in the cache, too, the end-to-end latency is told.
    true, other = rows(same)[cell]["byRepeat"]["mean_e2el_ms"]
    assert 0 < other < true
    settings = {row["setting"]: row["value"] for row in said.table("setting", "value")}
    assert settings["enable-log-requests"] == "false"


def test_the_riddle_is_one_sweep_whose_hits_explain_every_run(namespace: Namespace) -> None:
    name = "e1-riddle-tiny"
    namespace.apply(example(FILE)[name])
    status = measured(namespace, SWEEP, name, timeout_seconds=3600)
    hits = {
        (row["variant"], row["cell"].partition("/")[0]): row["metrics"].get("prefix_hit_percent")
        for row in status["results"]
    }
    on = {workload: share for (variant, workload), share in hits.items() if variant == "cache-on"}
    # Blocks of 128 tokens: what the runs before left, of the tokens of this one. The riddle: run 1
    # at 1750 and 2500 tokens is slow, and only there; at 1750 with longer answers and at 3000
    # tokens it is fast at once.
    blocks, tokens = (
        {175: 1, 300: 2, 1750: 13, 2500: 19, 3000: 23},
        [int(name.split("-")[1]) for name in on],
    )
    left = [0, *(blocks[max(tokens[:place])] for place in range(1, len(tokens)))]
    expected = [
        128 * min(left[place], blocks[length]) / length for place, length in enumerate(tokens)
    ]
    assert tokens == [175, *[300] * 4, *[1750] * 4, 2500, 2500, 1750, *[3000] * 4]
    assert list(on.values()) == pytest.approx([100 * share for share in expected], abs=3)
    assert {share for (variant, _), share in hits.items() if variant == "cache-off"} == {None}
    verdicts = {
        row["cell"]: row["verdict"] for row in status["results"] if row["variant"] == "cache-on"
    }
    assert [verdict == "Invalid" for verdict in verdicts.values()] == [False, *[True] * 15]

    # The report of each run names what was sent before it: of as many tokens, with fewer output
    # tokens, and of fewer.
    told = rows(namespace.get(RUN_KIND, f"{name}-v2-r1")["status"])
    for workload, earlier, length in (
        ("in-1750-out-30", "in-1750-out-10-run-3", 1750),
        ("in-2500-out-30-run-1", "in-1750-out-30", 1750),
        ("in-3000-out-10-run-1", "in-2500-out-30-run-2", 2500),
    ):
        answer = explanation(told[f"{workload}/rate=inf"], "TrueRun")
        assert (answer["answer"], answer["evidence"]["trueRepeats"]) == ("PrefixCache", "none")
        assert answer["evidence"]["earlierCell"] == f"{earlier}/rate=inf"
        assert answer["evidence"]["earlierTokens"] == pytest.approx(length, rel=0.01)
        assert answer["evidence"]["inputTokens"] == pytest.approx(
            int(workload.split("-")[1]), rel=0.01
        )


def test_a_dynamic_prefix_gains_only_where_its_prompts_were_sent_before(
    namespace: Namespace,
) -> None:
    name, cell = "e3-sent-again-tiny", "agent-dynamic/concurrency=4"
    objects = example("e3-which-optimisation-tiny.yaml")
    namespace.apply(objects["e3-talks"])
    namespace.apply(objects[name])
    status = measured(namespace, RUN, name, timeout_seconds=1500)
    told = finding(status, "PrefixCacheContaminated")
    assert (told["severity"], told["worstStage"], told["count"]) == ("Invalid", f"{cell}/r2", 1)
    answer = explanation(rows(status)[cell], "TrueRun")
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
    assert answer["evidence"]["hitTokens"] > 0.8 * answer["evidence"]["lookedUpTokens"]


def test_requests_wait_for_a_place_whatever_the_cache(namespace: Namespace) -> None:
    name = "e1-waiting-tiny"
    namespace.apply(example(FILE)[name])
    status = measured(namespace, SWEEP, name, timeout_seconds=3600)
    variants = [f"seqs={seqs},cache={cache}" for seqs in (8, 16) for cache in ("off", "on")]
    assert [row["variant"] for row in status["results"]] == [
        variant for variant in variants for _ in range(3)
    ]
    # New prompts: whether they are looked up or not, nothing is found.
    assert not any(row["metrics"].get("prefix_hit_percent") for row in status["results"])
    # 32 at once, and 8 places: 24 wait for one.
    for number in (1, 2):
        run = namespace.get(RUN_KIND, f"{name}-v{number}-r1")
        crowd = rows(run["status"])["prompts-32/rate=inf"]
        assert crowd["waiting"]["reason"] == "SequenceLimit", crowd["waiting"]
        # The most tokens of a request bound none of it: together these have more.
        evidence = explanation(crowd, "MaxModelLen")["evidence"]
        assert (
            evidence["maxModelLen"] == 4096 < evidence["tokensInFlight"] < evidence["kvCacheTokens"]
        )
        assert evidence["longestTokens"] == pytest.approx(100 + 256, rel=0.02)
