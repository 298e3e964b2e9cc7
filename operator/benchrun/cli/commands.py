"""The commands of `benchrun`, in the order in which its help lists them.

A command is a module: `add_parser` says what it takes, `run` does it. A new one is a file and a line here.
"""

from __future__ import annotations

import argparse
from typing import Any, Protocol

from rich.console import Console

from benchrun.cli import check, compare, explain, export, get, judge, kv_cache, logs, report, run, watch


class Command(Protocol):
    """What the module of a command offers."""

    def add_parser(self, commands: Any) -> argparse.ArgumentParser:
        """Add the command with its options to the subparsers."""

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Do it. Returns the exit code; raises CommandError."""


COMMANDS: tuple[Command, ...] = (run, watch, get, logs, report, export, compare, judge, explain, check, kv_cache)
