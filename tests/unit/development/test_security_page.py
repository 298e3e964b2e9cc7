"""Every promise of the threat model names a test, and each of them is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.findall(r"`((?:unit|chart|cluster|e2e)/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def test_it_names_tests() -> None:
    assert len(NAMED) > 25
    assert len(NAMED) == len(set(NAMED))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_each_of_them_is_there(file: str, test: str) -> None:
    assert f"def {test}" in (ROOT / "tests" / file).read_text()
