"""With CI=true nothing is skipped: a check that did not run fails the session, and says which."""

from __future__ import annotations

import os

import pytest

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note every test that was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when something was skipped where nothing may be."""
    if _skipped and os.environ.get("CI") == "true":
        print(f"\nskipped, which CI does not allow: {', '.join(_skipped)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
