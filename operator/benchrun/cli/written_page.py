"""One HTML file, written where it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchrun.cli.errors import CommandError

EXTRA = "the HTML report needs two more packages: pip install 'benchrun-operator[report]'"


def written_page(file: Path, made: Callable[[], str], console: Console) -> None:
    """`made` imports what draws: other commands do without the packages that it needs. Raises CommandError."""
    try:
        text = made()
    except ModuleNotFoundError as error:
        raise CommandError(EXTRA) from error
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
    console.print(f"wrote {file}", markup=False, soft_wrap=True)
