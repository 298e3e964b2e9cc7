"""Hits expected of a cache of the server's size, held against a simulated server's own cache."""

from pathlib import Path

import pytest
from client.processes import free_port, simulator
from client.session_caches import EVERY_ENGINE_FLAGS, run_sessions

PACE = ("--sim-ttft-ms=60", "--sim-tpot-ms=5")


@pytest.mark.parametrize(
    ("tokens", "evicts"), [(2560, True), (3072, True), (65536, False)]
)
def test_hits_expected_of_the_servers_cache_are_those_that_come(
    tmp_path: Path, tokens: int, evicts: bool
) -> None:
    port = free_port()
    flags = (*EVERY_ENGINE_FLAGS, f"--sim-kv-tokens={tokens}")
    with simulator(*flags, *PACE, port=port):
        found = run_sessions(f"http://localhost:{port}", tmp_path)
    assert found.error_points <= 1
    assert found.counted_percent == pytest.approx(
        found.figures.hit_percent, abs=0.1
    )
    assert (found.evicted_points > 1) == evicts
