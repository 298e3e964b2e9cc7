"""What a rule is, what it gives back, and the sentence of a code's evidence.

A rule looks at a stage, at a cell or at the whole run, and returns what it found: nothing when all
is well. It never guesses: where its input is missing it returns `NotChecked`, because "not checked"
must not look like "checked and fine". Each file of this folder has a family of rules, and lists
them with the sentences of their codes in `RULES` at its end."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from benchrun_client.contract import Probe, StageRecord, WarmupOutcome

from benchrun.api import Cell, Code as Code, Objective, RuleSeverity, Severity
from benchrun.judge.objectives import expected_samples
from benchrun.judge.stage_facts import ExpectedLoad, StageFacts as StageFacts
from benchrun.judge.thresholds import Thresholds as Thresholds
from benchrun.measure import QUEUED_LATENCIES, Plateau, Pools, Samples, pools_of

Evidence = Mapping[str, float | str | None]
SEVERITIES: tuple[Severity, ...] = ("Note", "Suspect", "Invalid")  # Least to worst.


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One thing found at one stage, or at a cell as a whole."""

    code: Code
    severity: Severity
    stage_id: str  # The stage; the cell's id where it is about all its repeats.
    evidence: Evidence = field(
        default_factory=dict
    )  # The figures that decided, and the threshold they crossed.
    weight: float = (
        0.0  # How marked it is, to pick the worst stage of a code; compared within the code only.
    )
    default_severity: Severity | None = None  # What the rule found, where the spec changed it.


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule whose input is missing: not the same as having found nothing."""

    code: Code
    why: str  # In a few words: "no counters at both edges".


Found = Iterable[StageFinding | NotChecked]


@dataclass(frozen=True)
class CellContext:
    """A cell: its measured stages in order of repeats, and their latencies in one pool each."""

    cell: Cell
    thresholds: Thresholds
    expected: ExpectedLoad
    percentiles: Sequence[str]
    stages: tuple[StageFacts, ...]
    objectives: Sequence[Objective] = ()

    @cached_property
    def records(self) -> list[StageRecord]:
        """Of its stages."""
        return [stage.record for stage in self.stages]

    @cached_property
    def pools(self) -> Pools:
        """Latencies of the answered requests."""
        return pools_of(self.records)

    @cached_property
    def queued(self) -> Pools:
        """Latencies with the wait in the client's queue, where a cap may have held an open loop
        back."""
        return pools_of(self.records, QUEUED_LATENCIES) if self.expected.capped else {}

    @cached_property
    def parts(self) -> list[Plateau | None] | None:
        """The steady part of each stage, None where it has none; None for a load that is never
        steady, whose stages count whole."""
        if self.expected.never_steady:
            return None
        return [stage.steady_part for stage in self.stages]

    @cached_property
    def samples(self) -> Samples:
        """The latencies of the requests that count, failed ones at infinity."""
        return expected_samples(self.records, self.expected, parts=self.parts)

    @cached_property
    def answered(self) -> Samples:
        """The same without failed requests."""
        if all(all(record.requests.ok) for record in self.records):
            return self.samples
        return expected_samples(self.records, self.expected, parts=self.parts, failed=False)

    def summary(self) -> "list[StageSummary]":
        """What the rules of a run need of it."""
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
    """A measured stage without its record."""

    stage_id: str
    sequence: int
    probe: Probe | None
    # Of its facts:
    batches: Mapping[str, Sequence[float]]
    gpus: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    warmup: WarmupOutcome | None = None  # Of its workload, in the first record of that alone.
    most_running: float | None = None


@dataclass(frozen=True)
class RunContext:
    """The whole run: the measured stages of every cell in order of repeats, by its id, in the order
    of the plan."""

    thresholds: Thresholds
    cells: Mapping[str, Sequence[StageSummary]]


Sentence = str | Callable[[Evidence], str]
"""The deciding numbers of a code with their units and the threshold: a template for `in_words`, or
a function."""


def in_words(template: str, evidence: Evidence) -> str:
    """The template with evidence for its {keys}; a part in [square brackets] is left out where one
    of its keys is missing."""
    known = {key: value for key, value in evidence.items() if value is not None}
    words = {k: _FIGURES.get(v, v) if isinstance(v, str) else number(v) for k, v in known.items()}
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
    """Three significant digits, or all of the whole part; no trailing zeros: 25412, 276, 9.4, 0.05;
    "?" for nothing."""
    if value is None:
        return "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):.12g}"


StageRule = Callable[[StageFacts], Found]


@dataclass(frozen=True, slots=True)
class Rules:
    """A family of rules, and the sentence of every code that they find."""

    sentences: Mapping[tuple[int, Code], Sentence]
    """By place and code: findings of one severity are shown in this order, over all families."""
    of_stages: Mapping[int, StageRule] = field(default_factory=dict)
    """By place: findings of a stage come in this order, over all families."""
    of_cells: Sequence[Callable[[CellContext], Found]] = ()
    of_runs: Sequence[Callable[[RunContext], Found]] = ()


def times(value: float, threshold: float) -> float:
    """How many times the threshold a value from 0 up is; every value but 0 is beyond a threshold of
    0."""
    return value / threshold if threshold else math.inf if value > 0 else 0.0


def graded(value: float, invalid_beyond: float) -> Literal["Suspect", "Invalid"]:
    """Invalid above the second threshold of a rule."""
    return "Invalid" if value > invalid_beyond else "Suspect"


def overridden(
    findings: Iterable[StageFinding], rules: Sequence[RuleSeverity]
) -> list[StageFinding]:
    """The findings with the severities of the spec: changed ones keep the default, and those that
    are Off are left out."""
    severities = {rule.code: rule.severity for rule in rules}
    changed = []
    for finding in findings:
        severity = severities.get(finding.code.value, finding.severity)
        if severity == finding.severity:
            changed.append(finding)
        elif severity != "Off":
            changed.append(replace(finding, severity=severity, default_severity=finding.severity))
    return changed


RULES = Rules(
    {
        (400, Code.NOT_CHECKED): lambda evidence: "; ".join(
            f"{code}: {why}" for code, why in evidence.items()
        )
    }
)
