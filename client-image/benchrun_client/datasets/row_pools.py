"""Prompts with their lengths, and pools of a file's rows, each of which is used once a run.

A row that is sent twice would be served from the prefix cache. The rows of a stage are drawn by its
seed. Rows that cannot be used are left out and counted, by reason.
"""

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat, takewhile
from typing import Any, Generic, TypeVar

from benchrun_client import contract
from benchrun_client.contract.datasets import TOO_LONG as TOO_LONG
from benchrun_client.contract.sessions import TurnPlace
from benchrun_client.datasets.files import name_of
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter

R = TypeVar("R")
REPEATED = "RepeatsEarlierRow"
FEW_WORDS = 8
# Tries for a prompt, most of whose rows may be too short or too long.
REWORDING_TRIES = 100
Slot = contract.Stage | contract.WarmupPlan
"""A part of the run that sends requests: a stage or a warm-up. Both have data, seed, API and number
of requests."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The requests of a stage or warm-up that come from one dataset.

    With a mix there is one portion for each dataset; otherwise it is all requests.
    """

    workload: str
    part: int  # Position in a mix; 0 if there is no mix.
    data: contract.SingleData
    requests: int
    seed: int
    api: contract.Api
    # Whether the requests are a warm-up, which is not measured.
    warms_up: bool = False
    asked: contract.RequestFields = contract.NO_FIELDS


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One request to be sent: a prompt, and the token counts expected from the server."""

    prompt: str
    input_tokens: int
    output_tokens: int
    repeated_tokens: int = 0
    """Input tokens that the dataset repeats on purpose, not counting what all prompts share."""
    at_seconds: float | None = None
    """Recorded arrival, in seconds after the first request of the stage; None if the load decides
    when it is sent."""
    place: TurnPlace | None = None  # None: it belongs to no session.
    further: tuple[str, ...] = ()
    """Further texts of the same request; the token counts are those of all its texts."""
    begins_like: int | None = None
    """Position, among the requests of the stage, of the earlier one with which it has its
    `repeated_tokens` in common; its own if there is none. None: not known."""

    @property
    def sent(self) -> str | list[str]:
        """Return the prompt as vLLM's benchmark takes it: a list if it has several texts."""
        return [self.prompt, *self.further] if self.further else self.prompt


def grouped(
    samples: Sequence[PromptRequest], texts: int
) -> tuple[PromptRequest, ...]:
    """Return requests of so many texts each, made of requests of one text."""
    if texts == 1:
        return tuple(samples)
    groups = (samples[i : i + texts] for i in range(0, len(samples), texts))
    return tuple(
        replace(
            group[0],
            input_tokens=sum(each.input_tokens for each in group),
            repeated_tokens=sum(each.repeated_tokens for each in group),
            begins_like=None,
            further=tuple(each.prompt for each in group[1:]),
        )
        for group in groups
    )


def with_template(
    samples: Sequence[PromptRequest], slot: contract.Requests, counter: TokenCounter
) -> tuple[PromptRequest, ...]:
    """Return the requests with the tokens that template arguments and tools add to each.

    If answers have no tokens, none are asked for, whatever the dataset says of their lengths. Such
    a request may have several of the texts in `samples`.
    """
    if slot.has_whole_answers:
        whole = [replace(each, output_tokens=0) for each in samples]
        return grouped(whole, slot.asked.texts_a_request)
    added = counter.added_by(slot.asked.rendered_with) if slot.api == "Chat" else 0
    if not added:
        return tuple(samples)
    return tuple(
        replace(each, input_tokens=max(each.input_tokens + added, 1))
        for each in samples
    )


def portions_of(slot: Slot) -> tuple[Portion, ...]:
    """Return the portions of a stage or warm-up: one for each of its datasets.

    A dataset whose weight is too small for one request has none.
    """
    warms_up = isinstance(slot, contract.WarmupPlan)
    if not isinstance(slot.data, contract.MixData):
        data = _sent(slot, slot.data)
        return (
            Portion(
                slot.workload,
                0,
                data,
                prompts_of(slot),
                slot.seed,
                slot.api,
                warms_up=warms_up,
                asked=slot.asked,
            ),
        )
    shares = shared_out(prompts_of(slot), [part.weight for part in slot.data.parts])
    return tuple(
        Portion(
            slot.workload,
            number,
            _sent(slot, part.data),
            requests,
            _part_seed(slot.seed, number),
            slot.api,
            warms_up=warms_up,
            asked=slot.asked,
        )
        for number, (part, requests) in enumerate(
            zip(slot.data.parts, shares, strict=True)
        )
        if requests
    )


def prompts_of(slot: Slot) -> int:
    """Return how many prompts of its datasets a stage or warm-up sends."""
    return slot.requests * slot.asked.texts_a_request


def shared_out(requests: int, weights: Sequence[int]) -> list[int]:
    """Divide requests into whole numbers by weight.

    Shares are rounded down. The remaining requests go to the shares that lost most by that; of
    equals the first comes first.
    """
    total = sum(weights)
    shares = [requests * weight // total for weight in weights]
    by_loss = sorted(
        range(len(weights)), key=lambda i: -(requests * weights[i] % total)
    )
    for i in by_loss[: requests - sum(shares)]:
        shares[i] += 1
    return shares


def interleaved(
    slot: Slot, parts: Sequence[Sequence[PromptRequest]]
) -> tuple[PromptRequest, ...]:
    """Return the requests of all portions in one randomly drawn order.

    Requests of one portion keep their order.
    """
    if len(parts) == 1:
        return tuple(parts[0])
    order = list(
        chain.from_iterable(
            [number] * len(samples) for number, samples in enumerate(parts)
        )
    )
    random.Random(slot.seed).shuffle(order)
    nexts = [iter(samples) for samples in parts]
    return tuple(next(nexts[number]) for number in order)


def _sent(slot: Slot, data: contract.SingleData) -> contract.SingleData:
    """Return the dataset that a stage or warm-up sends.

    For a warm-up, random data is changed so that no stage sends the same prompts.
    """
    return data.for_warmup() if isinstance(slot, contract.WarmupPlan) else data


def _part_seed(seed: int, part: int) -> int:
    """Return a 32-bit seed for a part of a mix, so that equal datasets get different prompts."""
    return int.from_bytes(
        hashlib.sha256(f"benchrun.mix/1\x1f{seed}\x1f{part}".encode()).digest()[:4],
        "big",
    )


def prompts_digest(samples: Sequence[PromptRequest]) -> str:
    """Return the SHA-256 of all prompts and requested output lengths, in order.

    Equal digests mean equal traffic.
    """
    digest = hashlib.sha256()
    for sample in samples:
        prompt = sample.prompt.encode()
        # Lengths first: without them, two lists could be cut differently and still look the same.
        digest.update(f"{len(prompt)} {sample.output_tokens}\n".encode())
        digest.update(prompt)
        for text in map(str.encode, sample.further):
            digest.update(f"+{len(text)}\n".encode() + text)
        if sample.place is not None:
            digest.update(repr(sample.place).encode())
    return digest.hexdigest()


def repeated_by(text: str, *, counter: TokenCounter, api: contract.Api) -> int:
    """Return how many more tokens all prompts share if each of them begins with `text`."""
    return (
        counter.shared_prefix(api=api, after=text) - counter.shared_prefix(api=api)
        if text
        else 0
    )


def common_start(one: str, other: str) -> str:
    return one[
        : sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] == pair[1], zip(one, other, strict=False)
            )
        )
    ]


@dataclass(frozen=True, slots=True)
class DatasetRow:
    text: str
    answer: str = ""
    # Number of output tokens that the row itself requests.
    output_tokens: int | None = None


@dataclass(frozen=True)
class RowFile(Generic[R]):
    """The rows that were read from a file."""

    name: str
    sha256: str
    rows: tuple[R, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of entries left out."""
    common: str = ""  # Text that every row begins with.

    @property
    def read(self) -> int:
        """Return the number of entries in the file."""
        return len(self.rows) + sum(self.dropped.values())

    def facts(
        self,
        part: int,
        *,
        used: int,
        dropped: Mapping[str, int] | None = None,
        source: str = "",
    ) -> contract.DatasetFacts:
        """Describe what was read, used and left out.

        `source` is the workload's name of the file; by default the file's own. `dropped` counts all
        rows that were left out, by reason; None stands for those left out while reading.
        """
        return contract.DatasetFacts(
            part=part,
            source=(source or self.name)[-300:],
            sha256=self.sha256,
            rows_read=self.read,
            rows_used=used,
            rows_dropped=dict(self.dropped if dropped is None else dropped),
        )


def row_file(
    entries: Iterable[DatasetRow | str], *, name: str, sha256: str
) -> RowFile[DatasetRow]:
    """Collect the rows of a file.

    An entry that is a text stands for a row that is left out; the text is the reason.
    """
    rows: list[DatasetRow] = []
    dropped: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, str):
            dropped[entry] += 1
        else:
            rows.append(entry)
    common = _common_start(tuple(dict.fromkeys(row.text for row in rows)))
    return RowFile(name, sha256, tuple(rows), dict(dropped), common)


def without_equal_rows(file: RowFile[DatasetRow]) -> RowFile[DatasetRow]:
    """Return the file without rows that repeat the text of an earlier row; they are counted."""
    rows: dict[str, DatasetRow] = {}
    for row in file.rows:
        rows.setdefault(row.text, row)
    equal = len(file.rows) - len(rows)
    dropped = {**file.dropped, REPEATED: equal} if equal else file.dropped
    return replace(file, rows=tuple(rows.values()), dropped=dropped)


@dataclass(frozen=True, slots=True)
class Fitting:
    """What is needed to build any request of a portion: how tokens are counted, and limits."""

    counter: TokenCounter
    api: contract.Api
    context_tokens: int | None
    """Longest request that the model accepts, in tokens; None if not known yet."""
    repeated_tokens: int  # Number of tokens that every row of the file begins with.

    def request(self, prompt: str, *, output_tokens: int) -> PromptRequest | str:
        """Return the request, or the reason why the row is left out."""
        tokens = self.counter.count([prompt], api=self.api)[0]
        if self.api in contract.WHOLE_ANSWERS:
            output_tokens = 0
        if (
            self.context_tokens is not None
            and tokens + output_tokens > self.context_tokens
        ):
            return TOO_LONG
        return PromptRequest(
            prompt, tokens, output_tokens, min(self.repeated_tokens, tokens)
        )


@dataclass(frozen=True, slots=True)
class RowKind:
    """How datasets of one kind are read, and how their rows become requests."""

    read: Callable[[Any], RowFile[DatasetRow]]
    """Read the rows; raise RunFailure, `DatasetNotFound` or `DatasetInvalid`, naming the line."""
    fit: Callable[[Any, Sequence[DatasetRow], Fitting], PromptRequest | str]
    """Return the request made of rows, or the reason why they are left out."""
    # Fields that select the content of the file: datasets that differ in one share no rows.
    content: tuple[str, ...]
    source: tuple[str, ...] = ("file",)  # Fields that identify the file.
    name: Callable[[Any], str] = lambda data: name_of(data.file)
    """Return the name of the file in messages."""
    order: Callable[[Any, int], Sequence[int] | None] = lambda _data, _rows: None
    """Return the positions of so many rows in the order in which every stage takes them.

    None if rows are drawn, each once.
    """
    reads_less: Callable[[Any], bool] = lambda _: False
    """Return whether the dataset checks less of the file than another one with the same content,
    which is then to read it."""
    copied: Callable[
        [Iterable[PromptRequest], Any, TokenCounter, contract.Api],
        Iterable[PromptRequest],
    ] = lambda samples, data, _counter, _api: chain.from_iterable(
        repeat(sample, data.copies) for sample in samples
    )
    """Return each request with its copies (`copies` of the dataset), one right after the other."""


ROW_KINDS: dict[type[contract.DatasetFields], RowKind] = {}
"""Type of a dataset's model -> its row kind; each module registers its kinds here."""


class RowPool:
    """The rows of one file that no stage has taken yet."""

    def __init__(self, file: RowFile[DatasetRow]) -> None:
        self.needed = 0  # Rows that the whole run takes, for the message if there are too few.
        self.common = file.common  # Text that every row begins with.
        self.rows = len(file.rows)
        self._file = file
        self._free = list(range(len(file.rows)))
        self._dropped: dict[int, str] = {}
        self._sent_again: dict[tuple[str, int], int] = {}
        """Rows that stages share instead of using up, by workload and part of a mix: the most that
        one stage takes."""
        self._used: Counter[tuple[str, int]] = Counter()

    def draw(
        self,
        portion: Portion,
        fit: Callable[[Sequence[DatasetRow]], PromptRequest | str],
    ) -> tuple[PromptRequest, ...]:
        """Draw the different prompts of a portion, from rows that are then used up.

        `fit` builds the request from some rows, or returns the reason why they are left out. Raises
        RunFailure `DatasetTooSmall`.
        """
        rng = random.Random(portion.seed)
        prompts = different_prompts(portion)
        needed = portion.data.rows_per_prompt
        samples: list[PromptRequest] = []
        unfit: list[int] = []
        while len(samples) < prompts and len(self._free) >= needed:
            taken = []
            for _ in range(needed):
                i = rng.randrange(len(self._free))
                self._free[i], self._free[-1] = self._free[-1], self._free[i]
                taken.append(self._free.pop())
            made = fit([self._file.rows[i] for i in taken])
            if isinstance(made, PromptRequest):
                samples.append(made)
                self._used[portion.workload, portion.part] += len(taken)
                for i in taken:
                    self._dropped.pop(i, None)
            else:
                self._dropped.update(dict.fromkeys(taken, made))
                unfit += taken
        # What does not fit here may fit a stage with shorter answers.
        self._free += unfit
        if len(samples) < prompts:
            raise RunFailure("DatasetTooSmall", self._too_small())
        return tuple(samples)

    def first(
        self,
        portion: Portion,
        order: Sequence[int],
        fit: Callable[[Sequence[DatasetRow]], PromptRequest | str],
    ) -> tuple[PromptRequest, ...]:
        """Return the first prompts in this order, from rows that other stages take too.

        Raises RunFailure `DatasetTooSmall`.
        """
        prompts = different_prompts(portion)
        needed = portion.data.rows_per_prompt
        samples: list[PromptRequest] = []
        for start in range(0, len(order) - needed + 1, needed):
            if len(samples) == prompts:
                break
            places = order[start : start + needed]
            made = fit([self._file.rows[i] for i in places])
            if isinstance(made, PromptRequest):
                samples.append(made)
            else:
                self._dropped.update(dict.fromkeys(places, made))
        if len(samples) < prompts:
            self.needed = prompts * needed
            raise RunFailure("DatasetTooSmall", self._too_small())
        key = portion.workload, portion.part
        self._sent_again[key] = max(self._sent_again.get(key, 0), prompts * needed)
        return tuple(samples)

    def reworded(
        self,
        portion: Portion,
        fit: Callable[[Sequence[DatasetRow]], PromptRequest | str],
    ) -> tuple[PromptRequest, ...]:
        """Return prompts that no stage sends, with about the same lengths as the stages' prompts.

        They are rows with their words in another order. A warm-up sends them when stages may need
        every row as it is. Raises RunFailure `DatasetTooSmall`.
        """
        rng = random.Random(portion.seed)
        prompts = different_prompts(portion)
        needed = portion.data.rows_per_prompt
        samples: list[PromptRequest] = []
        for _ in range(prompts * REWORDING_TRIES if self._file.rows else 0):
            if len(samples) == prompts:
                break
            rows = rng.choices(self._file.rows, k=needed)
            made = fit(
                [replace(row, text=_reworded(row.text, rng)) for row in rows]
            )
            if isinstance(made, PromptRequest):
                samples.append(made)
        if len(samples) < prompts:
            raise RunFailure("DatasetTooSmall", self._too_small())
        return tuple(samples)

    def facts(
        self, workload: str, part: int, *, source: str
    ) -> contract.DatasetFacts:
        """Describe what was read of the file, and what a workload used of it.

        `source` is the name that the workload has for the file.
        """
        key = workload, part
        used = self._used[key] + self._sent_again.get(key, 0)
        return self._file.facts(
            part, used=used, dropped=self._all_dropped(), source=source
        )

    def _all_dropped(self) -> dict[str, int]:
        return dict(
            sorted(
                (
                    Counter(self._file.dropped) + Counter(self._dropped.values())
                ).items()
            )
        )

    def _too_small(self) -> str:
        dropped = ", ".join(
            f"{count} {reason}" for reason, count in self._all_dropped().items()
        )
        return (
            f"{self._file.name} has {self._file.read} rows, "
            f"{len(self._file.rows) - len(self._dropped)} of them usable"
            f"{f' (dropped: {dropped})' if dropped else ''}; the run needs {self.needed}, each "
            "used once. "
            "Ask for fewer requests or repeats, or give a larger file."
            f"{_EQUAL_ROWS if self._file.dropped.get(REPEATED) else ''}"
        )


_EQUAL_ROWS = " With measurement.cachePolicy Share equal rows are sent, too."


def _reworded(text: str, rng: random.Random) -> str:
    """Return the text with its words in another order.

    If there are few words, as in languages without spaces, the characters are reordered.
    """
    words = text.split()
    if len(words) < FEW_WORDS:
        return "".join(rng.sample(text, len(text)))
    return " ".join(rng.sample(words, len(words)))


def _common_start(texts: Sequence[str]) -> str:
    """Return the whole words that all texts begin with.

    Only the first and the last text in alphabetical order are compared: what they share, all texts
    between them share.
    """
    if len(texts) < 2:
        return ""
    common = common_start(min(texts), max(texts))
    return next(
        common[:end]
        for end in range(len(common), -1, -1)
        if end == 0 or common[end - 1].isspace()
    )


def read_pools(
    portions: Sequence[Portion], *, shared: bool
) -> Mapping[contract.DatasetFields, RowPool]:
    """Return the pool of each dataset that reads rows; datasets with the same content share one.

    `shared`: the cachePolicy is Share, so rows may be sent again, and equal rows are kept. Raises
    RunFailure.
    """
    with_rows = [(p, p.data) for p in portions if type(p.data) in ROW_KINDS]
    datasets = sorted(
        dict.fromkeys(data for _, data in with_rows),
        key=lambda data: ROW_KINDS[type(data)].reads_less(data),
    )
    by_source: dict[Hashable, RowPool] = {}
    by_content: dict[Hashable, RowPool] = {}
    pools: dict[contract.DatasetFields, RowPool] = {}
    for data in datasets:
        kind = ROW_KINDS[type(data)]
        source = _values(data, kind.source + kind.content)
        if source not in by_source:
            file = kind.read(data)
            if not (shared or data.sends_again):
                file = without_equal_rows(file)
            content = _values(data, kind.content), file.sha256
            by_source[source] = by_content.setdefault(content, RowPool(file))
        pools[data] = by_source[source]
    for portion, data in with_rows:
        if not is_reworded(portion, shared=shared):
            pools[data].needed += different_prompts(portion) * data.rows_per_prompt
    return pools


def is_reworded(portion: Portion, *, shared: bool) -> bool:
    """Return whether the portion is sent with reworded rows: a warm-up whose stages share rows.

    The stages may need every row as it is.
    """
    return portion.warms_up and (shared or portion.data.sends_again)


def different_prompts(portion: Portion) -> int:
    return math.ceil(portion.requests / portion.data.copies)


def _values(data: contract.DatasetFields, fields: Sequence[str]) -> Hashable:
    return data.kind, *(getattr(data, name) for name in fields)
