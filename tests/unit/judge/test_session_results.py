"""What the result document says of sessions: figures by turn, whole sessions, and the cache."""

from typing import Any

import pytest
from benchrun.judge.cache_hits import CacheHits
from benchrun.judge.session_results import session_figures
from benchrun_client.contract import StageRecord
from benchrun_client.contract.sessions import TurnPlace
from benchrun_client.stage_record import record_of
from unit.client.plans import raw_stage


def sessions(**changes: Any) -> StageRecord:
    """Build two sessions of two turns each; the last turn of the second one failed.

    The first has a pause of a second between its turns.
    """
    sent = [100.0, 100.0, 103.0, 102.0]
    ttfts = [0.5, 0.5, 0.1, 0.1]
    places = [
        TurnPlace(0, 1, (), 0.0),
        TurnPlace(1, 1, (), 0.0),
        TurnPlace(0, 2, (0,), 1.0),
        TurnPlace(1, 2, (1,), 0.0),
    ]
    return record_of(
        raw_stage(
            **{
                "due": sent,
                "sent": sent,
                "answered": [at + 2 for at in sent],
                "ok": [True, True, True, False],
                "ended": [True, True, True, False],
                "ttfts": ttfts,
                "itls": [[1.5], [1.5], [1.9], []],
                "input_lens": [100, 120, 200, 210],
                "expected_lens": [100, 120, 200, 210],
                "output_lens": [2, 2, 2, 0],
                "requested_lens": [2, 2, 2, 2],
                "errors": ["", "", "", "Bad Request"],
                "cached": {0: (100, 0), 1: (120, 64), 2: (200, 80)},
                "repeated": [0, 60, 100, 120],
                "places": places,
                "lost_turns": 3,
                **changes,
            }
        )
    )


def test_whole_sessions_are_counted_and_what_was_lost() -> None:
    found = session_figures(sessions())
    assert found is not None
    assert (found.begun, found.completed, found.lost_turns) == (2, 1, 3)
    # One session within the 5 s from the first send to the last answer.
    assert found.completed_per_second == pytest.approx(0.2)
    assert found.duration is not None
    assert found.duration.percentiles["50"] == 5000
    assert found.waiting_for_answers is not None
    assert found.waiting_for_answers.percentiles["50"] == 4000


def test_latencies_stand_by_turn_of_the_answered() -> None:
    found = session_figures(sessions())
    assert found is not None
    first, second = found.turns
    assert [(t.turn, t.requests, t.completed) for t in (first, second)] == [
        (1, 2, 2),
        (2, 2, 1),
    ]
    assert (first.mean_input_tokens, second.mean_input_tokens) == (110, 200)
    assert first.ttft is not None
    assert second.ttft is not None
    assert second.e2el is not None
    assert (first.ttft.mean, second.ttft.mean, second.e2el.mean) == (500, 100, 2000)


def test_hits_expected_stand_beside_those_that_came() -> None:
    found = session_figures(sessions())
    assert found is not None
    first, second = found.turns
    assert first.expected_hit_percent == pytest.approx(100 * 60 / 220, rel=1e-4)
    assert first.hit_percent == pytest.approx(100 * 64 / 220, rel=1e-4)
    assert (second.expected_hit_percent, second.hit_percent) == (50, 40)


def test_hits_are_not_known_where_no_answer_tells_them() -> None:
    found = session_figures(sessions(cached={}))
    assert found is not None
    assert {(t.expected_hit_percent, t.hit_percent) for t in found.turns} == {
        (None, None)
    }


def test_hits_are_not_known_of_turns_of_which_some_answers_do_not_tell_them() -> (
    None
):
    """SGLang, and vLLM before it told zeros, leave the count out where nothing was found."""
    found = session_figures(sessions(cached={1: (120, 64), 2: (200, 80)}))
    assert found is not None
    first, second = found.turns
    assert (first.expected_hit_percent, first.hit_percent) == (None, None)
    assert (second.expected_hit_percent, second.hit_percent) == (50, 40)


def test_hits_that_a_cache_of_this_size_keeps_stand_beside_the_endless() -> None:
    hits = CacheHits(endless=[0, 60, 120, 100], kept=[0, 60, 0, 50])
    found = session_figures(sessions(), hits)
    assert found is not None
    second = found.turns[1]
    # Of the answered one with 200 tokens, which was sent last.
    assert (second.expected_hit_percent, second.kept_hit_percent) == (50, 25)
    percents = (
        found.expected_hit_percent,
        found.kept_hit_percent,
        found.hit_percent,
    )
    assert percents == pytest.approx(
        [100 * n / 420 for n in (160, 110, 144)], rel=1e-4
    )


def test_hits_that_not_all_answers_tell_are_those_of_the_counters() -> None:
    hits = {"prefix_cache_queries_total": 420.0, "prefix_cache_hits_total": 105.0}
    before = dict.fromkeys(hits, 0.0)
    found = session_figures(sessions(cached={}, before=before, after=hits))
    assert found is not None
    assert found.hit_percent == 25
    assert found.expected_hit_percent is None


def test_turns_beyond_those_told_are_in_the_last_entry() -> None:
    places = [TurnPlace(0, turn, (), 0.0) for turn in (63, 64, 65, 900)]
    found = session_figures(
        sessions(places=places, ok=[True] * 4, ended=[True] * 4)
    )
    assert found is not None
    assert [(t.turn, t.requests) for t in found.turns] == [(63, 1), (64, 3)]


def test_a_stage_without_sessions_has_none() -> None:
    record = record_of(raw_stage())
    assert record.sessions is None
    assert session_figures(record) is None
