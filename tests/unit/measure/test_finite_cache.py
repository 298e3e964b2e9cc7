"""Hits that follow from a cache's size, held against a cache that has the tokens themselves."""

import random
from collections.abc import Sequence

import pytest
from benchrun.measure import finite_cache
from benchrun.measure.finite_cache import CacheSize, hits_of_cache
from benchrun_client.contract import PlannedPrompts, RequestColumns
from benchrun_simulator.prefix_cache import KvCache, block_hashes

BLOCK = 16
SECOND = 1_000_000


def columns(
    rows: Sequence[tuple[int, int, int, int, int]],
) -> RequestColumns:
    """Build the columns of requests: begin, TTFT, E2EL in seconds, tokens of prompt and answer."""
    begun, first, took, prompts, answers = zip(*rows, strict=True)
    count = len(rows)
    return RequestColumns(
        start_us=tuple(SECOND * at for at in begun),
        queue_us=(0,) * count,
        ttft_us=tuple(SECOND * at for at in first),
        e2el_us=tuple(SECOND * at for at in took),
        input_tokens=prompts,
        output_tokens=answers,
        asked_tokens=answers,
        ended=(1,) * count,
        ok=(1,) * count,
    )


def planned(
    *beginnings: tuple[int, int], sent: Sequence[int] = ()
) -> PlannedPrompts:
    like, tokens = zip(*beginnings, strict=True)
    return PlannedPrompts(
        like=like, tokens=tokens, sent=tuple(sent or range(len(beginnings)))
    )


def one_after_another(*lengths: tuple[int, int]) -> RequestColumns:
    """Build requests that are served alone, each by its tokens of prompt and answer."""
    return columns(
        [
            (10 * n, 1, 5, prompt, answer)
            for n, (prompt, answer) in enumerate(lengths)
        ]
    )


def common_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def beginning(prompts: Sequence[Sequence[int]], place: int) -> tuple[int, int]:
    """Return the earlier prompt that begins most like one, and for how many tokens."""
    earlier = [common_tokens(prompts[place], of) for of in prompts[:place]]
    most = max(earlier, default=0)
    return (earlier.index(most), most) if most else (place, 0)


def by_tokens(
    prompts: Sequence[Sequence[int]], answers: Sequence[int], *, blocks: int
) -> list[int]:
    """Return the hits of a cache that has the tokens, of prompts that are served one by one."""
    cache = KvCache(blocks=blocks, block_size=BLOCK)
    found = []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        lease = cache.admit(
            block_hashes(prompt, block_size=BLOCK), tokens=len(prompt)
        )
        assert lease is not None
        found.append(lease.cached_tokens)
        stored = len(prompt) + answer - 1
        assert cache.grow(lease, tokens=stored)
        for block in range(len(prompt) // BLOCK, stored // BLOCK):
            cache.seal(lease, f"{number} {block}".encode())
        cache.release(lease)
    return found


def drawn_sessions(seed: int) -> tuple[list[list[int]], list[int]]:
    """Draw the turns of some sessions, in any order, that share their first words."""
    rng = random.Random(seed)

    def words(most: int) -> list[int]:
        return [rng.randrange(1 << 40) for _ in range(rng.randint(1, most))]

    system = words(60)
    histories = [[*system, *words(100)] for _ in range(6)]
    prompts, answers = [], []
    for _ in range(60):
        session = rng.randrange(len(histories))
        prompts.append(histories[session])
        answers.append(rng.randint(1, 60))
        histories[session] = [*prompts[-1], *words(40), *words(60)]
    return prompts, answers


@pytest.mark.parametrize("blocks", [110, 140, 180, 5000])
def test_hits_are_those_of_a_cache_that_has_the_tokens(blocks: int) -> None:
    least = most = 0
    for seed in range(10):
        prompts, answers = drawn_sessions(seed)
        usable = [
            len(p) + a <= blocks * BLOCK
            for p, a in zip(prompts, answers, strict=True)
        ]
        count = usable.index(False) if False in usable else len(usable)
        prompts, answers = prompts[:count], answers[:count]
        found = hits_of_cache(
            one_after_another(*zip(map(len, prompts), answers, strict=True)),
            planned(*(beginning(prompts, place) for place in range(count))),
            CacheSize(blocks, BLOCK),
        )
        assert found == by_tokens(prompts, answers, blocks=blocks)
        least += sum(found)
        most += sum(common_tokens_found(prompts))
    # The smaller ones do evict.
    assert (least < most) == (blocks < 5000)


def common_tokens_found(prompts: Sequence[Sequence[int]]) -> list[int]:
    return [
        min(beginning(prompts, place)[1], len(prompts[place]) - 1) // BLOCK * BLOCK
        for place in range(len(prompts))
    ]


def test_an_endless_cache_finds_the_whole_blocks_of_what_begins_alike() -> None:
    requests = one_after_another((100, 4), (150, 4), (150, 4), (64, 4))
    prompts = planned((0, 0), (0, 100), (1, 150), (0, 64))
    found = hits_of_cache(requests, prompts, CacheSize(None, BLOCK))
    # Of the last one all four blocks were there, but its last token must be computed.
    assert found == [0, 96, 144, 48]


def test_what_all_prompts_begin_with_is_found_too() -> None:
    requests = one_after_another((100, 4), (100, 4))
    prompts = planned((0, 0), (0, 10))
    cache = CacheSize(None, BLOCK)
    assert hits_of_cache(requests, prompts, cache) == [0, 0]
    found = hits_of_cache(requests, prompts, cache, shared_prefix_tokens=6)
    assert found == [0, 16]


def test_a_prompt_that_is_served_at_the_same_time_is_found() -> None:
    requests = columns([(0, 5, 9, 100, 2), (1, 5, 9, 100, 2)])
    found = hits_of_cache(requests, planned((0, 0), (0, 96)), CacheSize(40, BLOCK))
    assert found == [0, 96]


def test_what_is_held_is_not_taken_from_those_that_run() -> None:
    """The second prompt waits for the end of the first, which would not fit beside it."""
    requests = columns([(0, 1, 9, 160, 2), (1, 9, 10, 160, 2), (20, 1, 2, 160, 2)])
    prompts = planned((0, 0), (1, 0), (0, 160))
    assert hits_of_cache(requests, prompts, CacheSize(22, BLOCK)) == [0, 0, 144]
    # Its last block is beyond what the cache held of it: the second prompt took it.
    assert hits_of_cache(requests, prompts, CacheSize(15, BLOCK)) == [0, 0, 64]


def test_a_turn_that_has_its_first_token_had_room_whatever_is_known() -> None:
    requests = columns([(0, 1, 9, 160, 2), (1, 1, 9, 160, 2), (20, 1, 2, 160, 2)])
    prompts = planned((0, 0), (1, 0), (1, 160))
    assert hits_of_cache(requests, prompts, CacheSize(10, BLOCK))[:2] == [0, 0]


def test_a_turn_waits_for_a_seat() -> None:
    """By then what it begins with has gone: the one before it took the blocks."""
    requests = columns([(0, 1, 2, 80, 2), (3, 1, 9, 160, 2), (4, 9, 10, 80, 2)])
    prompts = planned((0, 0), (1, 0), (0, 80))
    assert hits_of_cache(requests, prompts, CacheSize(16, BLOCK)) == [0, 0, 64]
    seats = CacheSize(16, BLOCK, most_running=1)
    assert hits_of_cache(requests, prompts, seats) == [0, 0, 64]
    few = CacheSize(11, BLOCK, most_running=1)
    assert hits_of_cache(requests, prompts, few) == [0, 0, 0]


def test_prompts_that_were_never_sent_may_be_what_others_begin_like() -> None:
    requests = one_after_another((100, 4), (100, 4))
    prompts = planned((0, 0), (0, 90), (0, 50), sent=[1, 2])
    assert hits_of_cache(requests, prompts, CacheSize(None, BLOCK)) == [0, 48]


def test_many_blocks_count_together_and_the_hits_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompts, answers = drawn_sessions(3)
    of = (
        one_after_another(*zip(map(len, prompts), answers, strict=True)),
        planned(*(beginning(prompts, place) for place in range(len(prompts)))),
    )
    exact = {n: hits_of_cache(*of, CacheSize(n, BLOCK)) for n in (160, 300, None)}
    monkeypatch.setattr(finite_cache, "MOST_BLOCKS", 1200)
    tokens = sum(map(len, prompts))
    for blocks, hits in exact.items():
        found = hits_of_cache(*of, CacheSize(blocks, BLOCK))
        assert abs(sum(found) - sum(hits)) <= 0.04 * tokens, blocks
    monkeypatch.setattr(finite_cache, "MOST_BLOCKS", 1)
    assert len(hits_of_cache(*of, CacheSize(300, BLOCK))) == len(prompts)


def test_hostile_lengths_take_no_memory() -> None:
    requests = one_after_another((10**12, 10**12), (10**12, 1))
    found = hits_of_cache(
        requests, planned((0, 0), (0, 10**12)), CacheSize(10**9, 1)
    )
    assert found[0] == 0
