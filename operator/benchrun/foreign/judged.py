"""Judge measurements of other tools by our rules, each as far as the files tell.

A rule is asked if all is known that it reads (`NEEDS`). Otherwise its answer is that it cannot be
known, with what is missing; it is never "not found".
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from benchrun_client.contract import AtOnceLoad

from benchrun import measure
from benchrun.api import (
    SEVERITIES,
    Code,
    Finding,
    LoadPoint,
    RuleSeverity,
    Severity,
    Verdict,
    worst_verdict,
)
from benchrun.foreign.as_stages import stage_facts
from benchrun.foreign.document import Unreadable
from benchrun.foreign.model import ForeignStage
from benchrun.judge.rules import all_rules
from benchrun.judge.rules.inputs import Input
from benchrun.judge.rules.rule import (
    LoadPointContext,
    NotChecked,
    RunContext,
    StageFinding,
    Thresholds,
    overridden,
)

MAX_MEASUREMENTS = 1000  # Most measurements that are judged together.
PERCENTILES = ("50", "90", "95", "99")
AnswerWord = Literal["Found", "NotFound", "CannotBeKnown"]
ASKED = tuple(
    code for code in Code if code not in (Code.NOT_CHECKED, Code.USER_RULE)
)
"""Codes of all rules. NotChecked is no rule: the answers say the same. Rules of the user's own are
in specs, and a file has none."""
REPEAT = "give the files of several measurements of this load"


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """What the rule of a code says of a load point."""

    code: Code
    answer: AnswerWord
    severity: Severity | None = None  # Of the finding.
    sentence: str = ""  # What was found, or why it cannot be known.
    needed: Mapping[Input, str] | None = None
    """Inputs that are missing, with what to do to have them; empty: the tool has none."""


@dataclass(frozen=True, slots=True)
class ForeignLoadPoint:
    """The measurements of a load, and what rules say of them."""

    id: str
    stages: Sequence[ForeignStage]
    verdict: Verdict
    """The worst severity that was found. Without a finding it is Valid only if every rule could be
    asked that may make a load point Suspect, else Unknown."""
    answers: Sequence[RuleAnswer]
    steady: Mapping[str, float]
    """Figures of the steady part, from the requests in the files; empty without one."""
    intervals: Mapping[str, Sequence[float]]
    """95 % intervals of the percentiles in `steady`."""


@dataclass(frozen=True, slots=True)
class ForeignJudgement:
    """All load points of the files that were given."""

    load_points: Sequence[ForeignLoadPoint]
    findings: Sequence[Finding]
    verdict: Verdict


def judged(
    stages: Sequence[ForeignStage],
    thresholds: Thresholds,
    severities: Sequence[RuleSeverity] = (),
) -> ForeignJudgement:
    """Judge measurements; those of one tool, model and load are repeats of a load point.

    `severities` replace those that the rules give. Raises Unreadable for measurements without
    requests, and for too many.
    """
    if len(stages) > MAX_MEASUREMENTS:
        raise Unreadable(
            f"{stages[0].file}: {len(stages)} measurements are more than {MAX_MEASUREMENTS}; "
            "judge them in several calls"
        )
    contexts = [
        (_context(id_, of, thresholds), of) for id_, of in _by_load(stages).items()
    ]
    of_run = _of_run([context for context, _ in contexts], thresholds)
    load_points = []
    findings: list[StageFinding] = []
    for context, of in contexts:
        known = _known(of)
        every = [*_found(context), *of_run.get(context.load_point.id, ())]
        believed = [
            each for each in every if all_rules.NEEDS[each.code].can_find(known)
        ]
        unchecked = [each for each in believed if isinstance(each, NotChecked)]
        raw = [each for each in believed if isinstance(each, StageFinding)]
        found = overridden(raw, severities)
        findings += found
        off = {each.code for each in raw} - {each.code for each in found}
        answers = _answers([*found, *unchecked], of, known, off)
        load_points.append(_load_point(context, of, found, answers))
    verdict = worst_verdict(each.verdict for each in load_points) or "Unknown"
    if verdict == "Valid" and any(
        each.verdict == "Unknown" for each in load_points
    ):
        verdict = "Unknown"
    return ForeignJudgement(load_points, all_rules.aggregate(findings), verdict)


def _by_load(stages: Sequence[ForeignStage]) -> dict[str, list[ForeignStage]]:
    groups: dict[tuple[str, ...], list[ForeignStage]] = {}
    for stage in stages:
        alone = stage.file if stage.load is None else ""
        kind = "" if stage.load is None else stage.load.model_dump_json()
        groups.setdefault((stage.tool, stage.model or "", kind, alone), []).append(
            stage
        )
    named: dict[str, list[ForeignStage]] = {}
    for (tool, model, _, alone), of in groups.items():
        load = of[0].load
        label = alone if load is None else load.label
        name = "/".join(filter(None, (tool, model, label)))[:120]
        ids = chain([name], (f"{name}+{number}" for number in count(1)))
        named[next(each for each in ids if each not in named)] = of
    return named


def _context(
    id_: str, stages: Sequence[ForeignStage], thresholds: Thresholds
) -> LoadPointContext:
    facts = tuple(
        stage_facts(stage, f"{id_}/{number}", number - 1, thresholds)
        for number, stage in enumerate(stages, start=1)
    )
    return LoadPointContext(
        load_point=LoadPoint(
            id=id_,
            workload=stages[0].tool,
            load=stages[0].load or AtOnceLoad(),
            stage_ids=tuple(each.id for each in facts),
        ),
        thresholds=thresholds,
        expected=facts[0].expected,
        percentiles=PERCENTILES,
        stages=facts,
    )


def _found(context: LoadPointContext) -> list[StageFinding | NotChecked]:
    of_stages = [
        each
        for stage in context.stages
        for rule in all_rules.STAGE_RULES
        for each in rule(stage)
    ]
    return [
        *of_stages,
        *(each for rule in all_rules.LOAD_POINT_RULES for each in rule(context)),
    ]


def _of_run(
    contexts: Sequence[LoadPointContext], thresholds: Thresholds
) -> dict[str, list[StageFinding]]:
    """Return what the rules of whole runs find, by load point."""
    run = RunContext(
        thresholds, {each.load_point.id: each.summary() for each in contexts}
    )
    found: dict[str, list[StageFinding]] = {}
    for each in all_rules.judge_run(run):
        found.setdefault(each.stage_id, []).append(each)
    return found


def _known(stages: Sequence[ForeignStage]) -> frozenset[Input]:
    """Return what is known of every measurement of a load point."""
    known = frozenset.intersection(*(stage.known for stage in stages))
    return known | {Input.REPEATS} if len(stages) > 1 else known


def _answers(
    found: Sequence[StageFinding | NotChecked],
    stages: Sequence[ForeignStage],
    known: frozenset[Input],
    off: Collection[Code],
) -> list[RuleAnswer]:
    """Return the answer of every rule.

    `off` has the codes that were found and that the user has set to Off: they are Found, without a
    severity.
    """
    remedies = {Input.REPEATS: REPEAT}
    for stage in stages:
        remedies |= stage.absent
    answers = []
    for code in ASKED:
        of_code = [each for each in found if each.code is code]
        findings = [each for each in of_code if isinstance(each, StageFinding)]
        whys = [each.why for each in of_code if isinstance(each, NotChecked)]
        missing = all_rules.NEEDS[code].missing(known)
        if findings:
            answers.append(_finding(findings))
        elif code in off:
            answers.append(RuleAnswer(code, "Found", None, "its severity is Off"))
        elif missing:
            needed = {each: remedies.get(each, "") for each in missing}
            what = "; ".join(each.what for each in missing)
            answers.append(
                RuleAnswer(
                    code, "CannotBeKnown", None, f"this needs {what}", needed
                )
            )
        elif whys:
            answers.append(RuleAnswer(code, "CannotBeKnown", None, whys[0]))
        else:
            answers.append(RuleAnswer(code, "NotFound"))
    return answers


def _finding(findings: Sequence[StageFinding]) -> RuleAnswer:
    worst = max(
        findings, key=lambda each: (SEVERITIES.index(each.severity), each.weight)
    )
    words = all_rules.evidence_sentence(worst.code, worst.evidence)
    return RuleAnswer(worst.code, "Found", worst.severity, words)


def _load_point(
    context: LoadPointContext,
    stages: Sequence[ForeignStage],
    found: Sequence[StageFinding],
    answers: Sequence[RuleAnswer],
) -> ForeignLoadPoint:
    steady, intervals = _steady(context, stages)
    return ForeignLoadPoint(
        context.load_point.id,
        stages,
        _verdict(found, answers),
        answers,
        steady,
        intervals,
    )


def _verdict(
    found: Sequence[StageFinding], answers: Sequence[RuleAnswer]
) -> Verdict:
    worst = all_rules.verdict_of_findings(found)
    unasked = any(
        each.answer == "CannotBeKnown" and set(each.code.severities) != {"Note"}
        for each in answers
    )
    return "Unknown" if worst == "Valid" and unasked else worst


_STEADY_INPUTS = frozenset({Input.TIMES, Input.LOAD, Input.OUTPUT_TOKENS})


def _steady(
    context: LoadPointContext, stages: Sequence[ForeignStage]
) -> tuple[Mapping[str, float], Mapping[str, Sequence[float]]]:
    """Return figures of the steady part with their intervals; empty where there is none."""
    known = _known(stages)
    parts = [(stage.record, stage.steady_part) for stage in context.stages]
    steady = [(record, part) for record, part in parts if part is not None]
    if not known >= _STEADY_INPUTS or len(steady) < len(parts):
        return {}, {}
    hidden = frozenset[str]().union(*(stage.not_ours for stage in stages))
    if Input.GAPS not in known:
        hidden |= {"itl"}
    shown = [each for each in measure.LATENCIES if each not in hidden]
    figures = measure.plateau_metrics(steady, PERCENTILES, shown=shown)
    samples: measure.Samples = {name: context.answered[name] for name in shown}
    sure = measure.percentile_intervals(samples, PERCENTILES, figures)
    known_figures = {
        key: value for key, value in figures.items() if value is not None
    }
    return known_figures, sure.intervals
