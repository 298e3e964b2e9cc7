"""Blocks: given, shared, evicted, taken back."""

from benchrun_simulator.prefix_cache import KvCache, Lease, block_hashes
from hypothesis import given, strategies as st

BLOCK = 4


def cache(blocks: int = 8, *, prefix_caching: bool = True) -> KvCache:
    return KvCache(blocks=blocks, block_size=BLOCK, prefix_caching=prefix_caching)


def hashes(tokens: list[int], salt: str = "") -> list[bytes]:
    return block_hashes(tokens, block_size=BLOCK, salt=salt)


def admitted(kv: KvCache, tokens: list[int]) -> Lease:
    lease = kv.admit(hashes(tokens), tokens=len(tokens))
    assert lease is not None
    return lease


def test_a_block_is_named_by_everything_before_it() -> None:
    one = hashes([1, 2, 3, 4, 5, 6, 7, 8])
    two = hashes([9, 2, 3, 4, 5, 6, 7, 8])
    assert len(one) == 2
    assert one[1] != two[1]


def test_an_incomplete_block_has_no_name() -> None:
    assert len(hashes([1, 2, 3, 4, 5])) == 1


def test_different_salts_share_nothing() -> None:
    assert hashes([1, 2, 3, 4], salt="a") != hashes([1, 2, 3, 4], salt="b")


def test_a_repeated_prompt_hits_all_but_the_block_of_its_last_token() -> None:
    kv = cache()
    prompt = list(range(8))
    assert admitted(kv, prompt).cached_tokens == 0
    assert admitted(kv, prompt).cached_tokens == 4


def test_a_prompt_with_a_partial_last_block_hits_all_its_full_blocks() -> None:
    kv = cache()
    admitted(kv, list(range(10)))
    assert admitted(kv, list(range(10))).cached_tokens == 8


def test_shared_blocks_are_counted_once() -> None:
    kv = cache(blocks=8)
    admitted(kv, list(range(9)))
    admitted(kv, list(range(9)))
    assert kv.free_blocks == 8 - 4  # two shared, one private each


def test_released_blocks_do_not_count_as_used_but_are_still_found() -> None:
    kv = cache()
    lease = admitted(kv, list(range(9)))
    kv.release(lease)
    assert kv.usage == 0.0
    assert admitted(kv, list(range(9))).cached_tokens == 8


def test_nothing_is_given_when_blocks_are_short() -> None:
    kv = cache(blocks=3)
    admitted(kv, list(range(8)))
    assert kv.admit(hashes(list(range(50, 58))), tokens=8) is None
    assert kv.free_blocks == 1


def test_an_idle_hit_cannot_be_spent_twice() -> None:
    kv = cache(blocks=3)
    kv.release(admitted(kv, list(range(8))))
    # 16 tokens need four blocks; two idle ones would be hits, and only one other is free.
    assert kv.admit(hashes(list(range(16))), tokens=16) is None


def test_the_block_unused_longest_is_evicted_first_and_a_prompt_from_its_tail() -> (
    None
):
    kv = cache(blocks=4)
    kv.release(admitted(kv, list(range(8))))
    kv.release(admitted(kv, list(range(100, 108))))
    # takes one block: the tail of the oldest prompt
    kv.release(admitted(kv, list(range(200, 204))))
    assert admitted(kv, list(range(9))).cached_tokens == 4


def test_growth_takes_a_block_only_at_its_border() -> None:
    kv = cache()
    lease = admitted(kv, [1, 2, 3])
    assert kv.grow(lease, tokens=4)
    assert lease.blocks == 1
    assert kv.grow(lease, tokens=5)
    assert lease.blocks == 2


def test_growth_fails_without_taking_anything_when_all_is_held() -> None:
    kv = cache(blocks=1)
    lease = admitted(kv, [1, 2, 3, 4])
    assert not kv.grow(lease, tokens=5)
    assert lease.blocks == 1


def test_reset_refuses_while_a_block_is_held_and_forgets_afterwards() -> None:
    kv = cache()
    lease = admitted(kv, list(range(9)))
    assert not kv.reset()
    kv.release(lease)
    assert kv.reset()
    assert admitted(kv, list(range(9))).cached_tokens == 0


def test_without_prefix_caching_nothing_is_found() -> None:
    kv = cache(prefix_caching=False)
    kv.release(admitted(kv, list(range(9))))
    lease = kv.admit([], tokens=9)
    assert lease is not None
    assert lease.cached_tokens == 0


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=24), st.booleans()
        ),
        max_size=30,
    )
)
def test_blocks_are_neither_lost_nor_invented(
    history: list[tuple[list[int], bool]],
) -> None:
    kv = cache(blocks=10)
    leases: list[Lease] = []
    for prompt, release_first in history:
        if release_first and leases:
            kv.release(leases.pop(0))
        lease = kv.admit(hashes(prompt), tokens=len(prompt))
        if lease is not None:
            leases.append(lease)
            kv.grow(lease, tokens=len(prompt) + 5)
        distinct = {name for held in leases for name in held.shared}
        assert 10 - kv.free_blocks == len(distinct) + sum(
            held.private for held in leases
        )
        assert 0 <= kv.free_blocks <= 10
    for lease in leases:
        kv.release(lease)
    assert kv.free_blocks == 10
    assert kv.reset()


def test_foreign_hits_are_whole_blocks_and_never_the_last_token() -> None:
    cache = KvCache(blocks=100, block_size=4, foreign_hits_percent=50)
    lease = cache.admit(block_hashes(range(41), block_size=4), tokens=41)
    assert lease is not None
    assert lease.cached_tokens == cache.cached_tokens([], tokens=41) == 20
    assert (
        KvCache(blocks=100, block_size=4, foreign_hits_percent=100).cached_tokens(
            [], tokens=40
        )
        == 36
    )


def test_own_hits_count_where_they_are_more() -> None:
    cache = KvCache(blocks=100, block_size=4, foreign_hits_percent=10)
    hashes = block_hashes(range(40), block_size=4)
    first = cache.admit(hashes, tokens=40)
    assert first is not None
    cache.release(first)
    assert cache.cached_tokens(hashes, tokens=41) == 40


def test_without_prefix_caching_nobody_hits() -> None:
    cache = KvCache(
        blocks=100, block_size=4, prefix_caching=False, foreign_hits_percent=50
    )
    assert cache.cached_tokens([], tokens=41) == 0
