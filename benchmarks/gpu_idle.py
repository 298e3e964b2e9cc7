"""How long a GPU is held without a request: a BenchmarkRun against server and Jobs by hand.

Both use the same server and stages. Idle is every second, from the server's first healthy answer to
the request that deletes it, in which it has no request in flight. This is seen on the wire, not
reported by any component. Warm-up and canary are requests too, and are reported separately.

Needs the embedded cluster with the operator installed (KUBECONFIG, DEVCLUSTER_DIR) and root.
Progress goes to standard error; the last line on standard output is one JSON object. Exits 1 when a
limit is not kept, 2 when something went wrong.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _outcome import beyond, finish, say
from gpu_idle_kit import arms, report
from gpu_idle_kit.figures import NotAsExpected
from gpu_idle_kit.manifests import SERVERS, ServerKind
from gpu_idle_kit.wire import node_pid
from runs_kit.cluster import Cluster

LEAST_RATIO = 20.0
LIMITS_SECONDS = {
    "ready_to_first_seconds": 1.0,
    "between_stages_seconds": 0.3,
    "last_to_deleted_seconds": 1.0,
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The printed figures; all but the last two are the BenchmarkRun's."""

    ready_to_first_seconds: float
    between_stages_seconds: float
    last_to_deleted_seconds: float
    warmup_seconds: float
    idle_seconds: float
    baseline_idle_seconds: float
    ratio: float

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        return beyond(self, below=LIMITS_SECONDS, at_least={"ratio": LEAST_RATIO})


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--server",
        choices=sorted(SERVERS),
        default="vllm",
        help="what serves (default: %(default)s)",
    )
    server = SERVERS[parser.parse_args().server]
    try:
        figures = asyncio.run(_measure(server))
    except (NotAsExpected, RuntimeError, OSError, KeyError) as error:
        say(f"{type(error).__name__}: {error}")
        return 2
    return finish(figures)


async def _measure(server: ServerKind) -> Figures:
    node = node_pid(Path(os.environ["DEVCLUSTER_DIR"]))
    cluster = await Cluster.connect()
    try:
        async with arms.arm(cluster, node_pid=node, say=say) as arm:
            ours = await arms.benchmark_run(arm, server)
        _print_arm("BenchmarkRun", ours)
        async with arms.arm(cluster, node_pid=node, say=say) as arm:
            by_hand = await arms.by_hand(arm, ours.template)
        _print_arm("by hand", by_hand)
    finally:
        await cluster.close()
    run = ours.seen()
    baseline = by_hand.seen()
    return Figures(
        ready_to_first_seconds=round(run.ready_to_first_seconds, 3),
        between_stages_seconds=round(run.between_stages_seconds, 3),
        last_to_deleted_seconds=round(run.last_to_deleted_seconds, 3),
        warmup_seconds=round(run.warmup_seconds, 3),
        idle_seconds=round(run.idle_seconds, 3),
        baseline_idle_seconds=round(baseline.idle_seconds, 3),
        ratio=round(baseline.idle_seconds / run.idle_seconds, 1),
    )


def _print_arm(name: str, watched: arms.Watched) -> None:
    for line in report.lines(
        name, watched.seen(), exchanges=watched.exchanges, records=watched.records
    ):
        say(line)
    say(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    sys.exit(main())
