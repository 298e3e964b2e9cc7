"""How much load several client processes carry, and whether their figures are true.

First one process meets rates that rise until the judge calls it saturated. Then several send 1.6
times that rate (with eight and more: six times), and their TTFT is compared with the log of the
simulated server. Server and client share this machine; where it is permitted to (root), the client
runs at real-time priority in both cases, as if it had the cores of another node. Needs the vLLM for
CPUs that `python3 devcluster vllm` installs. Progress goes to standard error; the last line on
standard output is one JSON object. Exits 1 when a limit is not kept.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from _outcome import finish, say
from benchrun.api import Severity
from truth_kit.lab import Experiment, measure
from truth_kit.timing import ttft_error

RATES = range(100, 625, 25)
"""Requests a second, in small steps: the rate that is too much for one process is found to a few
percent."""
TTFT_MS = 100.0
TPOT_MS = 10.0
TOKENS = 32
SECONDS = 6
TIMES = {2: 1.6, 8: 6.0}
"""Number of processes -> multiple of the load that is too much for one process."""
MIN_ACHIEVED_SHARE = 0.99
MAX_SKEW_US = 20_000


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed."""

    cores: int
    processes: int
    saturated_at: int
    """The rate, in requests a second, at which one process is called saturated; 0: at none."""
    asked_rate: int
    achieved_rate: float
    ttft_error_percent: float | None
    """Percent by which the mean TTFT is too long; None: the requests are not those of the server's
    log."""
    alone_ttft_error_percent: float | None
    """The same for one process at the rate at which it is called saturated. Several processes send
    more, and may not be further off."""
    called_saturated: Severity | None
    """Severity of the judge's finding about several processes. Suspect is reported, not limited: a
    server that lacks a core shows the same signs."""
    start_skew_us: int
    clock_error_us: int
    cores_a_process: float
    failed: int

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that was not kept."""
        error = self.ttft_error_percent
        alone = self.alone_ttft_error_percent
        if self.saturated_at == 0:
            yield "no rate was too much for one process"
        if error is None or alone is None or abs(error) > abs(alone):
            yield f"TTFT is off by {error} %, that of one process by {alone} %"
        if self.achieved_rate < MIN_ACHIEVED_SHARE * self.asked_rate:
            yield f"{self.achieved_rate} of {self.asked_rate} requests/s were sent"
        if self.called_saturated == "Invalid":
            yield (
                f"{self.processes} processes are called saturated at {self.asked_rate} "
                "requests/s: Invalid"
            )
        if self.start_skew_us + self.clock_error_us > MAX_SKEW_US:
            yield f"they begin {self.start_skew_us} us apart, give or take {self.clock_error_us}"
        if self.failed:
            yield f"{self.failed} requests failed"


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--processes",
        type=int,
        choices=sorted(TIMES),
        default=2,
        help="(default: %(default)s)",
    )
    processes = parser.parse_args().processes
    figures = asyncio.run(_measure(processes))
    exit_code = finish(figures)
    if exit_code and figures.cores <= processes:
        say(
            f"{figures.cores} cores are fewer than {processes} processes and a server need"
        )
    return exit_code


async def _measure(processes: int) -> Figures:
    alone = await measure(_experiment("alone", RATES, processes=1))
    for row in alone.judged.results:
        off = ttft_error(alone, f"{row.load_point}/r1")
        say(
            f"alone at {row.load_point}: TTFT off by {off}, "
            f"{', '.join(row.findings) or 'nothing found'}"
        )
    too_much = {
        row.load_point
        for row in alone.judged.results
        if "ClientSaturated" in row.findings
    }
    saturated = next((rate for rate in RATES if f"open/rate={rate}" in too_much), 0)
    asked = round(TIMES[processes] * (saturated or RATES[-1]))
    together = await measure(_experiment("together", (asked,), processes=processes))
    (record,) = together.records
    client = record.client
    shards = record.shards
    sent = record.requests.start_us
    off_alone = (
        ttft_error(alone, f"open/rate={saturated}/r1") if saturated else None
    )
    off = ttft_error(together, record.stage_id)
    return Figures(
        cores=len(os.sched_getaffinity(0)),
        processes=client.processes,
        saturated_at=saturated,
        asked_rate=asked,
        # From the first request sent to the last.
        achieved_rate=round(
            (len(sent) - 1) / (max(sent) / 1e6) if len(sent) > 1 else 0.0, 1
        ),
        ttft_error_percent=None if off is None else round(off, 2),
        alone_ttft_error_percent=None if off_alone is None else round(off_alone, 2),
        called_saturated=next(
            (
                f.severity
                for f in together.judged.findings
                if f.code == "ClientSaturated"
            ),
            None,
        ),
        start_skew_us=shards.start_skew_us if shards is not None else 0,
        clock_error_us=shards.clock_error_us if shards is not None else 0,
        cores_a_process=round(
            client.cpu_seconds / client.wall_seconds / client.processes, 2
        ),
        failed=record.requests.ok.count(0),
    )


def _experiment(name: str, rates: Sequence[int], *, processes: int) -> Experiment:
    workload = {
        "name": "open",
        "dataset": {"random": {"inputTokens": 32, "outputTokens": TOKENS}},
        "load": {"requestRates": [str(rate) for rate in rates]},
        "durationSeconds": SECONDS,
    }
    flags = (
        f"--sim-ttft-ms={TTFT_MS}",
        f"--sim-tpot-ms={TPOT_MS}",
        "--max-num-seqs=4096",
    )
    return Experiment(
        name=name,
        workloads=[workload],
        servers=(flags,),
        measurement={"order": "AsListed"},
        client_processes=processes,
        client_ahead=_may_run_ahead(),
    )


@cache
def _may_run_ahead() -> bool:
    usual = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(
            0,
            os.SCHED_FIFO,
            os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)),
        )
    except PermissionError:
        say(
            "not allowed to run the client ahead of the server: that one's work will show"
        )
        return False
    os.sched_setscheduler(0, *usual)
    return True


if __name__ == "__main__":
    sys.exit(main())
