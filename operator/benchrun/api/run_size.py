"""How much a run may send: its requests are all kept until it is judged, and those of a load point are in memory at once."""

from __future__ import annotations

from benchrun.api.base import NUMBER, Rule

MAX_RUN_REQUESTS = 1_000_000
"""Some 70 MB of records in the cluster, and some ten seconds of judging."""
MAX_CELL_REQUESTS = 200_000
"""Of all repeats of a load point: some 150 MB of memory while it is judged."""

_RATES, _SEARCH = "w.load.requestRates", "w.load.search"
_EACH_RATE = f"{_RATES}.map(r, r.matches({NUMBER}) && r != 'inf' ? double(r) : 0.0)"
_HIGHEST = f"(has({_SEARCH}) && {_SEARCH}.to.matches({NUMBER}) ? double({_SEARCH}.to) : 0.0)"
_BY_DURATION = "double(has(w.durationSeconds) ? w.durationSeconds : 0)"
_REPEATS = f"double(has({_SEARCH}) ? {_SEARCH}.maxRepeats : self.repeats)"
_OF_A_CELL = (
    f"(has(w.requests) ? double(w.requests) : {_BY_DURATION} * "
    f"(has({_RATES}) ? ({_EACH_RATE} + [0.0]).max() : {_HIGHEST})) * {_REPEATS}"
)


def _of_a_run(points: str) -> str:
    """`points`: CEL for the load points of the workload w."""
    return (
        f"(has(w.requests) ? double(w.requests) * double({points}) : {_BY_DURATION} * (has({_RATES}) ? "
        f"{_EACH_RATE}.sum() : {_HIGHEST} * double({points}))) * {_REPEATS}"
    )


def rules(points: str) -> tuple[Rule, ...]:
    """Of the spec. `points`: CEL for the load points of the workload w; of a search as many as it can take."""
    # An empty list is refused by its bound; max() would fail on it, and say so beside that.
    largest = f"(self.workloads.map(w, {_OF_A_CELL}) + [0.0]).max()"
    whole = f"self.workloads.map(w, {_of_a_run(points)}).sum()"
    return (
        Rule(
            cel=f"{largest} <= {MAX_CELL_REQUESTS}.0",
            message=f"too many requests at a load point (requests x repeats); the limit is {MAX_CELL_REQUESTS}",
            cel_message="'a load point takes up to %d requests (requests x repeats); "
            f"the limit is {MAX_CELL_REQUESTS}'.format([int({largest})])",
            path=".workloads",
        ),
        Rule(
            cel=f"{whole} <= {MAX_RUN_REQUESTS}.0",
            message=f"too many requests (stages x requests); the limit is {MAX_RUN_REQUESTS}",
            cel_message="'the run takes up to %d requests in all (stages x requests); "
            f"the limit is {MAX_RUN_REQUESTS}'.format([int({whole})])",
            path=".workloads",
        ),
    )
