"""Whose request is whose: everything is somebody's, nothing is two's, and nobody gets more than a fair share."""

from __future__ import annotations

from benchrun_client.contract import LoadPoint
from benchrun_client.shards.sharing import Shard, Share, share_of
from hypothesis import given
from hypothesis import strategies as st

LOADS = st.builds(
    LoadPoint,
    request_rate=st.sampled_from(["inf", "3.5"]),
    max_concurrency=st.none() | st.integers(min_value=1, max_value=40),
)


def shares(point: LoadPoint, *, requests: int, shards: int) -> list[Share]:
    return [share_of(point, requests=requests, shard=Shard(shard, shards)) for shard in range(shards)]


@given(point=LOADS, requests=st.integers(min_value=1, max_value=200), shards=st.integers(min_value=1, max_value=16))
def test_requests_users_and_caps_are_divided_without_rest(point: LoadPoint, requests: int, shards: int) -> None:
    divided = shares(point, requests=requests, shards=shards)
    users = min(point.max_concurrency or requests, requests)
    assert sorted(i for share in divided for i in share.requests) == list(range(requests))
    assert sorted(user for share in divided for user in share.users) == list(range(users))
    caps = [share.point.max_concurrency for share in divided if share.users]
    assert caps == [None if point.max_concurrency is None else len(share.users) for share in divided if share.users]
    assert {share.point.request_rate for share in divided} == {point.request_rate}


@given(point=LOADS, requests=st.integers(min_value=1, max_value=200), shards=st.integers(min_value=1, max_value=16))
def test_shares_differ_by_one_user_at_most(point: LoadPoint, requests: int, shards: int) -> None:
    users = [len(share.users) for share in shares(point, requests=requests, shards=shards)]
    assert max(users) - min(users) <= 1


@given(users=st.integers(min_value=1, max_value=40), shards=st.integers(min_value=1, max_value=16))
def test_all_requests_of_a_user_are_one_shards(users: int, shards: int) -> None:
    point = LoadPoint(max_concurrency=users)
    for share in shares(point, requests=users * 3, shards=shards):
        assert {i % users for i in share.requests} == set(share.users)


def test_the_first_shard_always_has_the_first_request() -> None:
    assert share_of(LoadPoint(max_concurrency=1), requests=5, shard=Shard(0, 16)).requests == (0, 1, 2, 3, 4)


def test_with_fewer_users_than_shards_some_have_nothing_to_do() -> None:
    assert share_of(LoadPoint(max_concurrency=2), requests=9, shard=Shard(2, 3)).requests == ()
