"""A hundred runs at once on a real API server: the operator's time, memory, CPU and writes.

Nothing runs in the pods: the benchmark writes their status, and plays their metrics pages and
clients itself, so that only the operator is measured. Needs KUBECONFIG, kubectl and helm. Progress
goes to standard error; the last line on standard output is one JSON object
(`runs_kit.figures.Figures`). Exits 1 when a limit is not kept, 2 when something went wrong.
"""

import argparse
import sys
import tempfile
import uuid
from pathlib import Path

from _outcome import measured, say
from runs_kit.figures import Figures
from runs_kit.operator_process import command
from runs_kit.scenario import Scale, Scenario


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="how long every server is scraped once a second",
    )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=60.0,
        help="how long every run waits for a GPU",
    )
    given = parser.parse_args()
    scale = Scale(
        runs=given.runs,
        scrape_seconds=60 * given.minutes,
        wait_seconds=given.wait_seconds,
    )
    return measured(_measure(scale))


async def _measure(scale: Scale) -> Figures:
    definitions = Path(__file__).parents[1] / "crds"
    await command(
        "kubectl",
        "apply",
        "--server-side",
        "--force-conflicts",
        f"--filename={definitions}",
    )
    await command(
        "kubectl",
        "wait",
        "--for=condition=Established",
        "--filename",
        str(definitions),
        "--timeout=30s",
    )
    with tempfile.TemporaryDirectory(prefix="benchrun-scale-") as directory:
        return await Scenario(scale, f"scale-{uuid.uuid4().hex[:8]}", say=say).play(
            Path(directory)
        )


if __name__ == "__main__":
    sys.exit(main())
