"""The `benchrun` command, also `kubectl benchrun`."""

from __future__ import annotations

import argparse
import io
import os
import sys

from rich.console import Console

from benchrun.cli.commands import COMMANDS
from benchrun.cli.errors import CommandError
from benchrun.cli.interrupts import code_of

TABLE_WIDTH = 120
"""A narrower terminal wraps the lines; folded cells could not be read at all."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit code: that of the run's verdict, or 1 when what was asked for can't be done."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no bars gets question marks
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    try:
        code: int = options.run(options, console)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever reads, `head` or a pager, has seen enough; nothing is to be said at the interpreter's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CommandError as error:
        Console(stderr=True, highlight=False).print(f"benchrun: {error}", style="red", markup=False, soft_wrap=True)
        return error.code
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)


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
