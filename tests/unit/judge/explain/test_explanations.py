"""Answers to the questions that people ask of a first benchmark: which repeat is true, cache or
compilation, why answers are short, whether max-model-len holds requests back."""

from collections.abc import Sequence
from typing import Any

import pytest
from benchrun.api import Explanation, Result, ServerStatus, Startup
from benchrun.judge.results import results
from benchrun_client.contract import StageRecord
from unit.judge.explained import LoadPoint, answered, judged
from unit.judge.specs import spec, workload
from unit.judge.stages import with_compilations
from unit.measure.records import edge, load_point, record, requests

HITS = "prefix_cache_hits_total"
QUERIES = "prefix_cache_queries_total"
MODELS = "id=Qwen/Qwen3-4B root=Qwen/Qwen3-4B max_model_len=4096"
STARTED = [
    ServerStatus(
        engine="VLLM",
        role="server",
        kv_cache_tokens=50_000,
        startup=Startup(compile_seconds=22.5),
    )
]


def stage(
    repeat: int,
    *,
    name: str = "chat",
    sequence: int = 0,
    hits: float = 0,
    queries: float = 60_000,
    ttft_ms: int = 265,
    prompt: int = 1000,
) -> StageRecord:
    """Sixty requests of one TTFT, ten seconds after the one before."""
    columns = requests(
        ttft_us=[1000 * ttft_ms] * 60,
        e2el_us=[1000 * (ttft_ms + 100)] * 60,
        output_tokens=[16] * 60,
        input_tokens=[prompt] * 60,
    )
    start = 1_000_000_000 + 10_000_000 * sequence
    return record(
        f"{name}/rate=4/r{repeat}",
        sequence=sequence,
        requests=columns,
        first_send_unix_us=start,
        last_receive_unix_us=start + 9_000_000,
        servers=(
            edge(
                rises={
                    HITS: hits,
                    QUERIES: queries,
                    "generation_tokens_total": 960.0,
                }
            ),
        ),
    )


def rows(
    *records: StageRecord,
    compilations: tuple[float, ...] | None = (),
    servers: Sequence[ServerStatus] = STARTED,
    seed: int | None = None,
) -> list[Result]:
    """`seed`: of prompts that begin alike in all workloads."""
    names = dict.fromkeys(each.stage_id.partition("/")[0] for each in records)
    load_points = [
        load_point(
            name, repeats=sum(r.stage_id.startswith(f"{name}/") for r in records)
        )
        for name in names
    ]
    changes: dict[str, Any] = {}
    random = {} if seed is None else {"generator": "VLLM", "seed": seed}
    if seed is not None:
        shared = {"cachePolicy": "Share", "order": "AsListed"}
        changes["measurement"] = {"percentiles": ["50", "99"], **shared}
    made = [workload(name, dataset={"random": random}) for name in names]
    whole = spec(workloads=made, **changes)
    return results(
        load_points,
        records,
        [],
        spec=whole,
        servers=with_compilations(servers, compilations),
    ).results


def true_run(row: Result) -> Explanation:
    (found,) = [each for each in row.explanations if each.question == "TrueRun"]
    return found


def test_the_first_run_is_true_where_the_others_found_its_prompts() -> None:
    """As measured by hand: 28,160 of 60,002 tokens, and latency from 265 to 122 ms."""
    (row,) = rows(
        stage(1, queries=60_002),
        stage(2, sequence=1, hits=28_160, queries=60_002, ttft_ms=122),
        stage(3, sequence=2, hits=28_160, queries=60_002, ttft_ms=122),
    )
    found = true_run(row)
    assert found.answer == "PrefixCache"
    assert found.evidence == {
        "trueRepeats": "1",
        "otherRepeats": "2, 3",
        "figure": "TTFT",
        "trueMs": 265.0,
        "otherMs": 122.0,
        "changePercent": -53.962,
        "hitTokens": 56_320.0,
        "lookedUpTokens": 120_004.0,
        "hitPercent": 46.932,
        "compilations": 0,
        "startCompileSeconds": 22.5,
    }
    assert row.by_repeat["mean_ttft_ms"] == [265.0, 122.0, 122.0]
    assert row.by_repeat["prefix_hit_tokens"] == [0.0, 28_160.0, 28_160.0]


def test_it_is_compilation_where_only_the_first_compiled_and_nothing_was_found() -> (
    None
):
    (row,) = rows(
        stage(1, ttft_ms=400), stage(2, sequence=1), compilations=(1001.0, 1002.0)
    )
    found = true_run(row)
    assert found.answer == "Compilation"
    expected = {
        "trueRepeats": "2",
        "otherRepeats": "1",
        "trueMs": 265.0,
        "otherMs": 400.0,
        "hitTokens": 0.0,
        "compilations": 2,
    }
    assert found.evidence.items() >= expected.items()


def test_only_repeats_in_which_nothing_was_compiled_are_those_of_a_warm_server() -> (
    None
):
    """Premise of "warm server": none compiled. Here the first did, and the third met a new shape."""
    (row,) = rows(
        stage(1, ttft_ms=400),
        stage(2, sequence=1),
        stage(3, sequence=2, ttft_ms=300),
        compilations=(1001.0, 1002.0, 1021.0),
    )
    found = true_run(row)
    assert found.answer == "Compilation"
    assert (found.evidence["trueRepeats"], found.evidence["otherRepeats"]) == (
        "2",
        "1, 3",
    )
    assert (found.evidence["trueMs"], found.evidence["otherMs"]) == (265.0, 350.0)


def test_all_are_true_where_new_prompts_are_as_fast_every_time() -> None:
    (row,) = rows(stage(1), stage(2, sequence=1, ttft_ms=266))
    found = true_run(row)
    assert (
        found.answer,
        found.evidence["hitTokens"],
        found.evidence["lookedUpTokens"],
    ) == (
        "Noise",
        0.0,
        120_000.0,
    )
    assert found.evidence["changePercent"] == pytest.approx(-0.376, abs=1e-3)


def test_repeats_that_differ_for_no_known_reason_are_not_called_true() -> None:
    (row,) = rows(stage(1), stage(2, sequence=1, ttft_ms=800))
    assert "RepeatsDisagree" in row.findings
    assert true_run(row).answer == "Unknown"


def test_repeats_without_an_answer_are_not_called_alike() -> None:
    failed = requests(
        ttft_us=[0, 0], e2el_us=[0, 0], output_tokens=[0, 0], ok=[0, 0]
    )
    (row,) = rows(
        stage(1), stage(2, sequence=1).model_copy(update={"requests": failed})
    )
    assert row.explanations == []


def test_one_repeat_without_hits_raises_no_question() -> None:
    (row,) = rows(stage(1))
    assert row.explanations == []


def test_hits_that_are_not_known_are_not_guessed() -> None:
    (row,) = rows(
        stage(1).model_copy(update={"servers": ()}),
        stage(2, sequence=1),
        compilations=None,
        servers=(),
    )
    assert "prefix_hit_tokens" not in row.by_repeat
    assert (
        not {"hitTokens", "compilations", "startCompileSeconds"}
        & true_run(row).evidence.keys()
    )


@pytest.mark.parametrize(
    ("lengths", "hits"),
    [
        pytest.param(
            (7000, 7000), 1.0, id="7000/3000 after 7000/1000: the same prompts"
        ),
        pytest.param((7000, 10_000), 0.7, id="10000 after 7000: their beginning"),
        pytest.param(
            (10_000, 7000), 1.0, id="7000 after 10000: a beginning of theirs"
        ),
    ],
)
def test_a_load_point_whose_prompts_were_sent_before_names_who_sent_them(
    lengths: tuple[int, int], hits: float
) -> None:
    before, own = lengths
    sent = (
        stage(1, name="first", prompt=before),
        stage(
            1,
            name="second",
            sequence=1,
            prompt=own,
            queries=60.0 * own,
            hits=60 * own * hits,
        ),
    )
    _, row = rows(*sent, seed=0)
    found = true_run(row)
    assert found.answer == "PrefixCache"
    assert found.evidence["earlierTokens"] == before
    assert str(found.evidence["earlierLoadPoint"]).startswith("first")
    assert (found.evidence["trueRepeats"], found.evidence["otherRepeats"]) == (
        "none",
        "1",
    )


def test_hits_on_prompts_that_begin_like_no_others_are_laid_at_nobody_s_door() -> (
    None
):
    """Premise of the name: the generator makes them begin alike. Equal lengths do not."""
    _, row = rows(
        stage(1, name="first", prompt=7000),
        stage(
            1,
            name="second",
            sequence=1,
            prompt=7000,
            queries=420_000.0,
            hits=420_000,
        ),
    )
    assert true_run(row).answer == "PrefixCache"
    assert "earlierLoadPoint" not in true_run(row).evidence


def test_ten_requests_of_3000_tokens_got_941_in_all_and_ended_at_a_stop_token() -> (
    None
):
    columns = requests(
        ttft_us=[1000] * 10,
        e2el_us=[2000] * 10,
        output_tokens=[94] * 9 + [95],
        asked_tokens=[3000] * 10,
    )
    counts = {"finished_stop_total": 9.0, "finished_length_total": 1.0}
    whole = spec(workloads=[workload(ignoreEOS=False)])
    (row,) = results(
        [load_point()],
        [record(requests=columns, servers=(edge(rises=counts),))],
        [],
        spec=whole,
    ).results
    (found,) = [
        each for each in row.explanations if each.question == "AnswerLength"
    ]
    assert found.answer == "StopToken"
    counted = {
        "requests": 10,
        "expectedTokens": 30000,
        "outputTokens": 941,
        "percent": 3.1367,
        "stop": 9.0,
        "length": 1.0,
    }
    assert found.evidence.items() >= counted.items()
    assert "ignoreEOS" in found.sentence


@pytest.mark.parametrize(
    ("answer", "counts"),
    [("TokenLimit", {"finished_length_total": 2.0}), ("Unknown", {})],
)
def test_short_answers_by_what_the_servers_counted(
    answer: str, counts: dict[str, float]
) -> None:
    servers = () if not counts else (edge(rises=counts),)
    (row,) = results(
        [load_point()],
        [record(requests=requests(asked_tokens=(50, 50)), servers=servers)],
        [],
        spec=spec(),
    ).results
    assert [
        each.answer for each in row.explanations if each.question == "AnswerLength"
    ] == [answer]


@pytest.mark.parametrize(("tokens", "told"), [(99, False), (98, True)])
def test_answers_are_short_below_99_percent_of_what_was_expected(
    tokens: int, told: bool
) -> None:
    columns = requests(output_tokens=[tokens] * 2, asked_tokens=(100, 100))
    (row,) = results(
        [load_point()], [record(requests=columns)], [], spec=spec()
    ).results
    found = [each.question for each in row.explanations]
    assert ("AnswerLength" in found) is told


def crowd(waiting: float) -> Result:
    """Eight users, each with 1050 tokens all the time, at a server that runs two."""
    point = LoadPoint(
        [(2.0, waiting, 0.03)] * 10,
        columns=answered(80, prompt=1000, output=50),
        axis="Concurrency",
    )
    servers = (edge(rises={QUERIES: 1000.0}).model_copy(update={"models": MODELS}),)
    point.record = point.record.model_copy(update={"servers": servers})
    (row,) = judged(
        point,
        args=["--max-num-seqs=2"],
        servers=[
            ServerStatus(engine="VLLM", role="server", kv_cache_tokens=50_000)
        ],
    )
    return row


def test_max_model_len_limits_one_request_and_not_the_sum() -> None:
    row = crowd(6.0)
    assert row.waiting is not None
    assert row.waiting.reason == "SequenceLimit"
    (found,) = [each for each in row.explanations if each.question == "MaxModelLen"]
    assert found.evidence == {
        "maxModelLen": 4096,
        "longestTokens": 1050,
        "tokensInFlight": 8400.0,
        "kvCacheTokens": 50_000,
    }


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param([], [], id="nobody has set it"),
        pytest.param(["--max-num-batched-tokens=999"], [], id="a prompt is longer"),
        pytest.param(
            ["--max-num-batched-tokens=1000"],
            [(1000, 1000)],
            id="as long as a step",
        ),
        pytest.param(
            ["--max-num-batched-tokens", "8192"], [(1000, 8192)], id="shorter"
        ),
    ],
)
def test_a_prompt_no_longer_than_a_step_was_not_split(
    args: list[str], told: list[tuple[int, int]]
) -> None:
    point = LoadPoint(
        [(2.0, 0.0, 0.03)] * 10, columns=answered(8, prompt=1000, output=50)
    )
    (row,) = judged(point, args=args)
    found = [each for each in row.explanations if each.question == "StepTokens"]
    assert [each.answer for each in found] == ["NoneSplit"] * len(told)
    assert [
        (e.evidence["longestPrompt"], e.evidence["stepTokens"]) for e in found
    ] == told


def test_nobody_asks_for_the_limit_where_nothing_waited() -> None:
    assert "MaxModelLen" not in {each.question for each in crowd(0.0).explanations}


def test_a_first_run_that_compiled_and_was_not_slower_is_no_worse_than_the_others() -> (
    None
):
    """Premise of "use the warm ones": compiling made it slower."""
    (row,) = rows(
        stage(1, ttft_ms=265),
        stage(2, sequence=1, ttft_ms=266),
        compilations=(1001.0,),
    )
    assert true_run(row).answer == "Noise"
