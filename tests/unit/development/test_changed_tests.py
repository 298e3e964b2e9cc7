"""Which unit tests stand for a change."""

from pathlib import Path

import pytest
from unit.development.commands import ROOT

from dev.changed_tests import unit_tests_of


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        pytest.param(
            ["operator/benchrun/judge/rules/warm_up.py"],
            ["tests/unit/judge/rules"],
            id="package",
        ),
        pytest.param(
            ["operator/benchrun/report/html/page.py"],
            ["tests/unit/report/html"],
            id="folder",
        ),
        pytest.param(
            ["client-image/benchrun_client/search/bisection.py"],
            ["tests/unit/client/search"],
            id="client",
        ),
        pytest.param(
            ["client-image/benchrun_client/run.py"],
            ["tests/unit/client"],
            id="client's own",
        ),
        pytest.param(
            ["docs/findings/Drift.md"], ["tests/unit/judge/rules"], id="page"
        ),
        pytest.param(
            ["tests/unit/api/test_rules_agree.py"],
            ["tests/unit/api/test_rules_agree.py"],
            id="test",
        ),
        pytest.param(
            ["tests/unit/judge/found.py"],
            ["tests/unit/judge"],
            id="helper of tests",
        ),
        pytest.param(
            [
                "operator/benchrun/judge/results.py",
                "operator/benchrun/judge/rules/load.py",
            ],
            ["tests/unit/judge"],
            id="a folder holds those in it",
        ),
        pytest.param(["tests/unit/api/test_gone.py", "README.md"], [], id="none"),
    ],
)
def test_tests_stand_where_their_package_does(
    changed: list[str], found: list[str]
) -> None:
    assert unit_tests_of(changed, Path(ROOT)) == found
