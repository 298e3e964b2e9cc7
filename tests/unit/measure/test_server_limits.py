"""What a server's arguments and own words say of its limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from benchrun.measure.pressure import ServerLimits, server_limits


@pytest.mark.parametrize(
    ("sequences", "args"),
    [
        pytest.param(256, ["--max-num-seqs=256"], id="with an equals sign"),
        pytest.param(256, ["--max-num-seqs", "256"], id="as two words"),
        pytest.param(256, ["--max_num_seqs=256"], id="with underscores"),
        pytest.param(1000, ["--max-num-seqs=1k"], id="thousands"),
        pytest.param(1024, ["--max-num-seqs=1K"], id="binary thousands"),
        pytest.param(2500, ["--max-num-seqs=2.5k"], id="decimals"),
        pytest.param(2, ["--max-num-seqs=9", "--max-num-seqs", "2"], id="the last one holds"),
        pytest.param(8, ["--max-num-seqs=2", "--data-parallel-size=4"], id="of all engines"),
        pytest.param(None, ["--max-num-seqs"], id="no value"),
        pytest.param(None, ["--max-num-seqs=many"], id="no number"),
        pytest.param(None, ["--max-num-seqs=0"], id="no limit at all"),
        pytest.param(None, ["max-num-seqs=4", "--max-num-seqs-x=4"], id="other arguments"),
    ],
)
def test_the_most_sequences(sequences: int | None, args: Sequence[str]) -> None:
    assert server_limits(args).sequences == sequences


def test_tokens_of_a_step() -> None:
    assert server_limits(["--max-num-batched-tokens", "8K"]).step_tokens == 8192


def test_what_the_server_reports_fills_the_gaps() -> None:
    reported = {"max_num_seqs": "7", "max_num_batched_tokens": "2048", "kv_cache_size_tokens": "5000"}
    found = server_limits(["--max-num-seqs=3"], reported)
    assert (found.sequences, found.step_tokens, found.kv_cache_tokens) == (3, 2048, 5000)
    assert server_limits((), reported, kv_cache_tokens=6000).kv_cache_tokens == 6000


@pytest.mark.parametrize(
    ("default", "args"),
    [
        pytest.param(True, [], id="no argument"),
        pytest.param(True, ["--enforce-eager"], id="others only"),
        pytest.param(False, ["--max-num-seqs=4"], id="set"),
        pytest.param(False, ["--config=server.yaml"], id="a file may set it"),
        pytest.param(False, None, id="arguments not known"),
    ],
)
def test_whether_a_default_holds(default: bool, args: Sequence[str] | None) -> None:
    assert server_limits(args).sequences_are_default is default


def test_nothing_known() -> None:
    assert server_limits(None) == ServerLimits()
