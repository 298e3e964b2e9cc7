"""The datasets of a run: every file is read once, and every row is sent once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules

from benchrun_client.contract import (
    AgentData,
    DatasetFacts,
    DatasetFields,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import agent_samples, read_conversation
from benchrun_client.datasets.row_pools import (
    ROW_KINDS,
    Fitting,
    Portion,
    Sample,
    read_pools,
    repeated_by,
)
from benchrun_client.datasets.timed_trace import read_trace
from benchrun_client.tokenizer import TokenCounter

for _module in iter_modules([str(Path(__file__).parent)]):
    # Each kind of rows registers itself.
    import_module(f"benchrun_client.datasets.{_module.name}")


class RunDatasets:
    """The datasets of one run; portions get their rows in the order of their `draw`."""

    def __init__(
        self, portions: Sequence[Portion], *, counter: TokenCounter, context_tokens: int | None
    ) -> None:
        """Read everything that the portions name.

        `context_tokens` is the longest request that the model takes; None if it is not known.
        Raises RunFailure.
        """
        self._counter = counter
        self._context_tokens = context_tokens
        self._pools = read_pools(portions)
        every = dict.fromkeys(portion.data for portion in portions)
        self._conversations = {
            data: read_conversation(data) for data in every if isinstance(data, AgentData)
        }
        self.traces = {
            data: read_trace(data, context_tokens=context_tokens)
            for data in every
            if isinstance(data, TimedTraceData)
        }
        self._times: set[int] = set()

    def draw(self, portion: Portion) -> tuple[Sample, ...]:
        """Return the samples of a portion whose texts need not be written.

        Raises RunFailure `DatasetTooSmall`.
        """
        data = portion.data
        if isinstance(data, AgentData):
            conversation = self._conversations[data]
            return agent_samples(
                conversation, portion, data, counter=self._counter, times=self._times
            )
        pool = self._pools[data]
        kind = ROW_KINDS[type(data)]
        repeated = repeated_by(pool.common, counter=self._counter, api=portion.api)
        fitting = Fitting(self._counter, portion.api, self._context_tokens, repeated)
        samples = pool.draw(portion, lambda rows: kind.fit(data, rows, fitting))
        if not isinstance(data, TextsData):
            return samples
        # Each so many times, one right after the other; all copies but the first are repeated
        # whole.
        common = self._counter.shared_prefix(api=portion.api)
        copies = (
            sample
            if copy == 0
            else replace(sample, repeated_tokens=max(0, sample.input_tokens - common))
            for sample in samples
            for copy in range(data.duplicate)
        )
        return tuple(islice(copies, portion.requests))

    def facts(self, portions: Iterable[Portion]) -> tuple[DatasetFacts, ...]:
        """Describe what was read for one workload, once all its `portions` have been drawn."""
        found: dict[int, DatasetFacts] = {}
        for portion in portions:
            data = portion.data
            if isinstance(data, AgentData):
                found[portion.part] = self._conversations[data].facts(portion.part)
            elif isinstance(data, TimedTraceData):
                trace = self.traces[data]
                before = found[0].rows_used if 0 in found else 0
                found[0] = trace.facts(0, used=min(max(portion.requests, before), len(trace.rows)))
            elif type(data) in ROW_KINDS:
                name = ROW_KINDS[type(data)].name(data)
                found[portion.part] = self._pools[data].facts(
                    portion.workload, portion.part, source=name
                )
        return tuple(found[part] for part in sorted(found))


def is_drawn(data: DatasetFields) -> bool:
    """Return whether a dataset's texts exist before the server does.

    Other texts are written while the server starts.
    """
    return isinstance(data, AgentData) or type(data) in ROW_KINDS
