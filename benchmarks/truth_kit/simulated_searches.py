"""Where the simulated searches of `truth_kit.searches` come into the benchmark."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

from truth_kit.spread import spread

SEARCHES = 200
MODULE = "truth_kit.searches"


def measured(*, say: Callable[[str], None]) -> Mapping[str, float | None]:
    """Searches on queues whose capacity is known; None while there is nothing that simulates
    them."""
    if find_spec(MODULE) is None:
        return {"search_above_truth_percent": None}
    (found,) = spread(_shares, [SEARCHES])
    say(f"  {found}")
    names = ("above_truth_percent", "none_found_percent", "median_below_percent")
    words = {"": "steady", "drifting_": "drifting"}
    return {
        f"search_{prefix}{name}": found[word][name]
        for prefix, word in words.items()
        for name in names
    }


def _shares(searches: int) -> Mapping[str, Mapping[str, float]]:
    """At idle priority, with the processes that it starts."""
    steady, drifting = import_module(MODULE).simulated_searches(searches)
    return {"steady": steady._asdict(), "drifting": drifting._asdict()}
