"""The first sections of the pages.

They show whether the numbers of a run or sweep can be trusted, what was found, and which variant is
best.
"""

from collections import Counter

from benchrun.api import SEVERITIES, BenchmarkRunStatus, Finding, find_condition
from benchrun.api.sweep import (
    THROUGHPUT,
    BenchmarkSweepStatus,
    SweepReason,
    VariantStatus,
)
from benchrun.report import exit_codes, html, opening
from benchrun.report.comparison_rows import GATES, WORDS
from benchrun.report.run_list import outcome_word
from benchrun.report.sweep_rows import (
    best_rows,
    compared_text,
    failure,
    is_per_gpu,
    undecided_rows,
)
from benchrun.report.tables import (
    ABSENT,
    Column,
    Rows,
    figure,
    objective_rows,
    table_of,
    width_rows,
)

MEANINGS = {
    "Valid": (
        "The rules found nothing that makes a number doubtful. The findings list "
        "Notes, and what the rules could not check."
    ),
    "Suspect": "Some numbers may be off. Read the findings before you quote them.",
    "Invalid": (
        "Some numbers are wrong, or do not describe the load that you asked for. "
        "The other load points are not affected."
    ),
    "Failed": "The run ended before everything was measured. What it measured is "
    "below.",
    "Cancelled": "The run was cancelled. What it measured is below.",
    "Unknown": "There is no verdict; the line above says why.",
}
ANOTHER_START = " Another start of the same server may still differ."
HOLES = " Not every run was measured: the table has gaps, and the variants below say why."
_OBJECTIVES = {
    "True": "all met",
    "False": "missed",
    "Unknown": "not certain whether all are met",
}
_SWEEP_RUNS = {
    "completed": "measured",
    "failed": "failed",
    "cancelled": "cancelled",
    "skipped": "skipped",
    "waiting": "never started",
    "lost": "lost and measured anew",
}


def verdict_section(run: html.Reported) -> html.Section:
    """Build the verdict with its reason, the headline, and the objectives."""
    status = run.status
    word = outcome_word(status)
    meaning = MEANINGS.get(word, "") + (ANOTHER_START if word == "Valid" else "")
    answers = tuple(
        (each.workload, each.outcome, each.sentence) for each in status.searches
    )
    return html.section(
        "verdict",
        "Verdict",
        html.Verdict(word, status.message or "", meaning),
        *_begin(opening.of_run(status)),
        _facts(status),
        html.Table(
            "Highest load that meets the objectives",
            Rows(("workload", "search", "answer"), answers),
        ),
        html.Table(
            "Objectives", objective_rows(status), words=frozenset({"outcome"})
        ),
        html.Table("Widths of intervals", width_rows(status)),
        html.CodeBlock("Last lines of the server's log", status.log_tail or ""),
    )


def _begin(found: opening.Opening | None) -> list[html.Prose]:
    """Return the three sentences that a report begins with."""
    return [
        html.Prose(each) for each in (found.sentences if found is not None else ())
    ]


def _facts(status: BenchmarkRunStatus) -> html.FactList:
    verdicts = Counter(row.verdict for row in status.results)
    head = status.headline
    gate = status.comparison.gate if status.comparison is not None else None
    kept = find_condition(status.conditions, "ObjectivesMet")
    return html.facts(
        "At a glance",
        ("Ended because", exit_codes.failure_reason(status.conditions)),
        (
            "Load points",
            ", ".join(f"{count} {word}" for word, count in verdicts.most_common()),
        ),
        ("Best load point", head.load_point if head else None),
        (
            "Output throughput there",
            f"{head.throughput} tokens/s" if head else None,
        ),
        ("p99 TTFT there", head.p99_ttft if head else None),
        ("Objectives", _OBJECTIVES.get(kept.status) if kept is not None else None),
        ("Against the baseline", GATES[gate] if gate is not None else None),
    )


def findings_section(run: html.Reported) -> html.Section:
    """Build the findings, the worst first, each with its sentence and its remedy.

    The evidence is shown after a click.
    """
    ordered = sorted(
        run.status.findings, key=lambda each: -SEVERITIES.index(each.severity)
    )
    none = (
        "No rule found anything."
        if run.status.results
        else "Nothing was measured that could be judged."
    )
    return html.section(
        "findings",
        "Findings",
        *map(_card, ordered),
        html.Prose("" if ordered else none),
    )


def _card(found: Finding) -> html.FindingCard:
    stages = "one stage" if found.count == 1 else f"{found.count} stages"
    changed = (
        f"; {found.default_severity} by default" if found.default_severity else ""
    )
    where = f"{stages}, worst in {found.worst_stage}{changed}"
    evidence = [
        (name, evidence_text(value)) for name, value in found.evidence.items()
    ]
    return html.FindingCard(
        found.code,
        found.severity,
        where,
        found.meaning,
        found.remedy,
        found.sentence,
        evidence,
    )


def evidence_text(value: float | str | None) -> str:
    """Format a value of evidence: whole numbers for counts, three digits for measured values."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.0f}" if value == int(value) else figure(value)


def sweep_verdict_section(sweep: html.ReportedSweep) -> html.Section:
    """Build the verdict with its reason, the best of each workload, and each variant's state."""
    status = sweep.status
    word = outcome_word(sweep.status)
    complete = find_condition(status.conditions, "Complete")
    holes = (
        HOLES
        if complete is not None and complete.reason == SweepReason.RUNS_FAILED
        else ""
    )
    return html.section(
        "verdict",
        "Verdict",
        html.Verdict(word, status.message or "", MEANINGS.get(word, "") + holes),
        *_begin(opening.of_sweep(status)),
        _sweep_facts(status),
        html.Table(
            "The variants",
            _variants(status),
            words=frozenset({"verdict", "against the baseline"}),
        ),
        html.Prose(
            f"Compared {compared_text(status)}." if status.scope is not None else ""
        ),
    )


def _sweep_facts(status: BenchmarkSweepStatus) -> html.FactList:
    best = [
        (best.workload, f"{best.variant} at {best.load_point}")
        for best in status.best
        if best.objective == THROUGHPUT and best.variant is not None
    ]
    several = len(best) > 1
    # For more workloads, see the table below.
    best = best if len(best) <= 4 else []
    most = f"Most throughput{' per GPU' if is_per_gpu(status) else ''}"
    counts = (
        status.runs.model_dump(include=set(_SWEEP_RUNS))
        if status.runs is not None
        else {}
    )
    return html.facts(
        "At a glance",
        ("Ended because", exit_codes.failure_reason(status.conditions)),
        *(
            (f"{most}{f', {workload}' if several else ''}", variant)
            for workload, variant in best
        ),
        ("Baseline", status.baseline),
        (
            "Runs",
            ", ".join(
                f"{count} {_SWEEP_RUNS[name]}"
                for name, count in counts.items()
                if count
            ),
        ),
        (
            "GPU seconds held",
            figure(status.gpu_seconds, digits=4) if status.gpu_seconds else None,
        ),
    )


def _variants(status: BenchmarkSweepStatus) -> Rows:
    failed = any(variant.reason for variant in status.variants)
    outcomes = {
        each.name: WORDS.get(each.outcome or "", each.outcome or ABSENT)
        for each in status.variants
    }
    outcomes |= {status.baseline or "": "baseline"}
    loads = {
        each.name: (f"{s.workload}: {', '.join(s.loads)}" for s in each.searches)
        for each in status.variants
    }
    found = {name: "; ".join(of_workloads) for name, of_workloads in loads.items()}
    columns: tuple[Column[VariantStatus], ...] = (
        Column("variant", lambda variant: variant.name),
        Column("against the baseline", lambda variant: outcomes[variant.name]),
        Column("verdict", lambda variant: variant.verdict or "Unknown"),
        Column("GPUs", lambda variant: str(variant.gpus)),
        Column("runs measured", lambda variant: str(variant.completed)),
        Column(
            "highest load that meets the objectives",
            lambda variant: found[variant.name] or ABSENT,
            optional=True,
        ),
        Column(
            "failed",
            lambda variant: str(variant.failed) if failed else ABSENT,
            optional=True,
        ),
        Column(
            "reason",
            lambda variant: failure(variant) if variant.reason else ABSENT,
            optional=True,
        ),
    )
    return table_of(columns, status.variants)


def best_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Build the best variants; None if no variant can be the best."""
    if not (best := best_rows(sweep.status)).rows:
        return None
    unit = "a second and GPU" if is_per_gpu(sweep.status) else "a second"
    lead = html.Prose(
        f"The best variant has the most output tokens {unit}, among those whose every run met the "
        "objective with certainty. The objective Throughput has no other condition. Variants that "
        "can't be told from the best are tied with it."
    )
    undecided = undecided_rows(sweep.status)
    return html.section(
        "best",
        "Best variants",
        lead,
        html.Table("Best variant by objective", best),
        html.Prose(UNDECIDED if undecided.rows else ""),
        html.Table("Undecided variants", undecided),
    )


UNDECIDED = (
    "Undecided variants have more throughput than the best, but it is not certain "
    "whether they meet the objective, or their load point is Invalid."
)
