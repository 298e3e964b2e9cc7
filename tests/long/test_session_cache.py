"""Hits expected of a cache of the server's size, held against real vLLM's block pool."""

from pathlib import Path

import pytest
from client.processes import TINY_MODEL
from client.real_servers import vllm_server
from client.session_caches import EVERY_ENGINE_FLAGS, run_sessions

pytestmark = pytest.mark.timeout(1800)

BLOCK_TOKENS = 32


@pytest.mark.parametrize(
    ("blocks", "evicts"), [(84, True), (100, True), (2000, False)]
)
def test_hits_expected_of_the_servers_cache_are_those_that_come(
    tmp_path: Path, blocks: int, evicts: bool
) -> None:
    flags = (
        *EVERY_ENGINE_FLAGS,
        f"--block-size={BLOCK_TOKENS}",
        f"--num-gpu-blocks-override={blocks}",
        "--max-num-seqs=8",
    )
    with vllm_server(TINY_MODEL, flags, tmp_path / "server.log") as server:
        server.wait_healthy()
        found = run_sessions(server.url, tmp_path, args=flags)
    assert found.server.kv_cache_tokens == blocks * BLOCK_TOKENS
    assert found.error_points <= 1
    assert found.counted_percent == pytest.approx(
        found.figures.hit_percent, abs=0.1
    )
    assert (found.evicted_points > 1) == evicts
