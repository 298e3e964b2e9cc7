"""The entry point of the `benchrun` command, also called as `kubectl benchrun`."""

import argparse
import io
import os
import sys

from benchrun.cli import console_tables, errors, interrupts, versions
from benchrun.cli.commands import (
    check,
    compare,
    doctor,
    explain,
    export,
    get,
    judge,
    kv_cache,
    logs,
    report,
    run,
    watch,
)

COMMANDS = (
    run,
    watch,
    get,
    logs,
    report,
    export,
    compare,
    judge,
    explain,
    check,
    doctor,
    kv_cache,
)
"""Modules of the commands. Each has SUMMARY, DESCRIPTION, perhaps EPILOG, `add_options`, and `run`,
which returns the exit code or raises CommandError."""
TABLE_WIDTH = 120  # A narrower terminal wraps the lines; folded cells could not be read at all.


class _Output(console_tables.Terminal):
    """Standard output that raises BrokenPipeError when the reader of the pipe has gone.

    `main` handles the error; without this class Rich would end the process.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: that of the run's verdict, or 1 if it failed."""
    parser = argparse.ArgumentParser(
        prog="benchrun",
        description="Benchmark experiments on LLM servers, as Kubernetes objects.",
    )
    parser.add_argument(
        "--version",
        action=versions.ShowVersions,
        help="print the versions of this command and of the operators in the cluster",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    for command in COMMANDS:
        command_parser = commands.add_parser(
            command.__name__.rpartition(".")[2].replace("_", "-"),
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=getattr(command, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_options(command_parser)
        command_parser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # "?" on a terminal that can't show bars
        sys.stdout.reconfigure(errors="replace")
    console = _Output()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        code: int = options.run(options, console)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()  # The reader, such as `head` or a pager, has seen enough.
        return 0
    except errors.CommandError as error:
        _complain(str(error))
        return error.code
    except OSError as error:
        _drop_output()
        _complain(
            f"{error.filename or 'standard output'}: {error.strerror or error}"
        )
        return errors.CommandError.code
    except KeyboardInterrupt as interrupt:
        return interrupts.exit_code_of(interrupt)


def _complain(text: str) -> None:
    console_tables.Terminal(stderr=True).print(
        f"benchrun: {text}", style="red", markup=False, soft_wrap=True
    )


def _drop_output() -> None:
    """Redirect standard output to nowhere, because the rest can't be written.

    Otherwise the interpreter would print an error when it exits.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
