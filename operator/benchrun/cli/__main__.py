"""The `benchrun` command, also `kubectl benchrun`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import Any, Protocol

from rich.console import Console

from benchrun.cli import errors, interrupts, tables
from benchrun.cli.commands import check, compare, explain, export, get, judge, kv_cache, logs, report, run, watch


class Command(Protocol):
    """What the module of a command offers."""

    def add_parser(self, commands: Any) -> argparse.ArgumentParser:
        """Add the command with its options to the subparsers."""

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Do it. Returns the exit code; raises CommandError."""


COMMANDS: tuple[Command, ...] = (run, watch, get, logs, report, export, compare, judge, explain, check, kv_cache)


TABLE_WIDTH = 120
"""A narrower terminal wraps the lines; folded cells could not be read at all."""


class _Output(tables.Terminal):
    """Standard output; that its reader has gone is left to `main`."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process with 1."""
        raise BrokenPipeError


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit code: that of the run's verdict, or 1 when what was asked for can't be done."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no bars gets question marks
    console = _Output()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        code: int = options.run(options, console)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()  # whoever reads, `head` or a pager, has seen enough
        return 0
    except errors.CommandError as error:
        _complain(str(error))
        return error.code
    except OSError as error:
        _drop_output()
        _complain(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return errors.CommandError.code
    except KeyboardInterrupt as interrupt:
        return interrupts.exit_code_of(interrupt)


def _complain(text: str) -> None:
    tables.Terminal(stderr=True).print(f"benchrun: {text}", style="red", markup=False, soft_wrap=True)


def _drop_output() -> None:
    """What is left of it can't be written; nothing is to be said of that at the interpreter's end either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchrun", description="Benchmark experiments on LLM servers, as Kubernetes objects."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands).set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
