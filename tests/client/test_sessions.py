"""Sessions through vLLM's load engine against the simulated server: turns wait for the answers before
them and their pauses, a failed one ends its session, and hits by turn are those that are planned."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchrun.judge.session_results import session_figures
from benchrun_client.contract import Plan, SessionsLoad, StageRecord
from benchrun_client.contract.datasets import SessionFormat, SessionsData
from client.simulated_runs import against_simulator
from unit.client.datasets.files import json_lines, written
from unit.client.datasets.session_samples import SAMPLES, TURNS, WEKA
from unit.client.plans import plan, stage, warmup

AT_ONCE = 3
SESSIONS = 8
PAUSE_SECONDS = 0.4
TURN_TOKENS = 64
SYNTHETIC = SessionsData.model_validate(
    {
        "synthetic": {
            "turns": {"mean": 4, "stdev": 1, "min": 4, "max": 4},
            "system_tokens": 256,
            "first_tokens": {"mean": 128, "stdev": 1, "min": 128, "max": 128},
            "turn_tokens": {
                "mean": TURN_TOKENS,
                "stdev": 1,
                "min": TURN_TOKENS,
                "max": TURN_TOKENS,
            },
            "output_tokens": {"mean": 16, "stdev": 1, "min": 16, "max": 16},
            "pause_seconds": {
                "mean": str(PAUSE_SECONDS),
                "distribution": "Constant",
            },
        }
    }
)


def formats(folder: Path) -> Mapping[SessionFormat, tuple[SessionsData, int]]:
    """A dataset of each format, and the turns of its sample."""
    asked: Mapping[str, dict[str, Any]] = {
        "Mooncake": {"lengths": "Whole"},
        "BurstGPT": {"lengths": "Whole"},
    }
    turns = {
        "Turns": 3,
        "ShareGPT": 2,
        "Mooncake": 4,
        "Weka": 4,
        "OpenTelemetry": 2,
        "BurstGPT": 3,
    }
    return {
        name: (
            SessionsData(
                file=written(folder, name, content),
                format=name,
                max_pause_seconds=1,
                **asked.get(name, {}),
            ),
            turns[name],
        )
        for name, content in SAMPLES.items()
    }


def plan_of(folder: Path) -> Plan:
    forked = SessionsData(
        file=json_lines(
            folder, [{**TURNS, "id": str(n)} for n in range(SESSIONS)], "own.jsonl"
        ),
        format="Turns",
    )
    stages = [
        stage(
            id="drawn/sessions=3/r1",
            workload="drawn",
            load=SessionsLoad(sessions=AT_ONCE),
            data=SYNTHETIC,
            requests=4 * SESSIONS,
            seed=5,
        ),
        stage(
            id="forked/sessions=2/r1",
            workload="forked",
            load=SessionsLoad(sessions=2),
            data=forked,
            requests=3 * SESSIONS,
            seed=6,
        ),
        *(
            stage(
                id=f"{name.lower()}/sessions=2/r1",
                workload=name.lower(),
                load=SessionsLoad(sessions=2),
                data=data,
                requests=turns,
                seed=7,
                api="Chat" if name == "ShareGPT" else "Completions",
            )
            for name, (data, turns) in formats(folder).items()
        ),
    ]
    return plan(
        *stages,
        warmups=(warmup(workload="drawn", data=SYNTHETIC, requests=5),),
    )


@pytest.fixture(scope="module")
def records(
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, StageRecord]:
    folder = tmp_path_factory.mktemp("sessions")
    flags = (
        "--sim-ttft-ms=20",
        "--sim-tpot-ms=2",
        "--enable-prompt-tokens-details",
    )
    with against_simulator(folder, plan_of(folder), *flags) as running:
        found, progress = running.pull_all()
        assert progress.failure is None
        assert running.process.wait() == 0
    return {record.stage_id.partition("/")[0]: record for record in found}


def turns_of(record: StageRecord) -> dict[int, list[tuple[int, float, float]]]:
    """Return turn number, begin and end in seconds of each session's requests."""
    columns = record.requests
    found: dict[int, list[tuple[int, float, float]]] = {}
    for session, turn, begun, took in zip(
        columns.session,
        columns.turn,
        columns.start_us,
        columns.e2el_us,
        strict=True,
    ):
        times = begun / 1e6, (begun + took) / 1e6
        found.setdefault(session, []).append((turn, *times))
    return found


def test_every_turn_is_answered_with_the_lengths_that_were_planned(
    records: Mapping[str, StageRecord],
) -> None:
    for record in records.values():
        columns = record.requests
        assert all(columns.ok)
        assert columns.output_tokens == columns.asked_tokens
        assert record.expected_input_tokens == sum(columns.input_tokens)
        assert record.sessions is not None
        assert record.sessions.lost_turns == 0


def test_a_turn_is_sent_after_the_answer_before_it_and_the_pause(
    records: Mapping[str, StageRecord],
) -> None:
    sessions = turns_of(records["drawn"])
    assert len(sessions) == SESSIONS
    for turns in sessions.values():
        assert [turn for turn, _, _ in turns] == [1, 2, 3, 4]
        for (_, _, ended), (_, begun, _) in pairwise(turns):
            # The last chunk, which has the usage, comes behind the last token.
            assert begun >= ended + PAUSE_SECONDS - 0.001


def test_no_more_sessions_are_under_way_than_are_asked_for(
    records: Mapping[str, StageRecord],
) -> None:
    sessions = turns_of(records["drawn"]).values()
    spans = [(turns[0][1], turns[-1][2]) for turns in sessions]
    most = max(sum(b <= begun < e for b, e in spans) for begun, _ in spans)
    assert most == AT_ONCE


def test_agents_of_a_session_are_waited_for(
    records: Mapping[str, StageRecord],
) -> None:
    for turns in turns_of(records["forked"]).values():
        (_, _, planned), (_, read, done), (_, last, _) = sorted(turns)
        assert read >= planned - 0.001
        assert last >= done + TURNS["turns"][2]["delay_seconds"] - 0.001


def test_the_cache_finds_by_turn_what_was_planned(
    records: Mapping[str, StageRecord],
) -> None:
    """The simulated cache holds blocks of 16 tokens, and forgets nothing here."""
    found = session_figures(records["drawn"])
    assert found is not None
    assert found.completed == SESSIONS
    assert [turn.turn for turn in found.turns] == [1, 2, 3, 4]
    for turn in found.turns[1:]:
        assert turn.expected_hit_percent is not None
        assert turn.hit_percent is not None
        assert turn.mean_input_tokens is not None
        block_percent = 100 * 16 / turn.mean_input_tokens
        assert (
            abs(turn.hit_percent - turn.expected_hit_percent) <= 1.5 * block_percent
        )


def test_blocks_of_a_recorded_session_are_found_again(
    records: Mapping[str, StageRecord],
) -> None:
    of = records["weka"]
    assert of.sessions is not None
    last = of.sessions.cached[-1]
    whole = WEKA["requests"][2]["in"]
    assert last.prompt_tokens == whole
    assert last.expected_tokens == 128
    assert 128 - 16 <= last.cached_tokens <= 128


def test_a_failed_turn_ends_its_session_and_the_loss_is_told(
    tmp_path: Path,
) -> None:
    whole = plan(
        stage(
            id="drawn/sessions=3/r1",
            load=SessionsLoad(sessions=AT_ONCE),
            data=SYNTHETIC,
            requests=4 * SESSIONS,
            seed=5,
        ),
    )
    flags = ("--sim-ttft-ms=5", "--sim-error-percent=30")
    with against_simulator(tmp_path, whole, *flags) as running:
        (record,), _ = running.pull_all()
        assert running.process.wait() == 0
    columns = record.requests
    failed = {
        s for s, ok in zip(columns.session, columns.ok, strict=True) if not ok
    }
    assert failed
    assert record.sessions is not None
    assert record.sessions.lost_turns == 4 * SESSIONS - len(columns.ok)
    assert record.sessions.lost_turns > 0
    assert len(record.requests.ok) == sum(map(len, turns_of(record).values()))
    for session in failed:
        last = [
            ok
            for s, ok in zip(columns.session, columns.ok, strict=True)
            if s == session
        ]
        assert last == [1] * (len(last) - 1) + [0]
    assert len(turns_of(record)) == SESSIONS
