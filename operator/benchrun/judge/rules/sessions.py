"""Rules on the course of sessions: turns lost or left out, and sessions that were missing.

What else may be wrong with an agent's run is wrong with any other run as well: answers that are too
short (OutputTooShort), prompts of another length (PromptTokensDisagree), turns that are sent late
(ClientSaturated).
"""

from collections.abc import Mapping

from benchrun_client.contract.datasets import TOO_LONG

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
    graded,
)
from benchrun.judge.session_results import session_spans
from benchrun.measure import ratio, rounded


def turns_lost(stage: StageFacts) -> Found:
    """Find turns that were not sent because one before them in their session had failed."""
    lost = stage.record.sessions.lost_turns if stage.record.sessions else 0
    planned = lost + len(stage.requests.ok)
    limits = stage.thresholds
    percent = 100 * lost / planned
    if percent <= limits.turns_lost_suspect_percent:
        return []
    evidence: Evidence = {
        "lostTurns": lost,
        "plannedTurns": planned,
        "failed": len(stage.requests.ok) - sum(stage.requests.ok),
        "lostPercent": rounded(percent),
        "suspectPercent": limits.turns_lost_suspect_percent,
        "invalidPercent": limits.turns_lost_invalid_percent,
    }
    severity = graded(percent, limits.turns_lost_invalid_percent)
    return [
        StageFinding(Code.TURNS_LOST, severity, stage.id, evidence, weight=percent)
    ]


def sessions_not_held(stage: StageFacts) -> Found:
    """Find a stage with fewer sessions under way, on average, than the load asks for.

    As the last ones run out, fewer are under way. Where there are few in all, that is most of the
    stage.
    """
    asked = stage.load.sessions_at_once
    spans = session_spans(stage.requests)
    if asked is None or not spans or stage.seconds <= 0:
        return []
    held = sum(ended - begun for begun, ended in spans) / 1e6 / stage.seconds
    percent = 100 * held / asked
    limit = stage.thresholds.sessions_suspect_percent
    if percent >= limit:
        return []
    evidence: Evidence = {
        "askedSessions": asked,
        "meanSessions": rounded(held),
        "heldPercent": rounded(percent),
        "begunSessions": len(spans),
        "suspectPercent": limit,
    }
    return [
        StageFinding(
            Code.SESSIONS_NOT_HELD,
            "Suspect",
            stage.id,
            evidence,
            weight=100 - percent,
        )
    ]


def turns_left_out(stage: StageFacts) -> Found:
    """Find recorded turns that were left out because the model's context can't hold them."""
    facts = stage.record.datasets if stage.record.sessions is not None else ()
    read = sum(each.rows_read for each in facts)
    left_out = sum(each.rows_dropped.get(TOO_LONG, 0) for each in facts)
    percent = ratio(left_out, read, 100) or 0.0
    limit = stage.thresholds.turns_left_out_suspect_percent
    if percent <= limit:
        return []
    evidence: Evidence = {
        "leftOut": left_out,
        "readTurns": read,
        "leftOutPercent": rounded(percent),
        "suspectPercent": limit,
    }
    return [
        StageFinding(
            Code.TURNS_LEFT_OUT, "Suspect", stage.id, evidence, weight=percent
        )
    ]


STAGE_RULES: tuple[StageRule, ...] = (turns_lost, sessions_not_held, turns_left_out)
SENTENCES: Mapping[Code, Sentence] = {
    Code.TURNS_LOST: (
        "{failed} turns failed, and {lostTurns} of {plannedTurns} were not sent because one before "
        "them had ({lostPercent} %; Suspect above {suspectPercent} %, Invalid above "
        "{invalidPercent} %)."
    ),
    Code.SESSIONS_NOT_HELD: (
        "{meanSessions} of {askedSessions} sessions were under way on average ({heldPercent} %, "
        "threshold {suspectPercent} %): {begunSessions} were begun in all."
    ),
    Code.TURNS_LEFT_OUT: (
        "{leftOut} of {readTurns} recorded turns are too long for the model and were left out "
        "({leftOutPercent} %, threshold {suspectPercent} %)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.TURNS_LOST: needs(Input.OUTCOMES, Input.PLAN),
    Code.SESSIONS_NOT_HELD: needs(Input.TIMES, Input.LOAD, Input.PLAN),
    Code.TURNS_LEFT_OUT: needs(Input.PLAN),
}
