"""`benchrun watch NAME` follows a run to its end; `benchrun report NAME` shows what came out."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.kubectl import Kubectl, KubectlError
from benchrun.cli.show import show_result
from benchrun.report.exit_codes import exit_code
from benchrun.report.progress_line import progress_line

USAGE_ERROR = 1
TABLE_WIDTH = 124
"""A narrower terminal wraps the lines; folded cells could not be read at all."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit code: that of the run's verdict, or 1 when the run can't be read."""
    options = _parser().parse_args(arguments)
    kubectl = Kubectl(namespace=options.namespace, context=options.context)
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    try:
        if options.command == "watch":
            return _watch(kubectl, options.name, console)
        return _report(kubectl, options.name, console)
    except KubectlError as error:
        console.print(f"benchrun: {error}", style="red", markup=False)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return 130


def _watch(kubectl: Kubectl, name: str, console: Console) -> int:
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
            show_result(console, name, status)
            return code
    return USAGE_ERROR


def _report(kubectl: Kubectl, name: str, console: Console) -> int:
    status = BenchmarkRunStatus.model_validate(kubectl.get(name).get("status", {}))
    code = exit_code(status)
    if code is None:
        console.print(progress_line(status), markup=False)
        return 0
    show_result(console, name, status)
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
        command.add_argument("-n", "--namespace", help="namespace of the run")
        command.add_argument("--context", help="kubeconfig context")
    return parser


if __name__ == "__main__":
    sys.exit(main())
