"""The datasets of a run: every file is read once, and every row is used once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules

from benchrun_client.contract import DATASETS, Api, DatasetFacts, DatasetFields
from benchrun_client.datasets.agent import CONVERSATION_KINDS
from benchrun_client.datasets.random_words import WRITTEN_KINDS
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
from benchrun_client.tokenizer import TokenCounter

for _module in iter_modules([str(Path(__file__).parent)]):
    # Each kind of rows registers itself.
    import_module(f"benchrun_client.datasets.{_module.name}")

_REGISTRIES: Mapping[str, Mapping[type[DatasetFields], object]] = {
    "ROW_KINDS": ROW_KINDS,
    "CONVERSATION_KINDS": CONVERSATION_KINDS,
    "WRITTEN_KINDS": WRITTEN_KINDS,
}


def refuse_unregistered(datasets: Iterable[type[DatasetFields]]) -> None:
    """Raise TypeError for a dataset unless exactly one registry says where its requests come from.

    Otherwise it would be treated as another kind, or be found missing in a run.
    """
    for data in datasets:
        found = [name for name, kinds in _REGISTRIES.items() if data in kinds]
        if len(found) != 1:
            raise TypeError(
                f"{data.__name__} must be in one of {', '.join(_REGISTRIES)}; "
                f"it is in {' and '.join(found) or 'none'}"
            )


refuse_unregistered(DATASETS)


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
            data: CONVERSATION_KINDS[type(data)].read(data)
            for data in every
            if type(data) in CONVERSATION_KINDS
        }
        written = ((data, WRITTEN_KINDS.get(type(data))) for data in every)
        most: dict[DatasetFields, int] = {}
        apis: dict[DatasetFields, dict[Api, None]] = {}
        for portion in portions:
            apis.setdefault(portion.data, {})[portion.api] = None
            most[portion.data] = max(most.get(portion.data, 0), portion.requests)
        self.recordings = {
            data: kind.record(data, context_tokens, counter, most[data], apis[data])
            if kind.record
            else None
            for data, kind in written
            if kind is not None
        }
        """What was read for each dataset that is written later; None if it is made up."""
        self._times: set[int] = set()

    def draw(self, portion: Portion) -> tuple[PromptRequest, ...]:
        """Return the requests of a portion whose texts exist already (`is_drawn`).

        Raises RunFailure `DatasetTooSmall`.
        """
        data = portion.data
        if data in self._conversations:
            return CONVERSATION_KINDS[type(data)].draw(
                self._conversations[data],
                portion,
                data,
                self._counter,
                self._times,
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
        copies = kind.copied(samples, data, self._counter, portion.api)
        return self._with_repeats(
            tuple(islice(copies, portion.requests)), portion.api
        )

    def _with_repeats(
        self, samples: tuple[PromptRequest, ...], api: Api
    ) -> tuple[PromptRequest, ...]:
        """Return the requests; if a prompt was sent before, all its tokens count as repeated."""
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
        by_part: dict[int, list[Portion]] = {}
        for portion in portions:
            by_part.setdefault(portion.part, []).append(portion)
        found = (self._facts_of_part(by_part[part]) for part in sorted(by_part))
        return tuple(facts for facts in found if facts is not None)

    def _facts_of_part(self, portions: Sequence[Portion]) -> DatasetFacts | None:
        """Describe what was read for these portions of one dataset; None if prompts are made up."""
        first = portions[0]
        data = first.data
        if data in self._conversations:
            return self._conversations[data].facts(first.part)
        if data in self._pools:
            name = ROW_KINDS[type(data)].name(data)
            return self._pools[data].facts(first.workload, first.part, source=name)
        recording = self.recordings[data]
        return None if recording is None else recording.facts_of(portions)


def is_drawn(data: DatasetFields) -> bool:
    """Return whether a dataset's texts are read before the server is created.

    Others are written while the server starts.
    """
    return type(data) not in WRITTEN_KINDS
