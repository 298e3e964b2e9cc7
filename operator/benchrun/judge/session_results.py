"""Figures of a stage of sessions: by the number of a turn, and of whole sessions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from benchrun_client.contract import MAX_TOLD_TURNS, RequestColumns, StageRecord

from benchrun.api import LatencyDistribution, StageSessions, TurnFigures
from benchrun.judge.cache_hits import CacheHits, hits_told, of_answered
from benchrun.judge.distributions import distribution
from benchrun.measure import Distribution, rounded

PERCENTILES = ("50", "90", "99")
"""Percentiles by turn and of sessions: there may be 64 of each in every stage."""


@dataclass(slots=True)
class _Session:
    """What is known of a session of a stage."""

    begun_us: int
    ended_us: int
    failed: bool = False
    turns: list[tuple[int, int]] = field(default_factory=list)  # Begins and ends.


def session_figures(
    record: StageRecord, hits: CacheHits | None = None
) -> StageSessions | None:
    """Return the figures of a stage of sessions; None for any other stage."""
    columns = record.requests
    if not columns.session or record.sessions is None:
        return None
    sessions = _sessions_of(columns)
    whole = [each for each in sessions.values() if not each.failed]
    seconds = (record.last_receive_unix_us - record.first_send_unix_us) / 1e6
    found = StageSessions(
        begun=len(sessions),
        completed=len(whole),
        lost_turns=record.sessions.lost_turns,
        completed_per_second=rounded(len(whole) / seconds) if seconds > 0 else None,
        duration=_milliseconds(each.ended_us - each.begun_us for each in whole),
        waiting_for_answers=_milliseconds(_busy_us(each.turns) for each in whole),
        turns=_turns_of(record, hits),
    )
    return found.model_copy(update=_of_all_turns(record, hits))


def _of_all_turns(
    record: StageRecord, hits: CacheHits | None
) -> dict[str, float | None]:
    """Return which part of all prompts' tokens is expected to be found, and was."""
    prompts = of_answered(record.requests.input_tokens, record)
    told = hits_told(record)
    came = None if told is None else _percent(min(told, prompts), prompts)
    if hits is None:
        return {"hit_percent": came}
    kept = hits.kept
    return {
        "expected_hit_percent": _percent(
            of_answered(hits.endless, record), prompts
        ),
        "kept_hit_percent": None
        if kept is None
        else _percent(of_answered(kept, record), prompts),
        "hit_percent": came,
    }


def session_spans(columns: RequestColumns) -> list[tuple[int, int]]:
    """Return when each session began and ended, in microseconds after the first send."""
    if not columns.session:
        return []
    sessions = _sessions_of(columns).values()
    return [(each.begun_us, each.ended_us) for each in sessions]


def _sessions_of(columns: RequestColumns) -> dict[int, _Session]:
    found: dict[int, _Session] = {}
    for number, begun, took, ok in zip(
        columns.session, columns.start_us, columns.e2el_us, columns.ok, strict=True
    ):
        session = found.setdefault(number, _Session(begun, begun + took))
        session.begun_us = min(session.begun_us, begun)
        session.ended_us = max(session.ended_us, begun + took)
        session.failed |= not ok
        session.turns.append((begun, begun + took))
    return found


def _busy_us(turns: Sequence[tuple[int, int]]) -> int:
    """Return how long a session had at least one request in flight."""
    busy = until = 0
    for begun, ended in sorted(turns):
        busy += max(ended - max(begun, until), 0)
        until = max(until, ended)
    return busy


def _milliseconds(values: Iterable[int]) -> LatencyDistribution | None:
    return distribution(Distribution.of(values), PERCENTILES, milliseconds=True)


def _turns_of(record: StageRecord, hits: CacheHits | None) -> list[TurnFigures]:
    columns = record.requests
    assert record.sessions is not None, "checked by the caller"
    cached = {each.turn: each for each in record.sessions.cached}
    by_turn: dict[int, list[int]] = {}
    for place, turn in enumerate(columns.turn):
        by_turn.setdefault(min(turn, MAX_TOLD_TURNS), []).append(place)
    made: list[TurnFigures] = []
    for turn, places in sorted(by_turn.items()):
        ok = [columns.ok[place] for place in places]
        answered = list(compress(places, ok))
        cache = cached.get(turn)
        # Some servers tell of no answer without a hit: a share of the others would be too high.
        if cache is not None and cache.answers != len(answered):
            cache = None
        prompt = cache.prompt_tokens if cache is not None else 0
        made.append(
            TurnFigures(
                turn=turn,
                requests=len(places),
                completed=len(answered),
                mean_input_tokens=_mean(columns.input_tokens, answered),
                ttft=_milliseconds(columns.ttft_us[place] for place in answered),
                e2el=_milliseconds(columns.e2el_us[place] for place in answered),
                expected_hit_percent=_part(columns, hits.endless, answered)
                if hits is not None
                else _percent(cache.expected_tokens, prompt)
                if cache is not None
                else None,
                kept_hit_percent=_part(columns, hits.kept, answered)
                if hits is not None and hits.kept is not None
                else None,
                hit_percent=_percent(cache.cached_tokens, prompt)
                if cache is not None
                else None,
            )
        )
    return made


def _part(
    columns: RequestColumns, found: Sequence[int], places: Sequence[int]
) -> float | None:
    """Return which part of these requests' prompts is found, in percent."""
    return _percent(
        sum(found[place] for place in places),
        sum(columns.input_tokens[place] for place in places),
    )


def _mean(column: Sequence[int], places: Sequence[int]) -> float | None:
    if not places:
        return None
    return rounded(sum(column[place] for place in places) / len(places))


def _percent(part: int, whole: int) -> float | None:
    return rounded(100 * part / whole) if whole else None
