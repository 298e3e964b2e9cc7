"""The `benchrun` command: watch a run, report it, compare two, judge one anew, explain a finding."""

from __future__ import annotations

import argparse
import os
import sys

from rich.console import Console

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli import compare, explain, judge
from benchrun.cli.errors import CommandError
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.show import show_result
from benchrun.report.exit_codes import exit_code
from benchrun.report.progress_line import progress_line

USAGE_ERROR = 1
TABLE_WIDTH = 120
"""A narrower terminal wraps the lines; folded cells could not be read at all."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit code: that of the run's verdict, or 1 when the run can't be read."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    try:
        code = _run(options, console)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever reads, `head` or a pager, has seen enough; nothing is to be said at the interpreter's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CommandError as error:
        console.print(f"benchrun: {error}", style="red", markup=False)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace, console: Console) -> int:
    if options.command == "explain":
        return explain.run_explain(options, console)
    kubectl = Kubectl(namespace=options.namespace, context=options.context)
    if options.command == "compare":
        return compare.run_compare(options, kubectl, console)
    if options.command == "judge":
        return judge.run_judge(options, kubectl, console)
    show = _watch if options.command == "watch" else _report
    return show(kubectl, options.name, console, wide=options.wide)


def _watch(kubectl: Kubectl, name: str, console: Console, *, wide: bool) -> int:
    """A line a change, the tables at the end."""
    last = ""
    for found in kubectl.watch(name):
        status = BenchmarkRunStatus.model_validate(found.get("status", {}))
        line = progress_line(status)
        if line != last:
            console.print(line, markup=False, soft_wrap=True)
            last = line
        code = exit_code(status)
        if code is not None:
            show_result(console, name, status, wide=wide)
            return code
    return USAGE_ERROR


def _report(kubectl: Kubectl, name: str, console: Console, *, wide: bool) -> int:
    status = BenchmarkRunStatus.model_validate(kubectl.get(name).get("status", {}))
    code = exit_code(status)
    if code is None:
        console.print(progress_line(status), markup=False)
        return 0
    show_result(console, name, status, wide=wide)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchrun", description="Benchmark experiments on LLM servers, as Kubernetes objects."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("watch", "follow a run to its end; the exit code is that of its verdict"),
        ("report", "show the result of a run; the exit code is that of its verdict"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("name", help="name of the BenchmarkRun")
        _add_cluster_options(command)
        _add_wide(command)
    _add_cluster_options(compare.add_parser(commands))
    judging = judge.add_parser(commands)
    _add_cluster_options(judging)
    _add_wide(judging)
    explain.add_parser(commands)
    return parser


def _add_cluster_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--namespace", help="namespace of the run")
    command.add_argument("--context", help="kubeconfig context")


def _add_wide(command: argparse.ArgumentParser) -> None:
    command.add_argument("--wide", action="store_true", help="show the 95 %% interval of every percentile, too")


if __name__ == "__main__":
    sys.exit(main())
