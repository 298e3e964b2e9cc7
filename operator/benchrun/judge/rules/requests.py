"""Rules that check whether servers did what the requests asked for, and did it in earnest.

A switch that a server or chat template does not know is ignored without a word.
"""

from collections.abc import Mapping
from itertools import compress

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.measure import counters, rounded


def reasoning_missing(stage: StageFacts) -> Found:
    """Find answers without reasoning in a stage whose requests turn thinking on."""
    if stage.expected.thinking is not True or not stage.answered:
        return []
    percent = 100 - _thinking_percent(stage)
    threshold = stage.thresholds.reasoning_missing_suspect_percent
    if percent <= threshold:
        return []
    evidence = {
        "answered": len(stage.answered),
        "withoutPercent": rounded(percent),
        "suspectPercent": threshold,
    }
    return [_suspect(Code.REASONING_MISSING, stage, evidence, percent)]


def reasoning_unasked(stage: StageFacts) -> Found:
    """Find answers with reasoning in a stage whose requests turn thinking off."""
    if stage.expected.thinking is not False or not stage.answered:
        return []
    percent = _thinking_percent(stage)
    threshold = stage.thresholds.reasoning_unasked_suspect_percent
    if percent <= threshold:
        return []
    tokens = stage.requests.reasoning_tokens
    evidence = {
        "answered": len(stage.answered),
        "withPercent": rounded(percent),
        "suspectPercent": threshold,
        "reasoningTokens": None
        if not tokens
        else sum(compress(tokens, stage.requests.ok)),
    }
    return [_suspect(Code.REASONING_UNASKED, stage, evidence, percent)]


def _thinking_percent(stage: StageFacts) -> float:
    """Return how many of a hundred answers have reasoning."""
    begun = stage.requests.reasoning_us or ()
    return (
        100
        * sum(map(bool, compress(begun, stage.requests.ok)))
        / len(stage.answered)
    )


def schema_not_enforced(stage: StageFacts) -> Found:
    """Find answers that break the JSON schema that the requests give."""
    if not stage.expected.has_schema or not stage.answered:
        return []
    answers = stage.record.answers
    if answers is None or answers.checked == 0:
        why = "no answer that the model ended itself could be checked"
        return [NotChecked(Code.SCHEMA_NOT_ENFORCED, why)]
    if answers.broken == 0:
        return []
    percent = 100 * answers.broken / answers.checked
    evidence: Evidence = {
        "checked": answers.checked,
        "broken": answers.broken,
        "where": answers.where,
    }
    return [_suspect(Code.SCHEMA_NOT_ENFORCED, stage, evidence, percent)]


def synthetic_acceptance(stage: StageFacts) -> Found:
    """Find servers that accept draft tokens at random."""
    edges = counters.answering(stage.edges)
    drafted = counters.rise(edges, counters.SPECULATED)
    if not stage.expected.synthetic_acceptance or not drafted:
        return []
    accepted = counters.rise(edges, counters.SPECULATED_ACCEPTED)
    percent = rounded(100 * accepted / drafted) if accepted is not None else None
    evidence = {"draftTokens": drafted, "acceptedPercent": percent}
    return [_suspect(Code.SYNTHETIC_ACCEPTANCE, stage, evidence, drafted)]


def _suspect(
    code: Code, stage: StageFacts, evidence: Evidence, weight: float
) -> StageFinding:
    return StageFinding(code, "Suspect", stage.id, evidence, weight=weight)


STAGE_RULES: tuple[StageRule, ...] = (
    reasoning_missing,
    reasoning_unasked,
    schema_not_enforced,
    synthetic_acceptance,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.REASONING_MISSING: (
        "The requests turn thinking on, but {withoutPercent} % of {answered} answers have no "
        "reasoning (threshold {suspectPercent} %)."
    ),
    Code.REASONING_UNASKED: (
        "The requests turn thinking off, but {withPercent} % of {answered} answers have reasoning "
        "(threshold {suspectPercent} %)[: {reasoningTokens} tokens of it]."
    ),
    Code.SCHEMA_NOT_ENFORCED: (
        "{broken} of {checked} answers that were checked break the requests' JSON schema[ (first "
        "at {where})]."
    ),
    Code.SYNTHETIC_ACCEPTANCE: (
        "The servers accept draft tokens at random, not by what the model would have written"
        "[: {acceptedPercent} % of {draftTokens}]."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.REASONING_MISSING: needs(Input.PLAN, Input.OUTCOMES, Input.REASONING),
    Code.REASONING_UNASKED: needs(Input.PLAN, Input.OUTCOMES, Input.REASONING),
    Code.SCHEMA_NOT_ENFORCED: needs(Input.PLAN, Input.OUTCOMES, Input.ANSWERS),
    Code.SYNTHETIC_ACCEPTANCE: needs(Input.PLAN, Input.SERVER_COUNTERS),
}
