"""A thousand runs at once on a real API server: what the operator takes, and how it restarts.

It measures children, writes, memory, CPU, a restart, and a neighbour's release. Nothing runs in the
pods: the benchmark writes their status, and plays their metrics pages and clients itself, so that
only the operator is measured. Needs KUBECONFIG, kubectl and helm. Progress goes to standard error;
the last line on standard output is one JSON object (`scale_kit.figures.Figures`). Exits 1 when a
limit is not kept, 2 when something went wrong.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from _outcome import measured, say
from runs_kit.operator_process import command
from scale_kit.figures import Figures
from scale_kit.scenario import Scale, Scenario


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument(
        "--ended", type=int, default=10_000, help="runs there at the restart"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=2.0,
        help="how long half of the servers are measured",
    )
    given = parser.parse_args()
    scale = Scale(
        runs=given.runs, ended=given.ended, scrape_seconds=60 * given.minutes
    )
    return measured(_measure(scale))


async def _measure(scale: Scale) -> Figures:
    definitions = str(Path(__file__).parents[1] / "crds")
    await command(
        "kubectl", "apply", "--server-side", "--force-conflicts", "-f", definitions
    )
    wait = ("--for=condition=Established", "-f", definitions, "--timeout=30s")
    await command("kubectl", "wait", *wait)
    with tempfile.TemporaryDirectory(prefix="benchrun-scale-") as directory:
        async with Scenario.opened(scale, Path(directory), say) as scenario:
            return await scenario.play()


if __name__ == "__main__":
    sys.exit(main())
