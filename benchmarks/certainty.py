"""Whether what is told to be enough decides: percentiles, objectives and changes, simulated.

Measurements that leave something open tell what it takes. New ones, of sizes around it, show what
it takes to decide in four of five. Intervals are held against those of guidellm and AIPerf, where
`python3 devcluster peers` has installed them. docs/truth.md says what is assumed. `--only` measures
settings whose names contain a word, `--slice 2/5` every fifth setting from the second on. Progress
goes to standard error, one line a setting; the last line on standard output is one JSON object.
Exits 1 when a limit is not kept.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from _outcome import beyond, finish, say
from truth_kit import peers, prices
from truth_kit.spread import spread

KINDS = ("percentile", "objective", "change")


@dataclass(frozen=True)
class Figures:
    """What was seen over all settings; None: of none."""

    told_error_percent: float | None
    """Median over the settings of how far the told number, its median, is from what it takes."""
    told_error_percentile_percent: float | None
    told_error_objective_percent: float | None
    told_error_change_percent: float | None
    told_error_each_percent: float | None
    """Median over single measurements."""
    told_decides_percent: float | None
    """Median over the settings of the share that is decided with the told number."""
    settings: int
    left_out: int  # Settings that were mostly decided, or never near what was told.
    coverage_worst_percent: float | None = None
    """Of ours, and of guidellm's and AIPerf's own estimators, on the same queues: the least share
    of intervals that hold the truth, over servers and percentiles. None: not measured."""
    given_percent: float | None = None
    """Share of percentiles with an interval."""
    guidellm_coverage_worst_percent: float | None = None
    guidellm_given_percent: float | None = None
    aiperf_coverage_worst_percent: float | None = None
    aiperf_given_percent: float | None = None

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        if self.told_error_percent is not None:
            yield from beyond(self, at_most={"told_error_percent": 30.0})


def figures(seen: Sequence[prices.Found], *, left_out: int) -> Figures:
    """Return the figures of these settings."""
    of_kind = {
        kind: _median(
            [each.error_percent for each in seen if each.setting.startswith(kind)]
        )
        for kind in KINDS
    }
    return Figures(
        told_error_percent=_median([each.error_percent for each in seen]),
        told_error_percentile_percent=of_kind["percentile"],
        told_error_objective_percent=of_kind["objective"],
        told_error_change_percent=of_kind["change"],
        told_error_each_percent=_median(prices.errors_of_each(seen)),
        told_decides_percent=_median([each.decided_percent for each in seen]),
        settings=len(seen),
        left_out=left_out,
    )


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 1) if values else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word in the settings' names")
    parser.add_argument("--slice", default="1/1", help="which of how many slices")
    parser.add_argument(
        "--coverage-only",
        action="store_true",
        help="only intervals, ours and those of other tools",
    )
    options = parser.parse_args()
    number, of = map(int, options.slice.split("/"))
    places = [
        place
        for place, setting in enumerate(prices.settings())
        if options.only in setting.name
        and place % of == number - 1
        and not options.coverage_only
    ]
    seen = []
    for each in spread(prices.of_place, places):
        if each is not None:
            say(f"  {prices.in_words(each)}")
            seen.append(each)
    found = figures(seen, left_out=len(places) - len(seen))
    is_whole = not options.only and of == 1
    if (options.coverage_only or is_whole) and peers.are_installed():
        found = Figures(**{**asdict(found), **peers.measured(say=say)})
    return finish(found)


if __name__ == "__main__":
    sys.exit(main())
