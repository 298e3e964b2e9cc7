"""What a rule is, what it returns, and how its evidence becomes a sentence.

A rule looks at a stage, at a load point or at the whole run, and returns what it found: nothing
when all is well. It never guesses: where its input is missing it returns `NotChecked`, because "not
checked" must not look like "checked and fine". Each file of this folder has one family of rules,
and lists them at its end, with the sentences of their codes.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from benchrun_client.contract import Probe, StageRecord, WarmupOutcome

from benchrun.api import Code as Code, LoadPoint, Objective, RuleSeverity, Severity
from benchrun.judge.objectives import expected_samples
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.stage_facts import ExpectedStage, StageFacts as StageFacts
from benchrun.judge.thresholds import Thresholds as Thresholds
from benchrun.measure import Plateau, Pools, Samples, pools_of, queued_latencies

Evidence = Mapping[str, float | str | None]


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One thing that a rule found at a stage, or at a load point as a whole."""

    code: Code
    severity: Severity
    stage_id: str  # Id of the stage; of the load point if the finding is about all its repeats.
    evidence: Evidence = field(default_factory=dict)
    """The deciding figures, and the threshold that they crossed."""
    weight: float = 0.0
    """Size of the effect. It is compared only between findings of one code, to pick the worst
    stage."""
    # The rule's own severity, if the spec changed it.
    default_severity: Severity | None = None
    name: str = ""
    """Which of several rules of this code it is; empty where the code has one rule."""

    @property
    def full_code(self) -> str:
        """Return the code as results show it, such as `UserRule/slow-tail`."""
        return _full_code(self.code, self.name)


@dataclass(frozen=True, slots=True)
class NotChecked:
    """The result of a rule whose input is missing, as opposed to a rule that found nothing."""

    code: Code
    why: str  # Reason in a few words: "no counters at both edges".
    name: str = ""
    """Which of several rules of this code it is; empty where the code has one rule."""

    @property
    def full_code(self) -> str:
        """Return the code as results show it, such as `UserRule/slow-tail`."""
        return _full_code(self.code, self.name)


def _full_code(code: Code, name: str) -> str:
    return f"{code}/{name}" if name else code.value


Found = Iterable[StageFinding | NotChecked]


@dataclass(frozen=True)
class LoadPointContext:
    """What the rules of load points get: the measured stages of one load point.

    Stages are in the order of repeats; their latencies are pooled.
    """

    load_point: LoadPoint
    thresholds: Thresholds
    expected: ExpectedStage
    percentiles: Sequence[str]
    stages: tuple[StageFacts, ...]
    objectives: Sequence[Objective] = ()

    @cached_property
    def records(self) -> list[StageRecord]:
        """Return the records of the stages."""
        return [stage.record for stage in self.stages]

    @cached_property
    def pools(self) -> Pools:
        """Return the latencies of the answered requests."""
        return pools_of(self.records)

    @cached_property
    def queued(self) -> Pools:
        """Return the latencies that include the wait in the client's queue.

        The result is empty unless the load is an open loop with a cap, which may hold requests
        back.
        """
        return (
            pools_of(self.records, queued_latencies(self.records))
            if self.expected.load.capped
            else {}
        )

    @cached_property
    def parts(self) -> list[Plateau | None] | None:
        """Return the steady part of each stage, None for a stage without one.

        Return a single None for a load that is never steady: then whole stages count.
        """
        if self.expected.load.never_steady:
            return None
        return [stage.steady_part for stage in self.stages]

    @cached_property
    def counted(self) -> list[tuple[StageRecord, Plateau | None]]:
        """Return the stages, each with its steady part; None: the whole stage counts."""
        parts = self.parts or [None] * len(self.records)
        return list(zip(self.records, parts, strict=True))

    @cached_property
    def samples(self) -> Samples:
        """Return the latencies of the requests that count, with infinity for failed requests."""
        return expected_samples(self.records, self.expected, parts=self.parts)

    @cached_property
    def answered(self) -> Samples:
        """Return the latencies of the answered requests that count."""
        if all(all(record.requests.ok) for record in self.records):
            return self.samples
        return expected_samples(
            self.records, self.expected, parts=self.parts, failed=False
        )

    def summary(self) -> "list[StageSummary]":
        """Return a summary of each stage, which is all that the rules of whole runs need."""
        return [
            StageSummary(
                s.id,
                s.record.sequence,
                s.record.probe,
                s.batches,
                s.gpus,
                s.record.warmup,
                s.most_running,
            )
            for s in self.stages
        ]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Summary of a measured stage, without its record, for the rules of whole runs."""

    stage_id: str
    sequence: int
    probe: Probe | None
    # From its `StageFacts`:
    batches: Mapping[str, Sequence[float]]
    gpus: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    warmup: WarmupOutcome | None = None
    """Outcome of the warm-up; only in the first record of a workload."""
    most_running: float | None = None


@dataclass(frozen=True)
class RunContext:
    """What the rules of whole runs get: a summary of every measured stage.

    `load_points` maps the id of a load point to its stages in the order of repeats. Load points are
    in the order of the plan.
    """

    thresholds: Thresholds
    load_points: Mapping[str, Sequence[StageSummary]]


Sentence = str | Callable[[Evidence], str]
"""Template for `in_words`, or a function, that makes a sentence of a code's evidence: the deciding
numbers with their units, and the threshold."""


def in_words(template: str, evidence: Evidence) -> str:
    """Fill the {keys} of a template with evidence.

    A part in [square brackets] is left out if one of its keys is missing. Elsewhere a missing key
    becomes "?".
    """
    known = {key: value for key, value in evidence.items() if value is not None}
    words = {
        k: _FIGURES.get(v, v) if isinstance(v, str) else number(v)
        for k, v in known.items()
    }
    shown = defaultdict(lambda: "?", words)
    kept = re.sub(
        r"\[(.*?)\]",
        lambda m: m[1] if shown.keys() >= set(re.findall(r"{(\w+)}", m[1])) else "",
        template,
    )
    return kept.format_map(shown).strip()


_FIGURES: Mapping[str, str] = {
    "requestsInSystem": "Requests in the system",
    "e2el": "E2EL",
    "tpot": "TPOT",
    "ttft": "TTFT",
    "queueWaitAndTtft": "Queue wait plus TTFT",
    "meanTtftMs": "Mean TTFT (ms)",
    "meanTpotMs": "Mean TPOT (ms)",
    "meanE2elMs": "Mean E2EL (ms)",
    "outputTokensPerSecond": "Output throughput (tok/s)",
}
"""Names of figures in sentences."""


def number(value: float | None) -> str:
    """Return a number with three significant digits, or with all digits of its whole part.

    Trailing zeros are left out: 25412, 276, 9.4, 0.05. None becomes "?".
    """
    if value is None:
        return "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):.12g}"


StageRule = Callable[[StageFacts], Found]
LoadPointRule = Callable[[LoadPointContext], Found]
RunRule = Callable[[RunContext], Found]


def times(value: float, threshold: float) -> float:
    """Return a value as a multiple of a threshold.

    `value` is 0 or more. If the threshold is 0, return 0 for 0 and infinity for any other value.
    """
    return value / threshold if threshold else math.inf if value > 0 else 0.0


def graded(value: float, invalid_beyond: float) -> Literal["Suspect", "Invalid"]:
    """Return Invalid if the value is above the rule's second threshold, else Suspect."""
    return "Invalid" if value > invalid_beyond else "Suspect"


def overridden(
    findings: Iterable[StageFinding], rules: Sequence[RuleSeverity]
) -> list[StageFinding]:
    """Return the findings with the severities that the spec sets.

    A finding whose severity changes also keeps its default severity. A finding that the spec sets
    to Off is left out.
    """
    severities = {rule.code: rule.severity for rule in rules}
    changed = []
    for finding in findings:
        severity = severities.get(finding.code.value, finding.severity)
        if severity == finding.severity:
            changed.append(finding)
        elif severity != "Off":
            changed.append(
                replace(
                    finding, severity=severity, default_severity=finding.severity
                )
            )
    return changed


SENTENCES: Mapping[Code, Sentence] = {
    Code.NOT_CHECKED: lambda evidence: "; ".join(
        f"{code}: {why}" for code, why in evidence.items()
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.NOT_CHECKED: needs(Input.OUTCOMES),
}
