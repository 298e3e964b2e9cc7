"""The workflows of CI and releases, as actionlint reads them."""

from chart.rendering import REPOSITORY
from kit.tools import tool

WORKFLOWS = REPOSITORY / ".github" / "workflows"


def test_actionlint_finds_nothing() -> None:
    files = sorted(WORKFLOWS.iterdir())
    assert files
    assert tool("actionlint", "-no-color", *files, folder=REPOSITORY) == ""
