"""The scale benchmark with five runs: what must hold at any speed, and that the benchmark itself
works.

How fast, how large and how busy is asserted by `make bench-runs` alone.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ("--runs=5", "--minutes=0.25", "--wait-seconds=5")


@pytest.mark.timeout(400)
def test_five_runs_wait_without_a_request_and_complete_with_few_writes(
    definition: str,
) -> None:
    command = (sys.executable, str(ROOT / "benchmarks" / "runs.py"), *SMALL)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=390, check=False
    )
    # 1 is a limit that was not kept, perhaps of speed; 2 is a run without its children, unread, or
    # not completed.
    assert done.returncode in (0, 1), done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["runs"] == 5
    assert figures["requests_per_waiting_run_per_minute"] == 0
    assert 0 < figures["writes_per_run"] <= 40, done.stderr
    assert {
        "children_seconds",
        "server_children_seconds",
        "rss_mib",
        "cpu_cores",
    } <= figures.keys()
