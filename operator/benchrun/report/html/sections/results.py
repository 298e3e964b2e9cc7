"""Sections with the figures of every load point, and what limits them."""

from benchrun.api import Result
from benchrun.report import html, serving_result, tables
from benchrun.report.run_list import template
from benchrun.report.sweep_rows import (
    LEGEND,
    configuration_rows,
    cuts,
    left_out,
    variant_rows,
)
from benchrun.report.tables import Rows

MAX_NAMED = 8  # Most load points listed by name if nothing limits them.
VERDICT = frozenset({"verdict"})


def results_section(run: html.Reported) -> html.Section:
    """Build the terminal's results table and, folded, the interval of each percentile."""
    status = run.status
    if not status.results:
        return html.section(
            "results", "Results", html.Prose("No load point was measured.")
        )
    texts = tables.texts_per_prompt(run.declared.spec)
    rows = tables.result_rows(status, texts_per_prompt=texts, wide=True)
    intervals = html.Table(
        "95 % intervals, and the figure of the whole stage",
        tables.interval_rows(status),
    )
    holder = "The status" if run.document is None else "The result document"
    parts = "; ".join(
        f"{cut.included} of {cut.total} {cut.field}" for cut in status.truncated
    )
    return html.section(
        "results",
        "Results",
        html.Table("Load points, with their repeats pooled", rows, words=VERDICT),
        html.Prose(
            f"{tables.LEGEND[0].upper()}{tables.LEGEND[1:]}. Latencies are the client's; running, "
            "waiting, KV max and hits are what the servers report. A dash means: not measured."
        ),
        html.Table("Texts in all, by packing", tables.packing_rows(status, texts)),
        *_sessions(run),
        html.Prose(
            f"{tables.UNCERTAIN_NOTE}." if tables.has_uncertain(rows) else ""
        ),
        html.fold("How certain each percentile is", intervals),
        html.fold(
            f"{serving_result.TITLE}, as vllm bench serve prints it", *_blocks(run)
        ),
        html.Prose(
            f"{holder} is limited in size and holds only {parts}." if parts else ""
        ),
    )


def _sessions(run: html.Reported) -> list[html.Table | html.Prose]:
    """Return the tables of sessions; none if no stage has any."""
    if not any(stage.sessions for stage in run.stages):
        return []
    return [
        html.Table("Sessions", tables.session_rows(run.stages)),
        html.Table("By turn, whole stages, in ms", tables.turn_rows(run.stages)),
        html.Prose(
            "A turn's number is how many turns, one after another, led to it. Hits expected are "
            "what an endless cache would find of earlier prompts; hits are what the answers told."
        ),
    ]


def _blocks(run: html.Reported) -> list[html.CodeBlock]:
    """Return one block for each stage; a load point without known stages has one block.

    Blocks have the layout of `vllm bench serve`.
    """
    known = {stage.load_point for stage in run.stages}
    found = [serving_result.block_of_stage(stage) for stage in run.stages]
    rest = [row for row in run.status.results if row.load_point not in known]
    lost = run.status.model_copy(update={"results": rest})
    return [
        html.CodeBlock(each.name, each.text)
        for each in (*found, *serving_result.blocks(lost))
    ]


def limits_section(run: html.Reported) -> html.Section | None:
    """Build why requests waited and what the bottleneck is, each answer once.

    Load points without queue and bottleneck are named on one line. Return None if nothing was
    measured.
    """
    if not (results := run.status.results):
        return None
    explained = tuple(
        row
        for row in tables.explanation_rows(run.status, wide=True).rows
        if row[1] != "profile"
    )
    quiet = [row.load_point for row in results if not _is_limited(row)]
    where = (
        ", ".join(quiet) if len(quiet) <= MAX_NAMED else f"{len(quiet)} load points"
    )
    if len(quiet) == len(results):
        where = "any load point; the servers kept up"
    stages = html.Table(
        "Latencies are means of whole stages, in ms", tables.repeat_rows(run.status)
    )
    return html.section(
        "limits",
        "Bottlenecks",
        html.Table(
            "Why requests waited, what is the bottleneck, and other questions",
            Rows(tables.EXPLANATION_HEADERS, explained),
            stacked=True,
        ),
        html.Prose(f"No queue and no bottleneck at {where}." if quiet else ""),
        html.fold("Every stage, in order of measurement", stages),
    )


def _is_limited(row: Result) -> bool:
    """Return whether something made requests wait, or limits throughput."""
    return (row.waiting is not None and row.waiting.reason != "None") or (
        row.bottleneck is not None and row.bottleneck.limit != "None"
    )


def profile_section(run: html.Reported) -> html.Section | None:
    if (profile := run.status.profile) is None:
        return None
    lead = (
        "After everything was measured, vLLM's own profiler ran during some seconds "
        "of load; no other figure includes them."
    )
    kernels = html.Table(
        "Kernels with the most time", tables.kernel_rows(run.status)
    )
    return html.section(
        "profile",
        "Profile",
        html.Prose(profile.sentence),
        kernels,
        html.Prose(lead),
    )


def sweep_limits_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Build the bottlenecks by variant and load point, other differences, and missing comparisons.

    A bottleneck is one that a variant and the baseline show together. Return None if there is
    nothing to show.
    """
    results = sweep.status.results
    limited = tuple(
        (row.variant, row.load_point, row.limit.sentence)
        for row in results
        if row.limit is not None
    )
    reasons = tuple(
        (row.variant, row.load_point, row.reason)
        for row in results
        if row.runs and row.reason
    )
    at = ("variant", "load point")
    made = html.section(
        "limits",
        "Bottlenecks, and what is missing",
        html.Table(
            "Bottlenecks that the variant and the baseline show together",
            Rows((*at, "bottleneck"), limited),
            stacked=True,
        ),
        html.Table(
            "Other differences, or why rows are not compared",
            Rows((*at, "reason"), reasons),
            stacked=True,
        ),
        *(html.Prose(f"{sentence}.") for sentence in left_out(sweep.status)),
    )
    return made if made.elements else None


def sweep_results_section(sweep: html.ReportedSweep) -> html.Section:
    """Build the results table in its widest form, with every variant and load point."""
    rows = variant_rows(
        sweep.status,
        texts_per_prompt=tables.texts_per_prompt(template(sweep.declared)),
        wide=True,
    )
    if not rows.rows:
        return html.section(
            "results", "Results", html.Prose("No variant was measured.")
        )
    return html.section(
        "results",
        "Results",
        html.Table("Variants and load points", rows, words=VERDICT),
        html.Table("Load points side by side", configuration_rows(sweep.status)),
        html.Prose(f"{LEGEND[0].upper()}{LEGEND[1:]}. A dash means: not measured."),
        *(html.Prose(f"{cut}.") for cut in cuts(sweep.status)),
    )
