"""Stages of sessions with known mistakes: what the judge says of them, and of clean ones.

Every stage is played: the client's schedule and the simulated server's scheduler and cache run on a
clock that jumps. Progress goes to standard error, the figures as one JSON object to standard
output. Exits 1 when a limit is not kept.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import _outcome
from sessions_kit import doses

CLEAN_RUNS = 100


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What is held against limits."""

    hits_error_points: float
    """Most points between the hits expected of a cache of some size and those that came."""
    losses_named_percent: float
    """Share of the doses with a quarter of the hits missing whose cause is named, and alone."""
    losses: int  # Number of such doses.
    harmful_unnoticed: int
    """Doses of mistakes that change a headline figure by more than 5 %, without a finding."""
    harmful: int
    clean_suspect: int  # Clean stages that are Suspect or Invalid.
    clean: int

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        yield from _outcome.beyond(
            self,
            at_most={
                "hits_error_points": 1,
                "harmful_unnoticed": 0,
                "clean_suspect": 0,
            },
            at_least={"losses_named_percent": 100},
        )


def main() -> int:
    """Play all stages, print the figures, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--clean", type=int, default=CLEAN_RUNS, help="clean stages"
    )
    arguments = parser.parse_args()
    losses = list(doses.seen_losses())
    for each in losses:
        _outcome.say(
            f"{each.loss} {each.dose:g}: {each.missing_percent:.1f} % missing, "
            f"{', '.join(each.named) or 'nothing'} named, off by {each.error_points:.2f} points"
        )
    seen = list(doses.seen_mistakes())
    for mistake in seen:
        _outcome.say(
            f"{mistake.mistake} {mistake.dose:g}: harm {mistake.harm_percent:.1f} %, "
            f"{', '.join(mistake.told) or 'nothing'}"
        )
    clean = list(doses.clean_runs(arguments.clean))
    for codes in clean:
        if codes:
            _outcome.say(f"clean: {', '.join(codes)}")
    large = [
        each for each in losses if each.missing_percent > doses.MISSING_PERCENT
    ]
    harmful = [s for s in seen if s.harm_percent > doses.HARMFUL_PERCENT]
    return _outcome.finish(
        SessionFigures(
            hits_error_points=max(each.error_points for each in losses),
            losses_named_percent=100
            * sum(each.is_right for each in large)
            / max(len(large), 1),
            losses=len(large),
            harmful_unnoticed=sum(each.unnoticed for each in seen),
            harmful=len(harmful),
            clean_suspect=sum(bool(codes) for codes in clean),
            clean=len(clean),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
