"""What the arguments of `vllm serve` tell."""

from __future__ import annotations

import pytest
from benchrun.report.export.llmd_scenario import Parallelism, parallelism_of, parsed


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["/models/m", "--port=8000"], {"--port": "8000"}, id="equals"),
        pytest.param(["--max-model-len", "4096"], {"--max-model-len": "4096"}, id="next-word"),
        pytest.param(
            ["--enforce-eager", "--seed", "-1"], {"--enforce-eager": None, "--seed": "-1"}, id="switch-and-number"
        ),
        pytest.param(["--max_model_len=1", "--max-model-len=2"], {"--max-model-len": "2"}, id="the-last-holds"),
        pytest.param(["-tp", "4"], {"--tensor-parallel-size": "4"}, id="short"),
        pytest.param(["--port=8000", "stray"], {"--port": "8000"}, id="stray-word"),
    ],
)
def test_flags(args: list[str], expected: dict[str, str | None]) -> None:
    assert parsed(args) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], Parallelism(1, 1, 1, 1), id="default"),
        pytest.param(["-tp=2", "-pp", "3", "-dp=4"], Parallelism(2, 3, 4, 1), id="all"),
        pytest.param(["-tp=2", "-dp=4", "--enable-expert-parallel"], Parallelism(2, 1, 4, 8), id="expert"),
        pytest.param(["-tp=$(TP)", "-pp=0"], Parallelism(1, 1, 1, 1), id="no-number"),
    ],
)
def test_parallelism(args: list[str], expected: Parallelism) -> None:
    assert parallelism_of(parsed(args)) == expected
