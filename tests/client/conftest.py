"""These tests need the Python that has vLLM; where it is missing they fail, saying how to get it."""

from __future__ import annotations

import pytest
from client.processes import TINY_MODEL, VLLM_PYTHON


@pytest.fixture(scope="session", autouse=True)
def _vllm_is_here() -> None:
    for needed in (VLLM_PYTHON, TINY_MODEL):
        if not needed.exists():
            pytest.fail(f"{needed} is missing: `python3 devcluster vllm` makes it, BENCHRUN_VLLM_PYTHON names another")
