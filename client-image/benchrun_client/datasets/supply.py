"""What the datasets of a run have in store: every file is read once, and every row given away once.

Before the client says it is ready: a dataset that is missing, broken or too small never takes a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchrun_client.contract import (
    AgentData,
    CustomData,
    Data,
    DatasetFacts,
    HuggingFaceData,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import Clock, agent_samples, read_conversation
from benchrun_client.datasets.counting import Counting, repeated_by
from benchrun_client.datasets.custom import fit_custom
from benchrun_client.datasets.fitting import Fitting
from benchrun_client.datasets.reading import RowData, different_prompts, read_pools, rows_a_prompt, source_name
from benchrun_client.datasets.rows import Fit, RowPool
from benchrun_client.datasets.samples import Portion, Sample
from benchrun_client.datasets.sharegpt import fit_sharegpt
from benchrun_client.datasets.texts import duplicated, fit_texts
from benchrun_client.datasets.timed_trace import Trace, read_trace


class Supply:
    """Of one run. Portions get their rows in the order in which they ask."""

    def __init__(self, portions: Sequence[Portion], *, counter: Counting, context_tokens: int | None) -> None:
        """Read everything that these portions name. `context_tokens`: longest request that the model takes, if known.

        Raises:
            RunFailure: a dataset is missing or broken.
        """
        self._counter = counter
        self._context_tokens = context_tokens
        self._pools = read_pools(portions)
        every = dict.fromkeys(portion.data for portion in portions)
        self._conversations = {data: read_conversation(data) for data in every if isinstance(data, AgentData)}
        self._traces = {
            data: read_trace(data, context_tokens=context_tokens) for data in every if isinstance(data, TimedTraceData)
        }
        self._clock = Clock()

    def draw(self, portion: Portion) -> tuple[Sample, ...]:
        """Samples of a portion whose texts are there already.

        Raises:
            RunFailure: `DatasetTooSmall`.
        """
        if isinstance(portion.data, AgentData):
            conversation = self._conversations[portion.data]
            return agent_samples(conversation, portion, portion.data, counter=self._counter, clock=self._clock)
        assert isinstance(portion.data, RowData)
        pool = self._pools[portion.data]
        fit = self._fit(portion, portion.data, pool)
        samples = pool.draw(portion, fit, prompts=different_prompts(portion), rows_a_prompt=rows_a_prompt(portion.data))
        if not isinstance(portion.data, TextsData):
            return samples
        common = self._counter.shared_prefix(api=portion.api)
        return duplicated(samples, times=portion.data.duplicate, requests=portion.requests, shared_prefix=common)

    def trace(self, data: TimedTraceData) -> Trace:
        """A trace that was read."""
        return self._traces[data]

    def facts(self, portions: Iterable[Portion]) -> tuple[DatasetFacts, ...]:
        """What was read for one workload, given all its portions; known once these have drawn."""
        found: dict[int, DatasetFacts] = {}
        for portion in portions:
            match portion.data:
                case AgentData():
                    found[portion.part] = self._conversations[portion.data].facts(part=portion.part)
                case TimedTraceData():
                    used = max(portion.requests, found[0].rows_used if 0 in found else 0)
                    found[0] = self._traces[portion.data].facts(used=used)
                case ShareGPTData() | CustomData() | TextsData() | HuggingFaceData():
                    pool, source = self._pools[portion.data], source_name(portion.data)
                    found[portion.part] = pool.facts(portion.workload, portion.part, source=source)
        return tuple(found[part] for part in sorted(found))

    def _fit(self, portion: Portion, data: RowData, pool: RowPool) -> Fit:
        again = repeated_by(pool.common, counter=self._counter, api=portion.api)
        fitting = Fitting(self._counter, portion.api, self._context_tokens, again)
        match data:
            case ShareGPTData():
                return fit_sharegpt(data, fitting)
            case TextsData():
                return fit_texts(data, fitting)
            case CustomData() | HuggingFaceData():
                return fit_custom(data.output_tokens, fitting)


def is_drawn(data: Data) -> bool:
    """Whether its texts are there before the server is; others are written meanwhile."""
    return isinstance(data, AgentData | RowData)
