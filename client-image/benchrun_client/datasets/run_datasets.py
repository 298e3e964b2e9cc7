"""The datasets of a run: every file is read once, and every row is used once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice, repeat
from pathlib import Path
from pkgutil import iter_modules

from benchrun_client.contract import (
    COPY,
    AgentData,
    Api,
    DatasetFacts,
    DatasetFields,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import agent_samples, read_conversation
from benchrun_client.datasets.row_pools import (
    ROW_KINDS,
    DatasetRow,
    Fitting,
    Portion,
    PromptRequest,
    is_reworded,
    read_pools,
    repeated_by,
)
from benchrun_client.datasets.timed_trace import read_trace
from benchrun_client.tokenizer import TokenCounter

for _module in iter_modules([str(Path(__file__).parent)]):
    # Each kind of rows registers itself.
    import_module(f"benchrun_client.datasets.{_module.name}")


class RunDatasets:
    """The datasets of one run; portions get rows in the order in which they are drawn."""

    def __init__(
        self,
        portions: Sequence[Portion],
        *,
        counter: TokenCounter,
        context_tokens: int | None,
        shared: bool = False,
    ) -> None:
        """Read all files that the portions name.

        `context_tokens` is the longest request that the model takes; None if it is not known.
        `shared`: the cachePolicy is Share, under which equal rows are sent too. Raises RunFailure.
        """
        self._counter = counter
        self._context_tokens = context_tokens
        self._shared = shared
        self._pools = read_pools(portions, shared=shared)
        every = dict.fromkeys(portion.data for portion in portions)
        self._conversations = {
            data: read_conversation(data)
            for data in every
            if isinstance(data, AgentData)
        }
        self.traces = {
            data: read_trace(data, context_tokens=context_tokens)
            for data in every
            if isinstance(data, TimedTraceData)
        }
        self._times: set[int] = set()

    def draw(self, portion: Portion) -> tuple[PromptRequest, ...]:
        """Return the requests of a portion whose texts exist already (`is_drawn`).

        Raises RunFailure `DatasetTooSmall`.
        """
        data = portion.data
        if isinstance(data, AgentData):
            conversation = self._conversations[data]
            return agent_samples(
                conversation,
                portion,
                data,
                counter=self._counter,
                times=self._times,
            )
        pool = self._pools[data]
        kind = ROW_KINDS[type(data)]
        repeated = repeated_by(pool.common, counter=self._counter, api=portion.api)
        fitting = Fitting(
            self._counter, portion.api, self._context_tokens, repeated
        )

        def fit(rows: Sequence[DatasetRow]) -> PromptRequest | str:
            return kind.fit(data, rows, fitting)

        order = kind.order(data, pool.rows)
        if is_reworded(portion, shared=self._shared):
            samples = pool.reworded(portion, fit)
        elif order is None:
            samples = pool.draw(portion, fit)
        else:
            samples = pool.first(portion, order, fit)
        if isinstance(data, TextsData):
            samples = tuple(
                islice(self._copies(samples, data, portion.api), portion.requests)
            )
        return self._with_repeats(samples, portion.api)

    def _copies(
        self, samples: Iterable[PromptRequest], data: TextsData, api: Api
    ) -> Iterator[PromptRequest]:
        """Yield `duplicate` copies of each request, one right after the other."""
        for sample in samples:
            if COPY not in data.instruction:
                yield from repeat(sample, data.duplicate)
                continue
            texts, _, _ = sample.prompt.rpartition(data.instruction)
            before = texts + data.instruction.partition(COPY)[0]
            again = (
                repeated_by(before, counter=self._counter, api=api)
                if data.duplicate > 1
                else 0
            )
            for copy in range(data.duplicate):
                prompt = texts + data.instruction.replace(COPY, str(copy))
                tokens = self._counter.count([prompt], api=api)[0]
                yield PromptRequest(
                    prompt,
                    tokens,
                    sample.output_tokens,
                    repeated_tokens=again if copy else sample.repeated_tokens,
                )

    def _with_repeats(
        self, samples: tuple[PromptRequest, ...], api: Api
    ) -> tuple[PromptRequest, ...]:
        """Return the requests; one whose prompt came before counts as repeated with all tokens."""
        sent = {sample.prompt for sample in samples}
        if len(sent) == len(samples):
            return samples
        common = self._counter.shared_prefix(api=api)
        sent.clear()
        found = []
        for sample in samples:
            whole = max(0, sample.input_tokens - common)
            again = (
                replace(sample, repeated_tokens=whole)
                if sample.prompt in sent
                else sample
            )
            sent.add(sample.prompt)
            found.append(again)
        return tuple(found)

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
                found[0] = trace.facts(
                    0, used=min(max(portion.requests, before), len(trace.rows))
                )
            elif type(data) in ROW_KINDS:
                name = ROW_KINDS[type(data)].name(data)
                found[portion.part] = self._pools[data].facts(
                    portion.workload, portion.part, source=name
                )
        return tuple(found[part] for part in sorted(found))


def is_drawn(data: DatasetFields) -> bool:
    """Return whether a dataset's texts are read before the server is created.

    Others are written while the server starts.
    """
    return isinstance(data, AgentData) or type(data) in ROW_KINDS
