"""With CI=true nothing is skipped: a check that did not run fails the session, and says which."""

import os

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, not wrong. In CI the examples are the same every time; EXAMPLES=1000 with
# `-m hypothesis` tries more of them.
settings.register_profile(
    "benchrun",
    max_examples=int(os.environ.get("EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("benchrun")

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note every test that was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A whole file that skips itself has no tests to report."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when something was skipped where nothing may be."""
    if _skipped and os.environ.get("CI") == "true":
        print(f"\nskipped, which CI does not allow: {', '.join(_skipped)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
