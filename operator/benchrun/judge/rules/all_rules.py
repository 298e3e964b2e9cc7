"""Apply the rules of all families to stages, load points and runs.

The verdict, the merged list of findings and their sentences are made here, too. Results show
findings in the order of the members of `Code`.
"""

from collections.abc import Iterable, Mapping

from benchrun.api import (
    SEVERITIES,
    Code,
    Finding,
    Result,
    UserRule,
    Verdict,
    rule_of,
    sentence,
    worst_verdict,
)
from benchrun.judge.finding_pages import page_of
from benchrun.judge.rules import (
    client,
    failures_and_tokens,
    hardware,
    kv_cache,
    load,
    replicas,
    requests,
    rule,
    sample_size,
    scraping,
    server_identity,
    session_cache,
    sessions,
    steady_state,
    unequal_servers,
    user_rules,
    warm_up,
)
from benchrun.judge.rules.inputs import Input, Needs
from benchrun.judge.rules.rule import (
    Evidence,
    Found,
    LoadPointContext,
    LoadPointRule,
    NotChecked,
    RunContext,
    RunRule,
    StageFinding,
    StageRule,
)
from benchrun.judge.stage_facts import StageFacts
from benchrun.judge.status_size import json_bytes

STAGE_RULES: tuple[StageRule, ...] = (
    *failures_and_tokens.STAGE_RULES,
    *requests.STAGE_RULES,
    *server_identity.STAGE_RULES,
    *kv_cache.STAGE_RULES,
    *session_cache.STAGE_RULES,
    *sessions.STAGE_RULES,
    *replicas.STAGE_RULES,
    *load.STAGE_RULES,
    *client.STAGE_RULES,
    *warm_up.STAGE_RULES,
    *hardware.STAGE_RULES,
    *steady_state.STAGE_RULES,
    *scraping.STAGE_RULES,
)
LOAD_POINT_RULES: tuple[LoadPointRule, ...] = (
    *hardware.LOAD_POINT_RULES,
    *sample_size.LOAD_POINT_RULES,
)
RUN_RULES: tuple[RunRule, ...] = (
    *warm_up.RUN_RULES,
    *hardware.RUN_RULES,
    *steady_state.RUN_RULES,
)
SENTENCES: Mapping[Code, rule.Sentence] = {
    **failures_and_tokens.SENTENCES,
    **sample_size.SENTENCES,
    **requests.SENTENCES,
    **server_identity.SENTENCES,
    **kv_cache.SENTENCES,
    **session_cache.SENTENCES,
    **sessions.SENTENCES,
    **replicas.SENTENCES,
    **hardware.SENTENCES,
    **load.SENTENCES,
    **client.SENTENCES,
    **warm_up.SENTENCES,
    **steady_state.SENTENCES,
    **scraping.SENTENCES,
    **unequal_servers.SENTENCES,
    **user_rules.SENTENCES,
    **rule.SENTENCES,
}
NEEDS: Mapping[Code, Needs] = {
    **failures_and_tokens.NEEDS,
    **sample_size.NEEDS,
    **requests.NEEDS,
    **server_identity.NEEDS,
    **kv_cache.NEEDS,
    **session_cache.NEEDS,
    **sessions.NEEDS,
    **replicas.NEEDS,
    **hardware.NEEDS,
    **load.NEEDS,
    **client.NEEDS,
    **warm_up.NEEDS,
    **steady_state.NEEDS,
    **scraping.NEEDS,
    **unequal_servers.NEEDS,
    **user_rules.NEEDS,
    **rule.NEEDS,
}
"""What the rule of each code reads."""
if _untold := set(Code) - NEEDS.keys():
    raise TypeError(f"no NEEDS are declared for {', '.join(sorted(_untold))}")


OF_TOKENS = frozenset(
    {
        *(Input.ASKED_TOKENS, Input.GAPS, Input.STREAM_ENDS),
        *(Input.REASONING, Input.ANSWERS),
    }
)
"""Inputs that only answers of tokens have. Output tokens are not among them: rules that read them
read latencies, too, and ask those."""


def evidence_sentence(code: Code, evidence: Evidence) -> str:
    """Return the sentence that states a finding's evidence, at most 1,000 bytes long."""
    words = SENTENCES[code]
    return sentence(
        rule.in_words(words, evidence)
        if isinstance(words, str)
        else words(evidence)
    )


def judge_stage(stage: StageFacts) -> list[StageFinding]:
    """Apply every rule of a stage and return all findings.

    What rules say of the tokens of answers is left out where answers have none.
    """
    found = (each for find in STAGE_RULES for each in find(stage))
    if stage.has_whole_answers:
        found = (each for each in found if not NEEDS[each.code].first & OF_TOKENS)
    return _with_note(found, stage.id)


def judge_load_point(load_point: LoadPointContext) -> list[StageFinding]:
    """Return everything found at the stages of a load point and at the load point as a whole."""
    of_stages = [
        finding for stage in load_point.stages for finding in judge_stage(stage)
    ]
    of_load_point = _with_note(
        (each for find in LOAD_POINT_RULES for each in find(load_point)),
        load_point.load_point.id,
    )
    measured = {stage.id for stage in load_point.stages}
    return [
        *of_stages,
        *of_load_point,
        *sample_size.missing_records(load_point.load_point, measured),
    ]


def judge_run(run: RunContext) -> list[StageFinding]:
    """Apply the rules of whole runs and return their findings; each names its load point."""
    return [
        each
        for find in RUN_RULES
        for each in find(run)
        if isinstance(each, StageFinding)
    ]


def judge_row(row: Result, rules: Iterable[UserRule]) -> list[StageFinding]:
    """Apply the user's own rules to a row; a rule that it lacks figures for is in a Note."""
    return _with_note(user_rules.found_by(rules, row), row.load_point)


MAX_CODES = 24  # Most codes that the evidence of a finding holds.


def _with_note(found: Found, where: str) -> list[StageFinding]:
    """Return the findings, and a Note that names each rule whose input was missing and why."""
    every = list(found)
    findings = [each for each in every if isinstance(each, StageFinding)]
    unchecked = {
        each.full_code: each.why for each in every if isinstance(each, NotChecked)
    }
    evidence = _first_codes(unchecked)
    note = StageFinding(
        Code.NOT_CHECKED, "Note", where, evidence, weight=len(unchecked)
    )
    return [*findings, note] if unchecked else findings


def verdict_of_findings(findings: Iterable[StageFinding]) -> Verdict:
    """Return the verdict that findings give a stage or load point; a Note leaves it Valid."""
    return (
        worst_verdict(
            "Valid" if finding.severity == "Note" else finding.severity
            for finding in findings
        )
        or "Valid"
    )


MAX_FINDINGS_BYTES = 28_000
"""Most bytes of a run's findings. Findings of all codes with all their texts would fill half of a
status."""


def aggregate(findings: Iterable[StageFinding]) -> list[Finding]:
    """Merge the findings into one entry per code, and one per rule of the user's own.

    The most severe entries come first; entries of the same severity are in the order of `Code`. An
    entry has the evidence of the worst stage. `within` cuts the entries to `MAX_FINDINGS_BYTES`.
    """
    by_code: dict[str, list[StageFinding]] = {}
    for finding in findings:
        by_code.setdefault(finding.full_code, []).append(finding)
    ordered = sorted(map(_entry, by_code.values()), key=_place)
    return within(MAX_FINDINGS_BYTES, ordered)


def with_more(
    entries: Iterable[Finding], findings: Iterable[StageFinding]
) -> list[Finding]:
    """Return the entries with those of further findings, of other codes, among them in order."""
    both = sorted([*entries, *aggregate(findings)], key=_place)
    return within(MAX_FINDINGS_BYTES, both)


_PLACES: Mapping[str, int] = {code: place for place, code in enumerate(Code)}


def _place(entry: Finding) -> tuple[int, int]:
    """Return where an entry stands among others: by its severity, then by its code."""
    return -SEVERITIES.index(entry.severity), _PLACES[rule_of(entry.code)]


def within(max_bytes: int, entries: Iterable[Finding]) -> list[Finding]:
    """Shorten entries, the last one first, until all together take at most `max_bytes`.

    First the entries lose meaning and remedy, which `benchrun explain` shows as well. Then they
    lose their evidence, whose figures are also in the sentence. Code, severity and sentence stay.
    """
    kept = list(entries)
    size = json_bytes(kept, exclude_none=False)
    cuts: tuple[dict[str, object], ...] = (
        {"meaning": "", "remedy": ""},
        {"evidence": {}},
    )
    for cut in cuts:
        for place in reversed(range(len(kept))):
            if size <= max_bytes:
                return kept
            shorter = kept[place].model_copy(update=cut)
            size -= json_bytes([kept[place]], exclude_none=False)
            size += json_bytes([shorter], exclude_none=False)
            kept[place] = shorter
    return kept


def _entry(found: list[StageFinding]) -> Finding:
    # max keeps the first of equals: the earliest stage.
    worst = max(
        found,
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.weight),
    )
    page = page_of(worst.code)
    evidence = (
        _unchecked(found) if worst.code is Code.NOT_CHECKED else worst.evidence
    )
    return Finding(
        code=worst.full_code,
        severity=worst.severity,
        default_severity=worst.default_severity,
        count=len({finding.stage_id for finding in found}),
        worst_stage=worst.stage_id,
        evidence=dict(evidence),
        sentence=evidence_sentence(worst.code, evidence),
        meaning=page.meaning,
        remedy=page.remedy,
    )


def _unchecked(notes: list[StageFinding]) -> Evidence:
    """Return every rule that some stage or load point could not be asked, and the first reason."""
    reasons: dict[str, float | str | None] = {}
    for note in sorted(notes, key=lambda each: -each.weight):
        reasons = {**note.evidence, **reasons}
    return _first_codes(reasons)


def _first_codes(reasons: Evidence) -> Evidence:
    """Return as many reasons as evidence holds, in the order of `Code`."""
    ordered = sorted(reasons, key=lambda code: _PLACES[rule_of(code)])
    return {code: reasons[code] for code in ordered[:MAX_CODES]}
