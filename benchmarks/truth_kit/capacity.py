"""More and more streams at one client process, until it can't keep up.

The question is whether the judge calls it saturated before its TTFT is wrong.
"""

from collections.abc import Callable, Iterator

from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import users
from truth_kit.timing import ttft_error

STREAMS = (16, 64, 128, 192, 256, 384, 512)
OFF_PERCENT = 10.0
TPOT_MS = 25.0
TTFT_MS = 60.0
TOKENS = 40
SECONDS = 11.0


def _ramp() -> Experiment:
    a_request = (TTFT_MS + TPOT_MS * TOKENS) / 1000
    workloads = [
        {
            **users(
                streams,
                max(10 * streams, int(streams * SECONDS / a_request)),
                tokens=TOKENS,
            ),
            "name": f"u{streams}",
        }
        for streams in STREAMS
    ]
    flags = (
        f"--sim-ttft-ms={TTFT_MS}",
        f"--sim-tpot-ms={TPOT_MS}",
        "--max-num-seqs=1024",
    )
    return Experiment(
        name="ramp",
        workloads=workloads,
        servers=(flags,),
        measurement={"order": "AsListed"},
    )


RAMP = _ramp()


def unnoticed(outcome: Outcome, *, say: Callable[[str], None]) -> Iterator[bool]:
    """Yield for every stage whether its TTFT is wrong without the client being called saturated.

    It is wrong when the mean is too high by a tenth or more, or can't be compared with the log.
    """
    for row in outcome.judged.results:
        off = ttft_error(outcome, f"{row.load_point}/r1")
        called = "ClientSaturated" in row.findings
        say(
            f"  {row.load_point}: TTFT off by {'?' if off is None else f'{off:.1f} %'}, "
            f"{'called' if called else 'not called'} saturated"
        )
        yield (off is None or off >= OFF_PERCENT) and not called


def overloads(outcome: Outcome) -> bool:
    """Return whether the ramp went beyond what the client can carry; otherwise it shows nothing."""
    return any(
        row.findings and "ClientSaturated" in row.findings
        for row in outcome.judged.results
    )
