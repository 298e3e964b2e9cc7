"""The other tools through which exhibits are replayed, by name."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from truth_kit.lab import Experiment

from museum_kit import peers_column, vllm_column
from museum_kit.said import Said, can_replay


@dataclass(frozen=True, slots=True)
class Column:
    """Another tool: what it can replay, and what it says of it."""

    said_of: Callable[[Experiment], Awaitable[Said]]
    can_replay: Callable[[Experiment], bool]


TOOLS: Mapping[str, Column] = {
    "vllm": Column(vllm_column.said_of, can_replay),
    **{
        tool: Column(
            partial(peers_column.said_of, tool), partial(peers_column.replays, tool)
        )
        for tool in ("guidellm", "aiperf", "inference-perf")
    },
}
