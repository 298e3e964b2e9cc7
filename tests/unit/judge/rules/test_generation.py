"""Answers that were broken off or stopped, prompts of another length, speculation on random text,
and users in step."""

from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.failures_and_tokens import (
    output_too_short,
    prompt_tokens_disagree,
    requests_aborted,
    speculation_on_random_text,
)
from benchrun.judge.rules.load import share_of_round, users_in_step
from benchrun.judge.rules.rule import Code, StageFacts
from benchrun.judge.stage_facts import expected_stage
from benchrun.measure import Plateau
from benchrun_client.contract import StageRecord
from unit.judge.queues import Server, closed_loop
from unit.judge.specs import spec, workload
from unit.judge.stages import (
    context,
    findings,
    only,
    open_loop_load,
    severity,
    unchecked,
    users,
)
from unit.measure.records import edge, load_point, record, requests, served

N = 200


def answered(
    rises: dict[str, float] | None = None,
    *,
    failed: int = 0,
    tokens: int = 100,
    **changes: Any,
) -> StageRecord:
    """Two hundred requests for a hundred tokens each."""
    columns = requests(
        ttft_us=[10_000] * N,
        e2el_us=[100_000] * N,
        output_tokens=[tokens] * N,
        asked_tokens=[100] * N,
        ok=[0] * failed + [1] * (N - failed),
    )
    return record(
        requests=columns,
        servers=(edge(rises={**served(columns), **(rises or {})}),),
        **changes,
    )


# ---- why requests finished
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "stopped"),
    [(None, 0), (None, 1), (None, 10), ("Suspect", 11), ("Suspect", 200)],
)
@pytest.mark.parametrize(
    "reason", ["finished_stop_total", "finished_repetition_total"]
)
def test_answers_that_stopped_though_their_length_is_fixed(
    expected: Severity | None, stopped: int, reason: str
) -> None:
    """Also where they are as long as they should be: a stop token may come last."""
    found = output_too_short(context()(answered({reason: float(stopped)})))
    assert severity(found) == expected
    if expected:
        assert only(found).evidence["stoppedPercent"] == stopped / 2


def test_answers_end_early_where_models_may_stop() -> None:
    assert (
        list(
            output_too_short(
                context(load=open_loop_load(ignore_eos=False))(
                    answered({"finished_stop_total": 200.0})
                )
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("expected", "aborted", "failed"),
    [
        (None, 0, 0),
        (None, 0, 9),
        (None, 9, 9),
        ("Note", 1, 0),
        ("Note", 10, 9),
        ("Suspect", 2, 0),
        ("Suspect", 50, 0),
    ],
)
@pytest.mark.parametrize("reason", ["finished_abort_total", "finished_error_total"])
def test_requests_that_servers_broke_off(
    expected: Severity | None, aborted: int, failed: int, reason: str
) -> None:
    assert (
        severity(
            requests_aborted(
                context()(answered({reason: float(aborted)}, failed=failed))
            )
        )
        == expected
    )


def test_records_without_reasons_are_not_checked() -> None:
    known = edge()
    edges = [
        {
            name: value
            for name, value in (counters or {}).items()
            if not name.startswith("finished_")
        }
        for counters in (known.before, known.after)
    ]
    old = record(
        servers=(known.model_copy(update={"before": edges[0], "after": edges[1]}),)
    )
    (missed,) = unchecked(requests_aborted(context()(old)))
    assert missed.code == Code.REQUESTS_ABORTED
    assert list(output_too_short(context()(old))) == []


# ---- prompts
# ---------------------------------------------------------------------------------------------------------


def counted(*server: int, expected: int = 100) -> StageRecord:
    """Prompts of this length by the client's count, and of these by the server's, in turns."""
    columns = answered(expected_input_tokens=N * expected)
    tokens = tuple(server[i % len(server)] for i in range(N))
    return columns.model_copy(
        update={
            "requests": columns.requests.model_copy(update={"input_tokens": tokens})
        }
    )


@pytest.mark.parametrize(
    ("expected", "server"),
    [
        pytest.param(None, [100], id="alike"),
        pytest.param(None, [101, 99], id="a token at the seam, now and then"),
        pytest.param(None, [100, 101], id="below 1 % on average"),
        pytest.param("Note", [101], id="1 % and constant"),
        pytest.param("Suspect", [101, 102], id="above 1 % on average"),
        pytest.param(
            "Suspect", [97, 99], id="another tokenizer, with fewer tokens"
        ),
        pytest.param("Suspect", [112], id="a chat template on one side"),
    ],
)
def test_prompts_counted_otherwise(
    expected: Severity | None, server: list[int]
) -> None:
    assert severity(prompt_tokens_disagree(context()(counted(*server)))) == expected


@pytest.mark.parametrize(
    ("expected", "prompt"), [("Suspect", 99), ("Note", 100), ("Note", 4096)]
)
def test_a_second_token_at_the_begin_is_told_whatever_its_share(
    expected: Severity, prompt: int
) -> None:
    found = only(
        prompt_tokens_disagree(context()(counted(prompt + 1, expected=prompt)))
    )
    assert (found.severity, found.evidence["offsetTokens"]) == (expected, 1)


def test_a_record_without_the_clients_count_is_not_checked() -> None:
    (missed,) = unchecked(
        prompt_tokens_disagree(context()(answered(expected_input_tokens=None)))
    )
    assert missed.code == Code.PROMPT_TOKENS_DISAGREE


# ---- speculation
# -----------------------------------------------------------------------------------------------------

DRAFTED = {
    "spec_decode_num_draft_tokens_total": 1000.0,
    "spec_decode_num_accepted_tokens_total": 180.0,
}


@pytest.mark.parametrize(
    ("expected", "rises", "random_text"),
    [(None, {}, True), (None, DRAFTED, False), ("Suspect", DRAFTED, True)],
)
def test_speculation(
    expected: Severity | None, rises: dict[str, float], random_text: bool
) -> None:
    found = speculation_on_random_text(
        context(load=open_loop_load(random_text=random_text))(answered(rises))
    )
    assert severity(found) == expected
    if expected:
        assert only(found).evidence == {
            "draftTokens": 1000.0,
            "acceptedPercent": 18.0,
        }


@pytest.mark.parametrize(
    ("is_random", "workloads"),
    [
        (True, [workload()]),
        (True, [workload(dataset={"prefixRepetition": {}})]),
        (
            False,
            [
                workload(
                    dataset={"shareGPT": {"file": {"url": "http://files/a.json"}}}
                )
            ],
        ),
        (
            True,
            [
                workload(dataset={"mix": [{"workload": "a"}, {"workload": "b"}]}),
                {
                    "name": "a",
                    "dataset": {
                        "shareGPT": {"file": {"url": "http://files/a.json"}}
                    },
                },
                {"name": "b", "dataset": {"random": {}}},
            ],
        ),
    ],
)
def test_which_text_is_random(
    is_random: bool, workloads: list[dict[str, Any]]
) -> None:
    assert (
        expected_stage(spec(workloads=workloads), load_point()).random_text
        == is_random
    )


# ---- users in step
# ---------------------------------------------------------------------------------------------------


def rounds(
    *,
    spread: float,
    burst_ttft: bool = True,
    concurrency: int = 32,
    n: int = 12,
    seed: int = 1,
) -> StageFacts:
    """Users whose rounds of a second begin within this share of it; each prompt waits for those of
    its burst."""
    chance = Random(seed)
    offsets = sorted(spread * chance.random() for _ in range(concurrency))
    starts = [round(1e6 * (r + o)) for r in range(n) for o in offsets]
    waits = [
        round(1e6 * (0.005 + (0.004 * place if burst_ttft else 0.0)))
        for _ in range(n)
        for place in range(concurrency)
    ]
    total = n * concurrency
    columns = requests(
        start_us=starts,
        ttft_us=waits,
        e2el_us=[999_000] * total,
        output_tokens=[100] * total,
    )
    end = round(1e6 * (n + spread))
    made = record(
        requests=columns,
        last_receive_unix_us=1_000_000_000 + end,
        scalars={"duration": end / 1e6},
    )
    return context(load=users(concurrency))(made)


@pytest.mark.parametrize(
    ("expected", "spread"),
    [
        ("Note", 0.01),
        ("Note", 0.1),
        ("Note", 0.2),
        (None, 0.5),
        (None, 0.9),
        (None, 1.0),
    ],
)
@pytest.mark.parametrize("concurrency", [8, 32, 200])
def test_users_who_begin_together(
    expected: Severity | None, spread: float, concurrency: int
) -> None:
    assert (
        severity(users_in_step(rounds(spread=spread, concurrency=concurrency)))
        == expected
    )


@pytest.mark.parametrize("spread", [0.1, 0.2, 0.3, 0.5, 1.0])
def test_the_share_of_a_round_is_estimated_with_little_bias(spread: float) -> None:
    """Of 32 users over twelve rounds; single estimates are off by up to 0.2."""
    stages = [rounds(spread=spread, seed=seed) for seed in range(20)]
    shares = [
        share_of_round(s, s.plateau, s.plateau.started)
        for s in stages
        if isinstance(s.plateau, Plateau)
    ]
    assert len(shares) == 20
    assert fmean(share for share in shares if share is not None) == pytest.approx(
        spread, abs=0.06
    )
    assert all(share == pytest.approx(spread, abs=0.2) for share in shares)


def test_bursts_in_which_no_prompt_waits_are_no_matter() -> None:
    assert list(users_in_step(rounds(spread=0.05, burst_ttft=False))) == []


def test_few_users_and_open_loops_have_no_rounds() -> None:
    assert list(users_in_step(rounds(spread=0.05, concurrency=7))) == []
    assert (
        list(
            users_in_step(
                replace(rounds(spread=0.05), expected=open_loop_load(rate=32.0))
            )
        )
        == []
    )


def test_two_rounds_are_too_few() -> None:
    (missed,) = unchecked(users_in_step(rounds(spread=0.05, n=2)))
    assert missed.code == Code.USERS_IN_STEP


@pytest.mark.parametrize("lengths_vary", [False, True])
def test_a_simulated_closed_loop_is_in_step_only_with_equal_lengths(
    lengths_vary: bool,
) -> None:
    """The server of `queues`: one prompt after the other, answers side by side."""
    server = Server(
        slots=64, prefill_seconds=0.005, variation=0.01, lengths_vary=lengths_vary
    )
    found = [
        users_in_step(closed_loop(server, concurrency=32, count=600, seed=seed))
        for seed in range(5)
    ]
    assert [bool(findings(each)) for each in found] == [not lengths_vary] * 5
