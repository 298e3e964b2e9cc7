"""What must be the same on both sides, and what is said when it is not."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, RoleFigures
from benchrun.judge.comparison.comparability import (
    MeasuredRun,
    caveats,
    load_point_obstacle,
    obstacle,
)
from benchrun.judge.comparison.compare import not_comparable
from unit.judge.comparison.sides import (
    CLIENT,
    LOAD_POINT,
    compared,
    failed,
    repeated,
    row,
    run,
    words,
)
from unit.plan.specs import concurrencies, rates, spec, workload

OTHER_MODEL = spec(model={"name": "Qwen/Qwen3-8B"})
REVISION = spec(model={"name": "Qwen/Qwen3-4B", "revision": "abc"})
ENDPOINT = spec(server=None, endpoint={"url": "http://llm"})


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        pytest.param(
            "model: Qwen/Qwen3-4B in a, Qwen/Qwen3-8B in b",
            run("b", run_spec=OTHER_MODEL),
            id="model",
        ),
        pytest.param(
            "model: Qwen/Qwen3-4B in a, Qwen/Qwen3-4B@abc in b",
            run("b", run_spec=REVISION),
            id="revision",
        ),
        pytest.param(
            "GPUs: 1 in a, 2 in b", run("b", server={"gpus": 2}), id="GPU count"
        ),
        pytest.param(
            "GPUs: 1 in a, 0 in b",
            run("b", server={"gpus": 0, "gpu": None}),
            id="no GPU",
        ),
        pytest.param(
            "GPU: H100 in a, A100 in b",
            run("b", server={"gpu": "A100"}),
            id="GPU kind",
        ),
        pytest.param(
            "server: a fresh server in a, an endpoint in b",
            run("b", run_spec=ENDPOINT),
            id="endpoint",
        ),
        pytest.param(
            "client engine: vllm 0.32.0 in a, vllm 0.31.0 in b",
            run("b", client=CLIENT.model_copy(update={"engine_version": "0.31.0"})),
            id="engine",
        ),
        pytest.param(
            "client engine: vllm 0.32.0 in a, vllm-offline 0.32.0 in b",
            run("b", client=CLIENT.model_copy(update={"engine": "vllm-offline"})),
            id="another engine",
        ),
        pytest.param(
            "client image: client:1 in a, client:2 in b",
            run("b", client=CLIENT.model_copy(update={"image": "client:2"})),
            id="client image",
        ),
        pytest.param(
            "cache policy: Isolate in a, Share in b",
            run("b", run_spec=spec(measurement={"cachePolicy": "Share"})),
            id="cache",
        ),
        pytest.param(
            "warm-up: auto in a, none in b",
            run("b", run_spec=spec(measurement={"warmup": {"none": {}}})),
            id="warm-up",
        ),
        pytest.param(
            "b has not finished",
            run("b", status={"completion_time": None}),
            id="not finished",
        ),
        pytest.param(
            "b did not measure to its end (Failed)", failed("b"), id="failed"
        ),
        pytest.param(
            "a is named twice: compare different runs", run("a"), id="itself"
        ),
    ],
)
def test_runs_that_differ_in_what_is_not_compared(
    reason: str, after: MeasuredRun
) -> None:
    found = compared(run("a"), after, limit=5)
    assert found._replace(settings=()) == not_comparable(reason, gated=True)
    assert (found.scope, found.outcome, found.gate, found.load_points) == (
        None,
        "NotComparable",
        "Inconclusive",
        [],
    )


def test_the_server_may_differ_from_side_to_side() -> None:
    other = spec(
        server={"image": "vllm/vllm-openai:v0.33.0", "args": ["--enforce-eager"]}
    )
    assert (
        compared(
            repeated("a"), run("b", [row(repeats=5, cv=1)], run_spec=other)
        ).outcome
        == "NoDetectableDifference"
    )


def templated(name: str, text: str, digest: str | None) -> MeasuredRun:
    client = CLIENT.model_copy(update={"chat_template": digest})
    return run(
        name,
        [row(repeats=5, cv=1)],
        run_spec=spec(chatTemplate={"inline": text}),
        client=client,
    )


def test_chats_must_be_rendered_by_the_same_template() -> None:
    given = templated("a", "x", "a" * 64)
    other = templated("b", "y", "b" * 64)
    unknown = templated("b", "y", None)
    reason = f"chat template: SHA-256 {'a' * 12} in a, SHA-256 {'b' * 12} in b"
    found = compared(given, other, limit=5)
    assert found._replace(settings=()) == not_comparable(reason, gated=True)
    assert "chat template: the model's own in a, SHA-256" in str(
        compared(run("a"), other, limit=5)
    )
    assert (
        compared(given, templated("b", "x", "a" * 64)).outcome
        == "NoDetectableDifference"
    )
    assert compared(given, unknown).outcome == "NoDetectableDifference", (
        "not known of both"
    )


def committed(name: str, commit: str | None, **changes: Any) -> MeasuredRun:
    return run(
        name,
        [row(repeats=5, cv=1)],
        client=CLIENT.model_copy(update={"commit": commit}),
        run_spec=spec(**changes),
    )


def test_a_branch_that_moved_between_the_sides_is_no_longer_the_same_model() -> (
    None
):
    reason = f"tokenizer's commit: {'a' * 40} in a, {'b' * 40} in b"
    found = compared(committed("a", "a" * 40), committed("b", "b" * 40), limit=5)
    assert found._replace(settings=()) == not_comparable(reason, gated=True)
    for other in ("a" * 40, None):
        assert (
            compared(committed("a", "a" * 40), committed("b", other)).outcome
            == "NoDetectableDifference"
        )
    assert (
        obstacle([committed("a", "a" * 40)], [committed("b", "b" * 40)], swept=True)
        == reason
    )


def test_a_sweep_over_models_compares_their_commits_too() -> None:
    other = committed("b", "b" * 40, model={"name": "Qwen/Qwen3-8B"})
    assert obstacle([committed("a", "a" * 40)], [other], swept=True) is None


def choosing(name: str, run_spec: Any = None, **chosen: str) -> MeasuredRun:
    return run(
        name,
        [row(repeats=5, cv=1)],
        run_spec=run_spec,
        server={"imageDigest": "vllm@sha256:1", "reported": chosen},
    )


def test_servers_started_alike_must_have_chosen_alike() -> None:
    flash = choosing("a", attention_backend="FLASH_ATTN")
    other = choosing("b", attention_backend="TRITON_ATTN")
    reason = (
        "attention backend: FLASH_ATTN in a, TRITON_ATTN in b, although both servers "
        "have the same image and arguments"
    )
    found = compared(flash, other, limit=5)
    assert found._replace(settings=()) == not_comparable(reason, gated=True)
    assert (
        compared(flash, choosing("b", attention_backend="FLASH_ATTN")).outcome
        == "NoDetectableDifference"
    )
    assert (
        compared(flash, choosing("b", dtype="float16")).outcome
        == "NoDetectableDifference"
    ), "not known of both"


def test_a_server_that_was_started_otherwise_may_choose_otherwise() -> None:
    other = spec(
        server={"image": "vllm/vllm-openai:v0.32.0", "args": ["--dtype", "float16"]}
    )
    found = compared(
        choosing("a", dtype="bfloat16"),
        choosing("b", run_spec=other, dtype="float16"),
    )
    assert found.outcome == "NoDetectableDifference"


def test_what_servers_chose_differently_is_told_where_they_may() -> None:
    other = spec(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "args": ["--max-num-seqs", "8"],
        }
    )
    before = choosing("a", dtype="bfloat16", attention_backend="FLASH_ATTN")
    after = choosing(
        "b",
        run_spec=other,
        dtype="bfloat16",
        attention_backend="TRITON_ATTN",
        quantization="fp8",
    )
    found = compared(before, after)
    assert "attention backend: FLASH_ATTN in a, TRITON_ATTN in b" in found.message
    assert "quantization" not in found.message.partition(". Known of one side")[0]
    assert caveats([before], [after]) == []


@pytest.mark.parametrize(
    ("mhz", "told"),
    [
        (1980.0, False),
        (1922.0, False),
        (1915.0, True),
        (2050.0, True),
        (None, False),
    ],
)
def test_clocks_more_than_3_percent_apart_are_told(
    mhz: float | None, told: bool
) -> None:
    def clocked(name: str, clock: float | None) -> MeasuredRun:
        roles = [RoleFigures(role="server", sm_clock_mean_mhz=clock)]
        return run(name, [row(repeats=5, cv=1).model_copy(update={"roles": roles})])

    found = caveats([clocked("a", 1980.0)], [clocked("b", mhz)])
    assert found == (
        [f"SM clocks at {LOAD_POINT}: 1980 MHz in a, {mhz:.0f} MHz in b"]
        if told
        else []
    )


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        ((0, 0), False),
        ((0, 4), False),
        ((0, 8), True),
        ((8, 0), True),
        ((8, 8), False),
        ((5, 10), False),
    ],
)
def test_sides_whose_requests_fail_unlike_are_told(
    failed: tuple[int, int], told: bool
) -> None:
    """Of 1,000 a side. A side that fails more of its long requests looks faster."""

    def failing(name: str, count: int) -> MeasuredRun:
        given = row(repeats=5, cv=1)
        metrics = given.metrics | {"failed": count, "completed": 1000 - count}
        return run(name, [given.model_copy(update={"metrics": metrics})])

    before = failing("a", failed[0])
    after = failing("b", failed[1])
    counts = f"{failed[0]} of 1000 in a, {failed[1]} of 1000 in b"
    assert any(counts in each for each in caveats([before], [after])) is told


POOLED = spec(
    server={
        "image": "vllm/vllm-openai:v0.32.0",
        "pod": {"nodeSelector": {"pool": "gpu"}},
    }
)


@pytest.mark.parametrize(
    ("defaults", "other_defaults", "other_spec", "told"),
    [
        pytest.param({"env.A": "1"}, {"env.A": "1"}, None, [], id="the same"),
        pytest.param(
            {"env.A": "1"},
            {"env.A": "2"},
            None,
            ["server env.A: 1 in a, 2 in b"],
            id="another",
        ),
        pytest.param(
            {},
            {"env.A": "2"},
            None,
            ["server env.A: not set in a, 2 in b"],
            id="new",
        ),
        pytest.param(
            {"nodeSelector": "{pool: gpu}"}, {}, POOLED, [], id="said by the spec"
        ),
        pytest.param(
            {"nodeSelector": "{pool: cpu}"},
            {},
            POOLED,
            ["server nodeSelector: {pool: cpu} in a, {pool: gpu} in b"],
            id="said otherwise",
        ),
    ],
)
def test_what_the_platform_set_differently_is_told(
    defaults: dict[str, str],
    other_defaults: dict[str, str],
    other_spec: BenchmarkRunSpec | None,
    told: list[str],
) -> None:
    before = run("a", server={"defaults": defaults})
    after = run("b", run_spec=other_spec, server={"defaults": other_defaults})
    assert caveats([before], [after]) == told


def test_what_the_platform_set_for_the_client_is_told_too() -> None:
    client = CLIENT.model_copy(update={"defaults": {"nodeSelector": "{pool: cpu}"}})
    told = "client nodeSelector: not set in a, {pool: cpu} in b"
    assert caveats([run("a")], [run("b", client=client)]) == [told]


def test_the_platforms_defaults_may_not_differ_within_a_side() -> None:
    found = compared(
        [run("a1"), run("a2", server={"defaults": {"env.A": "1"}})],
        [run("b1"), run("b2")],
    )
    assert "differ: server env.A: not set in a1, 1 in a2" in found.message
    assert found.outcome == "NotComparable"


def test_the_server_may_not_differ_within_a_side() -> None:
    other = spec(server={"image": "vllm/vllm-openai:v0.33.0"})
    found = compared([run("a1"), run("a2", run_spec=other)], [run("b1"), run("b2")])
    assert (
        found.message
        == "not comparable: a1 and a2 are on the same side but their servers differ; "
        "the runs of one side need equal servers"
    )


def test_one_run_against_several_is_rejected() -> None:
    """The lonely one says nothing of how servers differ, the others nothing of how its repeats
    do."""
    assert (
        "one run against several"
        in compared(repeated("a"), [run("b1"), run("b2")]).message
    )


def _workload(**changes: Any) -> MeasuredRun:
    return run(
        "b", [row(repeats=5, cv=1)], run_spec=spec(workloads=[workload(**changes)])
    )


@pytest.mark.parametrize(
    ("names", "tokens", "same"),
    [("xy", 8, True), ("pq", 8, True), ("xy", 9, False)],
)
def test_a_mix_is_compared_by_what_its_parts_send(
    names: str, tokens: int, same: bool
) -> None:
    def mixed(run_name: str, parts: str, input_tokens: int) -> MeasuredRun:
        datasets = [{"random": {"inputTokens": input_tokens}}, {"random": {}}]
        body = [workload(dataset={"mix": [{"workload": part} for part in parts]})]
        body += [
            {"name": part, "dataset": dataset}
            for part, dataset in zip(parts, datasets, strict=True)
        ]
        return run(run_name, [row(repeats=5, cv=1)], run_spec=spec(workloads=body))

    found = load_point_obstacle(
        "chat/rate=4", [mixed("a", "xy", 8)], [mixed("b", names, tokens)]
    )
    assert (found is None) is same


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        pytest.param(
            "dataset differs between a and b",
            _workload(dataset={"random": {"inputTokens": 256}}),
            id="dataset",
        ),
        pytest.param(
            "api differs between a and b", _workload(api="Chat"), id="api"
        ),
        pytest.param(
            "ignoreEOS differs between a and b",
            _workload(ignoreEOS=False),
            id="ignoreEOS",
        ),
        pytest.param(
            "sampling.temperature differs between a and b",
            _workload(sampling={"temperature": "0.7"}),
            id="temperature",
        ),
        pytest.param(
            "sampling.repetitionPenalty differs between a and b",
            _workload(sampling={"repetitionPenalty": "1.1"}),
            id="repetition penalty",
        ),
        pytest.param(
            "the number of requests differs between a and b",
            _workload(requests=50),
            id="requests",
        ),
        pytest.param(
            "maxConcurrency differs between a and b",
            _workload(load={"requestRates": ["4"], "maxConcurrency": 8}),
            id="cap",
        ),
        pytest.param(
            "burstiness differs between a and b",
            _workload(load={"requestRates": ["4"], "burstiness": "0.5"}),
            id="burstiness",
        ),
        pytest.param(
            "the figures are Invalid in b",
            run("b", repeats=5, cv=1, verdict="Invalid"),
            id="invalid",
        ),
        pytest.param(
            "the figures are Unknown in b",
            run("b", repeats=5, cv=1, verdict="Unknown"),
            id="not judged",
        ),
        pytest.param(
            "b has no results for this load point",
            run("b", [row("chat/rate=8")]),
            id="missing load point",
        ),
        pytest.param(
            "b has no such workload in its spec",
            run(
                "b",
                repeats=5,
                cv=1,
                run_spec=spec(workloads=[workload("other", load=rates("4"))]),
            ),
            id="row of another spec",
        ),
    ],
)
def test_a_load_point_that_is_not_comparable(
    reason: str, after: MeasuredRun
) -> None:
    found = compared(repeated("a"), after)
    assert (
        found.outcome,
        found.scope,
        found.load_points[0].reason,
        found.load_points[0].changes,
    ) == (
        "NotComparable",
        None,
        reason,
        [],
    )
    assert found.message == f"no load point is comparable: {LOAD_POINT}: {reason}"


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": "0.0"}, {"repetitionPenalty": "1.00"}]
)
def test_greedy_is_greedy_however_it_is_written(sampling: dict[str, str]) -> None:
    assert (
        compared(repeated("a"), _workload(sampling=sampling)).load_points[0].reason
        is None
    )


@pytest.mark.parametrize(
    ("unknown", "before", "after"),
    [
        (True, None, "greedy"),
        (True, "greedy", None),
        (False, "greedy", "greedy"),
        (False, None, None),
    ],
)
def test_records_without_sampling_are_compared_with_a_remark(
    unknown: bool, before: str | None, after: str | None
) -> None:
    a, b = (
        run(name, [row(repeats=5, cv=1).model_copy(update={"sampling": text})])
        for name, text in (("a", before), ("b", after))
    )
    found = compared(a, b)
    silent = "a" if before is None else "b"
    assert (
        f"The results of {silent} do not say how the server chose tokens"
        in found.message
    ) is unknown
    assert found.load_points[0].reason is None


@pytest.mark.parametrize(
    ("what", "load"),
    [
        pytest.param("start", {"start": "Together"}, id="start"),
        pytest.param(
            "thinkSeconds", {"thinkSeconds": {"mean": "2"}}, id="think times"
        ),
        pytest.param(None, {"start": "Spread"}, id="the default"),
        pytest.param(None, {"concurrencies": [8, 16]}, id="other load points"),
    ],
)
def test_users_that_begin_or_think_otherwise_are_not_comparable(
    what: str | None, load: dict[str, object]
) -> None:
    def of_users(name: str, **changes: object) -> MeasuredRun:
        body = [workload(load={"concurrencies": [8], **changes})]
        rows = [row("chat/concurrency=8", repeats=5, cv=1)]
        return run(name, rows, run_spec=spec(workloads=body))

    reason = compared(of_users("a"), of_users("b", **load)).load_points[0].reason
    assert reason == (None if what is None else f"{what} differs between a and b")


@pytest.mark.parametrize(
    "load", [{"requestRates": ["4"], "burstiness": "1.0"}, rates("4", "8")]
)
def test_other_load_points_and_other_spellings_of_a_default_change_nothing(
    load: dict[str, object],
) -> None:
    assert (
        compared(repeated("a"), _workload(load=load)).load_points[0].reason is None
    )


@pytest.mark.parametrize(
    ("request_", "same"),
    [
        ({}, True),
        ({"chat": {}, "extraBody": {}}, True),
        ({"chat": {"templateArguments": {}}}, True),
        ({"chat": {"thinking": False}}, False),
        ({"responseFormat": {"jsonSchema": {}}}, False),
    ],
)
def test_a_request_that_says_nothing_is_as_one_that_is_left_out(
    request_: dict[str, object], same: bool
) -> None:
    def asked(name: str, **more: Any) -> MeasuredRun:
        body = workload(api="Chat", ignoreEOS=False, **more)
        return run(name, [row(repeats=5, cv=1)], run_spec=spec(workloads=[body]))

    found = compared(asked("a"), asked("b", request=request_))
    reason = found.load_points[0].reason
    assert reason == (None if same else "request differs between a and b")


def test_what_is_comparable_is_compared_beside_what_is_not() -> None:
    both = spec(workloads=[workload(), workload("bulk", load=concurrencies(8))])
    rows = [row(repeats=5, cv=1), row("bulk/concurrency=8", repeats=5, cv=1)]
    spoiled = [
        rows[0],
        row("bulk/concurrency=8", repeats=5, cv=1, verdict="Invalid"),
    ]
    found = compared(
        run("a", rows, run_spec=both), run("b", spoiled, run_spec=both)
    )
    assert words(found) == {
        "OutputThroughput": "NoDetectableDifference",
        "MeanTTFT": "NoDetectableDifference",
    }
    assert (
        "1 of 2 load points not comparable (bulk/concurrency=8: the figures are Invalid in b)"
        in found.message
    )


@pytest.mark.parametrize(
    ("paired", "before", "after"),
    [
        pytest.param(True, ["t1"], ["t1"], id="equal"),
        pytest.param(False, ["t1"], ["t2"], id="different"),
        pytest.param(False, [None], [None], id="not known"),
        pytest.param(True, ["t1", "t2"], ["t2", "t1"], id="each has its like"),
        pytest.param(False, ["t1", "t2"], ["t1", "t1"], id="one has none"),
    ],
)
def test_paired_is_reported_where_the_traffic_was_equal(
    paired: bool, before: list[str | None], after: list[str | None]
) -> None:
    first, second = (
        [run(f"{name}{n}", traffic=t) for n, t in enumerate(side)]
        for name, side in (("a", before), ("b", after))
    )
    assert compared(first, second).load_points[0].paired == paired


@pytest.mark.parametrize(
    ("scope", "before", "after"),
    [
        pytest.param(
            "WithinOneServer",
            [repeated("a")],
            [repeated("b")],
            id="one server a side",
        ),
        pytest.param(
            "BetweenServers",
            [run("a1"), run("a2")],
            [run("b1"), run("b2")],
            id="fresh servers",
        ),
        pytest.param(
            "WithinOneServer",
            [run("a1", run_spec=ENDPOINT), run("a2", run_spec=ENDPOINT)],
            [run("b1", run_spec=ENDPOINT), run("b2", run_spec=ENDPOINT)],
            id="runs at an endpoint have met one server",
        ),
    ],
)
def test_the_scope_never_claims_more_than_was_measured(
    scope: str, before: list[MeasuredRun], after: list[MeasuredRun]
) -> None:
    found = compared(before, after)
    assert found.scope == scope
    assert (
        "Within one server" in found.message,
        "Between servers" in found.message,
    ) == (
        scope == "WithinOneServer",
        scope == "BetweenServers",
    )


@pytest.mark.parametrize(
    ("noted", "node"),
    [
        pytest.param(True, "n2", id="another node"),
        pytest.param(False, "n1", id="the same node"),
    ],
)
def test_a_kind_of_gpu_that_is_not_known_is_reported(
    noted: bool, node: str
) -> None:
    unknown = {"gpu": None}
    found = compared(
        run("a", server=unknown), run("b", server={**unknown, "node": node})
    )
    assert (
        "The GPU model of at least one side is unknown" in found.message
    ) == noted


def test_suspect_figures_are_compared_and_called_so() -> None:
    found = compared(repeated("a"), run("b", repeats=5, cv=1, verdict="Suspect"))
    assert "1 of 1 load points Suspect" in found.message


# Where model and dataset come from: what must be the same, what can be told by digests, and what is
# only said.

FILE = {"shareGPT": {"file": {"configMap": {"name": "rows", "key": "rows.json"}}}}
SAID = "Whether both sides read the same dataset file is not known"


def dataset_run(
    name: str,
    traffic: str | None = "t",
    *,
    run_spec: BenchmarkRunSpec | None = None,
    **changes: Any,
) -> MeasuredRun:
    """A run whose prompts are rows of a file."""
    run_spec = run_spec or spec(workloads=[workload(dataset=FILE)], **changes)
    return run(name, [row(repeats=5, cv=1, traffic=traffic)], run_spec=run_spec)


def test_another_tokenizer_writes_other_prompts() -> None:
    model = {"name": "Qwen/Qwen3-4B", "tokenizer": "/tokenizers/other"}
    found = compared(run("a"), run("b", run_spec=spec(model=model)))
    assert (
        found.message
        == "not comparable: tokenizer: the model's own in a, /tokenizers/other in b"
    )


@pytest.mark.parametrize(
    ("words", "source"),
    [
        pytest.param(
            "claim weights/qwen in b",
            {"pvc": {"claimName": "weights", "path": "qwen"}},
            id="claim",
        ),
        pytest.param(
            "artifact models:1 in b",
            {"imageVolume": {"reference": "models:1"}},
            id="artifact",
        ),
        pytest.param(
            "path /models/qwen in b", {"path": {"path": "/models/qwen"}}, id="path"
        ),
    ],
)
def test_models_of_one_name_from_different_sources_are_compared_with_a_remark(
    words: str, source: dict[str, Any]
) -> None:
    other = spec(model={"name": "Qwen/Qwen3-4B", "source": source})
    found = compared(
        run("a", repeats=5, cv=1), run("b", repeats=5, cv=1, run_spec=other)
    )
    assert found.outcome == "NoDetectableDifference"
    assert f"The model comes from the hub in a and from {words}" in found.message


def test_equal_questions_with_different_prompts_read_different_files() -> None:
    found = compared(dataset_run("a"), dataset_run("b", "another"))
    assert (found.outcome, found.load_points[0].reason) == (
        "NotComparable",
        "the dataset's file differs between a and b",
    )


def test_equal_prompts_prove_equal_files() -> None:
    found = compared(dataset_run("a"), dataset_run("b"))
    assert (
        found.load_points[0].reason,
        found.load_points[0].paired,
        SAID in found.message,
    ) == (
        None,
        True,
        False,
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            dataset_run("b", "another", measurement={"seed": 2}), id="another seed"
        ),
        pytest.param(
            dataset_run(
                "b",
                "another",
                run_spec=spec(workloads=[workload(dataset=FILE), workload("more")]),
            ),
            id="other workloads",
        ),
        pytest.param(dataset_run("b", "another", repeats=2), id="other repeats"),
    ],
)
def test_prompts_that_may_differ_are_not_compared_with_a_remark(
    other: MeasuredRun,
) -> None:
    found = compared(dataset_run("a"), other)
    assert found.load_points[0].reason is None
    assert SAID in found.message


@pytest.mark.parametrize(
    ("policy", "reason"), [("Share", "the dataset's file"), ("Isolate", None)]
)
def test_at_an_endpoint_only_shared_prompts_tell(
    policy: str, reason: str | None
) -> None:
    run_spec = spec(
        server=None,
        endpoint={"url": "http://llm"},
        workloads=[workload(dataset=FILE)],
        measurement={"cachePolicy": policy},
    )
    found = compared(
        dataset_run("a", run_spec=run_spec),
        dataset_run("b", "another", run_spec=run_spec),
    )
    assert (found.load_points[0].reason or "").startswith(reason or "")
    assert (found.load_points[0].reason is None) == (reason is None)
    assert (SAID in found.message) == (reason is None)


def test_random_prompts_come_from_no_file() -> None:
    found = compared(
        run("a", repeats=5, cv=1, traffic="one"),
        run("b", repeats=5, cv=1, traffic="another"),
    )
    assert (found.load_points[0].reason, SAID in found.message) == (None, False)
