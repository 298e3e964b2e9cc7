"""These tests need the Python that has vLLM; where it is missing they fail, saying how to get
it."""

from pathlib import Path

import pytest
from client.processes import TINY_MODEL, VLLM_PYTHON

TIMEOUT_SECONDS = 900
"""Each test loads vLLM's benchmark or vLLM whole, beside other work; a search alone takes seven
minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def _vllm_is_here() -> None:
    for needed in (VLLM_PYTHON, TINY_MODEL):
        if not needed.exists():
            pytest.fail(
                f"{needed} is missing: `python3 devcluster vllm` makes it, BENCHRUN_VLLM_PYTHON "
                "names another"
            )
