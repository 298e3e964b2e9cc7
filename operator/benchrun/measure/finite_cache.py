"""The hits that a prefix cache of a server's size finds, turn by turn.

A server's KV cache is a number of blocks of equal size. A prompt finds the whole blocks that it
begins with, as far as they are held; what is computed takes blank blocks, and then those that
nobody holds and that were used least recently. Which prompts begin alike, and when each was served,
is in the record. So the hits follow from the cache's size, without the texts.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from benchrun_client.contract import PlannedPrompts, RequestColumns

MOST_BLOCKS = 300_000
"""Most blocks that are looked at for a stage, some 0.3 s. Of more, neighbours count as one."""


class CacheSize(NamedTuple):
    """The size of a prefix cache."""

    blocks: int | None  # None: an endless cache.
    block_tokens: int
    most_running: int | None = (
        None  # Most requests that the server runs at once; None if not known.
    )


def hits_of_cache(
    requests: RequestColumns,
    prompts: PlannedPrompts,
    cache: CacheSize,
    *,
    shared_prefix_tokens: int = 0,
) -> list[int]:
    """Return the prompt tokens that a cache finds of each request, in order of sending.

    The cache has nothing of the stage at its begin. `shared_prefix_tokens` is what every prompt
    begins with beside what `prompts` says.
    """
    beginnings = _Beginnings.of(requests, prompts, shared_prefix_tokens)
    together = max(
        1,
        math.ceil(
            (sum(beginnings.lengths) + sum(requests.output_tokens))
            / (MOST_BLOCKS * cache.block_tokens)
        ),
    )
    size = cache.block_tokens * together
    blocks = None if cache.blocks is None else max(cache.blocks // together, 1)
    turns = _served(requests, beginnings, prompts.sent, size)
    return _Serving(turns, _Pool(blocks), cache, size=size).hits()


@dataclass(frozen=True, slots=True)
class _Beginnings:
    """What each planned prompt has in common with an earlier one."""

    like: Sequence[int]
    common: Sequence[int]
    lengths: Sequence[int]
    """Tokens of each prompt; of one that was not sent, as many as later ones have of it."""

    @classmethod
    def of(
        cls, requests: RequestColumns, prompts: PlannedPrompts, shared: int
    ) -> "_Beginnings":
        lengths = [0] * len(prompts.like)
        for place, tokens in zip(prompts.sent, requests.input_tokens, strict=True):
            lengths[place] = tokens
        is_first = [like == place for place, like in enumerate(prompts.like)]
        common = [
            0 if first else tokens + shared
            for first, tokens in zip(is_first, prompts.tokens, strict=True)
        ]
        sent = set(prompts.sent)
        for place in reversed(range(len(lengths))):
            if place in sent:
                common[place] = min(common[place], lengths[place])
            like = prompts.like[place]
            if like not in sent:
                lengths[like] = max(lengths[like], common[place])
        return cls(prompts.like, common, lengths)

    def names(self, size: int) -> list[list[int]]:
        """Return the names of each prompt's whole blocks: equal names, equal beginnings."""
        made: list[list[int]] = []
        following = 0
        for like, common, length in zip(
            self.like, self.common, self.lengths, strict=True
        ):
            whole = length // size
            is_first = like == len(made)
            names = [] if is_first else made[like][: min(common, length) // size]
            own = whole - len(names)
            made.append([*names, *range(following, following + own)])
            following += own
        return made


@dataclass(slots=True)
class _Turn:
    """A request as it was served, and the blocks that it holds."""

    number: int
    begun_us: int
    first_us: int
    ended_us: int
    prompt_tokens: int
    output_tokens: int
    names: Sequence[int]  # Of the whole blocks of its prompt.
    common: int
    """Tokens that it has in common with `like`, the names of the prompt that first began so."""
    like: Sequence[int]
    held: list[int] = field(default_factory=list)  # Blocks that are named.
    unnamed: int = 0
    found: int | None = None  # Tokens, at its first admission; None until then.

    @property
    def stored_at_last(self) -> int:
        """Return the tokens in the cache at its end; the last of the answer is never stored."""
        return self.prompt_tokens + max(self.output_tokens - 1, 0)

    def stored_at(self, now: int) -> int:
        """Return the tokens in the cache, if those of the answer come evenly."""
        lasts = max(self.ended_us - self.first_us, 1)
        share = min(max(now - self.first_us, 0), lasts)
        answered = self.stored_at_last - self.prompt_tokens
        return self.prompt_tokens + answered * share // lasts


def _served(
    requests: RequestColumns,
    beginnings: _Beginnings,
    sent: Sequence[int],
    size: int,
) -> list[_Turn]:
    names = beginnings.names(size)
    return [
        _Turn(
            number=number,
            begun_us=begun,
            first_us=begun + ttft,
            ended_us=begun + max(e2el, ttft),
            prompt_tokens=prompt,
            output_tokens=output,
            names=names[place],
            common=beginnings.common[place],
            like=names[beginnings.like[place]],
        )
        for number, place, begun, ttft, e2el, prompt, output in zip(
            range(len(sent)),
            sent,
            requests.start_us,
            requests.ttft_us,
            requests.e2el_us,
            requests.input_tokens,
            requests.output_tokens,
            strict=True,
        )
    ]


class _Pool:
    """All blocks of a cache. Nothing is stored: a block is a number, and perhaps a name."""

    def __init__(self, blocks: int | None) -> None:
        self._blank: float = math.inf if blocks is None else blocks
        # Named blocks that nobody holds; the first one is taken first.
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._names: dict[int, int] = {}
        self._with_name: dict[int, dict[int, None]] = {}
        self._holders: dict[int, int] = {}
        self._made = 0

    def find(self, name: int) -> int | None:
        """Return a block of this name; None if there is none."""
        return next(iter(self._with_name.get(name, ())), None)

    def has_room(self, blocks: int, *, beside: Sequence[int]) -> bool:
        """Return whether so many blocks can be taken, if those `beside` stay."""
        idle = len(self._idle) - sum(block in self._idle for block in beside)
        return blocks <= self._blank + idle

    def hold(self, block: int) -> None:
        self._idle.pop(block, None)
        self._holders[block] = self._holders.get(block, 0) + 1

    def take(self, count: int) -> None:
        """Take unnamed blocks; more than there are become a debt, paid by what is let go."""
        self._blank -= count
        self._pay()

    def name(self, name: int | None) -> int:
        """Return an unnamed block that was taken as a named one; without a name none finds it."""
        block = self._made
        self._made += 1
        self._holders[block] = 1
        if name is not None:
            self._names[block] = name
            self._with_name.setdefault(name, {})[block] = None
        return block

    def let_go(self, named: Sequence[int], *, unnamed: int) -> None:
        """Take back blocks: unnamed ones are taken next, named ones after all that are idle."""
        self._blank += unnamed
        # The end of a prompt goes first: a shorter beginning is the likelier hit.
        for block in reversed(named):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._idle[block] = None
        self._pay()

    def _pay(self) -> None:
        while self._blank < 0 and self._idle:
            block, _ = self._idle.popitem(last=False)
            self._blank += 1
            name = self._names.pop(block, None)
            if name is not None:
                del self._with_name[name][block]
                if not self._with_name[name]:
                    del self._with_name[name]


_ENDS, _HAS_FIRST_TOKEN, _GROWS, _BEGINS = range(4)


class _Serving:
    """A server's scheduler, as far as its cache is concerned: first come, first served."""

    def __init__(
        self, turns: Sequence[_Turn], pool: _Pool, cache: CacheSize, *, size: int
    ) -> None:
        self._turns = turns
        self._pool = pool
        self._block_tokens = cache.block_tokens
        self._size = size
        self._most_running = cache.most_running or len(turns)
        self._running: dict[int, _Turn] = {}  # In the order of admission.
        self._waiting: deque[_Turn] = deque()

    def hits(self) -> list[int]:
        events = [
            (instant, kind, number)
            for number, turn in enumerate(self._turns)
            for instant, kind in (
                (turn.begun_us, _BEGINS),
                (max(turn.first_us, turn.begun_us + 1), _HAS_FIRST_TOKEN),
                (max(turn.ended_us, turn.begun_us + 2), _ENDS),
            )
        ]
        heapify(events)
        while events:
            now, kind, number = heappop(events)
            turn = self._turns[number]
            if kind == _BEGINS:
                self._waiting.append(turn)
                if len(self._waiting) == 1:
                    self._admit_waiting(now)
            elif kind == _HAS_FIRST_TOKEN:
                self._admit_at_last(turn, now)
                for instant in self._growth(turn):
                    heappush(events, (max(instant, now), _GROWS, number))
                self._admit_waiting(now)
            elif kind == _GROWS:
                self._grow(turn)
            else:
                self._end(turn, now)
                self._admit_waiting(now)
        return [turn.found or 0 for turn in self._turns]

    def _growth(self, turn: _Turn) -> list[int]:
        """Return when an answer needs another block, in microseconds."""
        held = len(turn.held) + turn.unnamed
        most = math.ceil(turn.stored_at_last / self._size)
        lasts = max(turn.ended_us - turn.first_us, 0)
        return [
            turn.first_us
            + lasts
            * max(block * self._size - turn.prompt_tokens, 0)
            // max(turn.output_tokens, 1)
            for block in range(held, most)
        ]

    def _grow(self, turn: _Turn) -> None:
        """Take a block for an answer; where none is left, what was admitted last waits again."""
        if turn.number not in self._running:
            return  # It waits, and gets all its blocks when it is admitted again.
        # The only one that runs fits for sure: the server would have refused it.
        while len(self._running) > 1 and not self._pool.has_room(1, beside=()):
            victim = next(reversed(self._running.values()))
            self._let_go(victim, answered=0)
            self._waiting.appendleft(victim)
            if victim is turn:
                return
        self._pool.take(1)
        turn.unnamed += 1

    def _admit_waiting(self, now: int) -> None:
        while self._waiting and len(self._running) < self._most_running:
            turn = self._waiting[0]
            found = self._found(turn)
            blocks = math.ceil(turn.stored_at(now) / self._size)
            if not self._pool.has_room(blocks - len(found), beside=found):
                return
            self._waiting.popleft()
            self._admit(turn, found, blocks=blocks)

    def _admit_at_last(self, turn: _Turn, now: int) -> None:
        """Admit a turn that has a token: whatever is known, the server had room."""
        if turn.number not in self._running:
            self._waiting.remove(turn)
            blocks = math.ceil(turn.stored_at(now) / self._size)
            self._admit(turn, self._found(turn), blocks=blocks)

    def _found(self, turn: _Turn) -> list[int]:
        """Return the blocks that a prompt finds; its last token is always computed."""
        found: list[int] = []
        for name in turn.names[: max(turn.prompt_tokens - 1, 0) // self._size]:
            block = self._pool.find(name)
            if block is None:
                break
            found.append(block)
        return found

    def _admit(self, turn: _Turn, found: Sequence[int], *, blocks: int) -> None:
        self._running[turn.number] = turn
        if turn.found is None:
            turn.found = self._tokens_found(turn, len(found))
        for block in found:
            self._pool.hold(block)
        fresh = blocks - len(found)
        self._pool.take(fresh)
        new = [self._pool.name(name) for name in turn.names[len(found) :]]
        turn.held = [*found, *new]
        turn.unnamed = fresh - len(new)

    def _tokens_found(self, turn: _Turn, blocks: int) -> int:
        """Return the tokens found; if blocks count together, also those of a part of the next."""
        found = blocks * self._size
        parts_with_next = turn.common // self._size == blocks < len(turn.like)
        if parts_with_next and self._pool.find(turn.like[blocks]) is not None:
            most = min(turn.common, max(turn.prompt_tokens - 1, 0))
            return max(found, most // self._block_tokens * self._block_tokens)
        return found

    def _end(self, turn: _Turn, now: int) -> None:
        self._admit_at_last(turn, now)
        whole = turn.stored_at_last // self._size
        answered = max(whole - len(turn.held), 0)
        self._let_go(turn, answered=min(answered, turn.unnamed))

    def _let_go(self, turn: _Turn, *, answered: int) -> None:
        """Let go of what a turn held; whole blocks of its answer have a name that none asks for."""
        del self._running[turn.number]
        named = [*turn.held, *(self._pool.name(None) for _ in range(answered))]
        self._pool.let_go(named, unnamed=turn.unnamed - answered)
        turn.held = []
        turn.unnamed = 0
