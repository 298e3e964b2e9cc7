"""Options that several commands share."""

import argparse
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

EXIT_CODES = """\
exit codes: 0 Valid or Suspect; 1 can't be read; 2 failed; 3 an objective missed or a figure \
regressed; 4 some numbers are
invalid, or the run was not judged; 5 cancelled; 6 an objective or the baseline's gate is \
inconclusive, or the gate has one
server a side.
For a sweep: 2 the sweep, one of its runs or its table failed; \
objectives and changes do not set the code."""


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="default: table",
    )


def add_cluster_options(
    parser: argparse.ArgumentParser, *, wide: bool = False
) -> None:
    """Add `-n` and `--context` as kubectl has them, with `wide` also `--wide`.

    `wide` is for commands that show a result.
    """
    parser.add_argument("-n", "--namespace", help="namespace of the run")
    parser.add_argument("--context", help="kubeconfig context")
    if wide:
        more = (
            "also total tokens/s, every stage, 95 %% intervals (and settings, in report); for a "
            "sweep, every figure"
        )
        parser.add_argument("--wide", action="store_true", help=more)


def add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="NAME is a sweep, even if a run has the same name",
    )


def number_from_0(text: str) -> float | None:
    """Parse a finite number that is not negative; return None for any other text."""
    with suppress(ValueError):
        value = float(text)
        return value if 0 <= value < math.inf else None
    return None


def valid(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make `read` the type of an argument, so that argparse prints its ValueErrors."""

    def read_argument(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read_argument
