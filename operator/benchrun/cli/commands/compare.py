"""`benchrun compare BASELINE CANDIDATE`: compare two configurations.

Runs are read from the cluster or from files.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from rich.console import Console

from benchrun.api import (
    DEFAULT_EQUIVALENCE_PERCENT,
    DEFAULT_METRICS,
    Bottleneck,
    ComparedMetric,
)
from benchrun.cli import (
    archives,
    cluster,
    console_tables,
    errors,
    finished_results,
    foreign_comparison,
    shared_options,
)
from benchrun.cli.finished_results import NamedRun
from benchrun.judge.comparison import comparability, compare
from benchrun.observe import view_builders
from benchrun.report import exit_codes
from benchrun.report.html import Reported

_CODES = {
    None: exit_codes.PASSED,
    "NotRegressed": exit_codes.PASSED,
    "Regressed": exit_codes.MISSED,
    "RegressedHere": exit_codes.MISSED,
}


SUMMARY = "compare two configurations, each measured by one run or several"
DESCRIPTION = """\
Compare two configurations: what changed, by how much, and whether that is more than noise.

Each side is a run, or a comma-separated list of runs of one configuration, \
each with a server of its own. With one run a
side, intervals show the noise between repeats on one server, \
so a mere restart of the server may count as a change. With two or more runs
a side, intervals show the noise between servers. Outcomes are corrected for multiple testing: \
if nothing changed, any change is reported in at most 5 % of comparisons.
The gate (--max-regression) tests each figure against the limit. \
With one server a side it holds for these two servers
only, and passes only with --one-server-is-enough. --equivalence is the least change that \
matters.

A side may also be TOOL=FILE[,FILE...], result files of another tool, \
as judge --from reads them: then both are, and only
figures of equal definition are compared."""
EPILOG = """\
exit codes: 0 compared, whatever the outcome, or within --max-regression; 1 a run can't be read; \
3 a figure got worse by more
than --max-regression (with one server a side: on these two servers); \
6 the gate could not decide (Inconclusive), or the
comparison had too few data to decide (Underpowered), or it passed with one server a side only \
(NotRegressedHere)."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "baseline", help="name of a run, or several names separated by commas"
    )
    parser.add_argument(
        "candidate", help="name of a run, or several names separated by commas"
    )
    add = parser.add_argument
    metrics = get_args(ComparedMetric)
    source = (
        "look for the runs in this file instead of the cluster: a result document "
        "(benchrun export NAME --format result), or the output of kubectl get -o "
        "yaml; may be repeated"
    )
    add(
        "-f",
        "--file",
        action="append",
        type=archives.source,
        default=[],
        metavar="FILE",
        help=source,
    )
    which = (
        f"figure to compare, may be repeated: {', '.join(metrics)} (default: "
        f"{', '.join(DEFAULT_METRICS)})"
    )
    add(
        "-m",
        "--metric",
        action="append",
        choices=metrics,
        metavar="FIGURE",
        help=which,
    )
    percent = shared_options.valid(_percent)
    gate = "exit with 3 if a figure got worse by more than this percentage"
    add("--max-regression", type=percent, metavar="PERCENT", help=gate)
    enough = (
        "let the gate pass with one server a side, although it then holds for these "
        "two servers only"
    )
    add("--one-server-is-enough", action="store_true", help=enough)
    least = (
        "the least change that matters; smaller changes are Equivalent (default: "
        f"{DEFAULT_EQUIVALENCE_PERCENT})"
    )
    add(
        "--equivalence",
        type=percent,
        default=float(DEFAULT_EQUIVALENCE_PERCENT),
        metavar="PERCENT",
        help=least,
    )
    shared_options.add_output(parser)
    shared_options.add_cluster_options(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    if foreign_comparison.are_files(options):
        return foreign_comparison.compare_files(options, console)
    kubectl = cluster.kubectl_of(options)
    find = _in_files(options.file) if options.file else _in_cluster(kubectl)
    before, after = (
        [find(name) for name in _names(side)]
        for side in (options.baseline, options.candidate)
    )
    baseline = [_measured(run) for run in before]
    candidate = [_measured(run) for run in after]
    metrics = list(dict.fromkeys(options.metric or DEFAULT_METRICS))
    found = compare.compare(
        baseline,
        candidate,
        metrics=metrics,
        max_regression_percent=options.max_regression,
        equivalence_percent=options.equivalence,
        one_server_is_enough=options.one_server_is_enough,
    )
    limited = compare.limits(baseline, candidate, found.load_points)
    if options.output == "json":
        print(json.dumps(_as_json(baseline, candidate, found, limited), indent=2))
    else:
        sides = {"before": options.baseline, "after": options.candidate}
        console_tables.show_comparison(console, found, **sides, limited=limited)
        for run in (*before, *after):
            finished_results.show_notes(run, console)
    if found.gate == "NotRegressedHere" and options.one_server_is_enough:
        return exit_codes.PASSED
    return _CODES.get(found.gate, exit_codes.UNDECIDED)


def _names(side: str) -> list[str]:
    if not (names := [name.strip() for name in side.split(",") if name.strip()]):
        raise errors.CommandError(f"{side!r} is not a run name")
    return names


def _measured(found: Reported) -> comparability.MeasuredRun:
    run = found.declared
    return comparability.MeasuredRun(run.name, run.uid, found.spec, found.status)


def _in_cluster(kubectl: cluster.Kubectl) -> Callable[[str], Reported]:
    def find(name: str) -> Reported:
        run = view_builders.run_of(kubectl.get(name))
        return finished_results.with_document(
            NamedRun(run), finished_results.in_cluster(kubectl)
        )

    return find


def _in_files(paths: Sequence[archives.Source]) -> Callable[[str], Reported]:
    known: dict[str, NamedRun] = {}
    for path in paths:
        for name, named in finished_results.runs_in(path).items():
            if known.setdefault(name, named) != named:
                raise errors.CommandError(
                    f"the files hold two different runs of the name {name}"
                )

    def find(name: str) -> Reported:
        if name not in known:
            raise errors.CommandError(
                f"no file holds a run {name}; the files hold: {', '.join(known) or 'none'}"
            )
        return finished_results.with_document(known[name], None)

    return find


def _as_json(
    before: comparability.Side,
    after: comparability.Side,
    found: compare.Compared,
    limited: Mapping[str, Bottleneck],
) -> dict[str, object]:
    sides = {
        side: [
            {
                "name": run.name,
                "uid": run.uid,
                "digest": comparability.results_digest(run),
            }
            for run in runs
        ]
        for side, runs in (("baseline", before), ("candidate", after))
    }
    load_points = [
        load_point.model_dump(mode="json", by_alias=True, exclude_none=True)
        for load_point in found.load_points
    ]
    words = {
        "scope": found.scope,
        "outcome": found.outcome,
        "gate": found.gate,
        "message": found.message,
    }
    shown = [
        {"loadPoint": load_point, **limit.model_dump(mode="json", by_alias=True)}
        for load_point, limit in limited.items()
    ]
    return {
        **sides,
        "settings": [
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in found.settings
        ],
        **words,
        "detectablePercent": found.detectable_percent,
        "loadPoints": load_points,
        "limits": shown,
    }


def _percent(text: str) -> float:
    if (number := shared_options.number_from_0(text)) is None:
        raise ValueError(
            f"{text!r} is not a percentage of 0 or more; write 5 or 2.5"
        )
    return number
