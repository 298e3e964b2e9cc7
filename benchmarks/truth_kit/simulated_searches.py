"""The simulated searches of `truth_kit.searches` as a part of the benchmark."""

from collections.abc import Callable, Mapping

from truth_kit.searches import simulated_searches
from truth_kit.spread import spread

SEARCHES = 200


def measured(*, say: Callable[[str], None]) -> Mapping[str, float | None]:
    """Search servers whose highest load is known, and return the figures by name."""
    (found,) = spread(_shares, [SEARCHES])
    for name, shares in found.items():
        say(f"  {name or 'queues'}: {shares}")
    names = (
        "above_truth_percent",
        "none_found_percent",
        "median_below_percent",
        "mean_stages",
    )
    return {
        f"search_{prefix}{name}": shares[name]
        for prefix, shares in found.items()
        for name in names
    }


def _shares(searches: int) -> Mapping[str, Mapping[str, float]]:
    """Run the searches at idle priority, with the processes that it starts."""
    return {
        name: each._asdict() for name, each in simulated_searches(searches).items()
    }
