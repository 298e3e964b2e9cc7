"""Whose request is whose, when each is due, and which shard a process is."""

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from benchrun_client.contract import AtOnceLoad, Load, RateLoad, UsersLoad
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.load.vllm_benchmark import Begun, Divided, EngineCall
from benchrun_client.shards.first_shard import IN_THE_POD, shard_setup
from benchrun_client.shards.load_split import Shard, Share, arrivals_of, share_of
from hypothesis import given, strategies as st

CAPS = st.integers(min_value=1, max_value=40)
LOADS: st.SearchStrategy[Load] = st.one_of(
    st.builds(
        RateLoad,
        requests_per_second=st.just("3.5"),
        max_concurrency=st.none() | CAPS,
    ),
    st.builds(AtOnceLoad, max_concurrency=st.none() | CAPS),
    st.builds(UsersLoad, concurrency=CAPS),
)


def shares(point: Load, *, requests: int, shards: int) -> list[Share]:
    return [
        share_of(point, requests=requests, shard=Shard(shard, shards))
        for shard in range(shards)
    ]


@given(
    point=LOADS,
    requests=st.integers(min_value=1, max_value=200),
    shards=st.integers(min_value=1, max_value=16),
)
def test_requests_users_and_caps_are_divided_without_rest(
    point: Load, requests: int, shards: int
) -> None:
    divided = shares(point, requests=requests, shards=shards)
    users = min(point.cap or requests, requests)
    assert sorted(i for share in divided for i in share.requests) == list(
        range(requests)
    )
    assert sorted(user for share in divided for user in share.users) == list(
        range(users)
    )
    caps = [share.load.cap for share in divided if share.users]
    assert caps == [
        None if point.cap is None else len(share.users)
        for share in divided
        if share.users
    ]
    assert {share.load.request_rate for share in divided} == {point.request_rate}


@given(
    point=LOADS,
    requests=st.integers(min_value=1, max_value=200),
    shards=st.integers(min_value=1, max_value=16),
)
def test_shares_differ_by_one_user_at_most(
    point: Load, requests: int, shards: int
) -> None:
    users = [
        len(share.users)
        for share in shares(point, requests=requests, shards=shards)
    ]
    assert max(users) - min(users) <= 1


@given(
    users=st.integers(min_value=1, max_value=40),
    shards=st.integers(min_value=1, max_value=16),
)
def test_all_requests_of_a_user_are_one_shards(users: int, shards: int) -> None:
    point = UsersLoad(concurrency=users)
    for share in shares(point, requests=users * 3, shards=shards):
        assert {i % users for i in share.requests} == set(share.users)


def test_the_first_shard_always_has_the_first_request() -> None:
    assert share_of(
        UsersLoad(concurrency=1), requests=5, shard=Shard(0, 16)
    ).requests == (
        0,
        1,
        2,
        3,
        4,
    )


def test_with_fewer_users_than_shards_some_have_nothing_to_do() -> None:
    assert (
        share_of(UsersLoad(concurrency=2), requests=9, shard=Shard(2, 3)).requests
        == ()
    )


def module() -> Any:
    """As `vllm.benchmarks.serve` does it: gaps first, then sleeping up to each instant."""
    serve = SimpleNamespace(time=time, asyncio=asyncio)

    async def get_request(
        requests: list[Any], rate: float, burstiness: float = 1.0
    ) -> AsyncIterator[tuple[Any, float]]:
        instants = [(n + 1) * burstiness / rate for n in range(len(requests))]
        start = serve.time.time()
        for request, instant in zip(requests, instants, strict=True):
            wait = start + instant - serve.time.time()
            if wait > 0:
                await serve.asyncio.sleep(wait)
            yield request, rate

    serve.get_request = get_request
    return serve


async def test_instants_are_the_generators_and_nobody_waits_for_them() -> None:
    serve = module()
    began = time.monotonic()
    instants, rates = await arrivals_of(
        serve, serve.get_request, 0.01, 2.0, requests=4
    )
    assert instants == pytest.approx([200.0, 400.0, 600.0, 800.0])
    assert rates == [0.01] * 4
    assert time.monotonic() - began < 60


async def test_the_modules_clocks_are_put_back_even_after_an_error() -> None:
    serve = module()
    with pytest.raises(ZeroDivisionError):
        await arrivals_of(serve, serve.get_request, 0, requests=1)
    assert (serve.time, serve.asyncio) == (time, asyncio)


FIRST = "run-0.run.lab.svc:8091"


@pytest.mark.parametrize(
    ("index", "place", "siblings"),
    [
        ("0", Shard(0, 7), (1, 2)),
        ("1", Shard(3, 7), (4, 5)),
        ("2", Shard(6, 7), ()),
    ],
)
def test_the_pods_index_tells_its_shards(
    index: str, place: Shard, siblings: tuple[int, ...]
) -> None:
    setup = shard_setup(
        shards=7,
        processes=3,
        shard=None,
        gate=FIRST,
        environment={"JOB_COMPLETION_INDEX": index},
    )
    assert (setup.shard, setup.siblings) == (place, siblings)


def test_a_process_that_has_its_shard_starts_no_others() -> None:
    setup = shard_setup(
        shards=4,
        processes=4,
        shard=2,
        gate=IN_THE_POD,
        environment={"JOB_COMPLETION_INDEX": "3"},
    )
    assert (setup.shard, setup.siblings) == (Shard(2, 4), ())


def test_outside_of_a_job_it_is_the_first() -> None:
    assert shard_setup(
        shards=1, processes=1, shard=None, gate=IN_THE_POD, environment={}
    ).shard.is_first


@pytest.mark.parametrize(
    ("gate", "address", "port"),
    [(IN_THE_POD, "127.0.0.1", 8091), (FIRST, "0.0.0.0", 8091)],
)
def test_the_gate_is_open_to_other_pods_only_where_there_are_any(
    gate: str, address: str, port: int
) -> None:
    setup = shard_setup(
        shards=2, processes=1, shard=None, gate=gate, environment={}
    )
    assert (setup.gate_address, setup.gate_port) == (address, port)


SAMPLES = [
    PromptRequest(prompt=f"p{n}", input_tokens=1, output_tokens=1) for n in range(7)
]


def load(place: Shard | None) -> EngineCall:
    point = UsersLoad(concurrency=3)

    async def begin() -> Begun:
        await asyncio.sleep(0)
        return Begun(0.0, None)

    divided = None
    if place is not None:
        divided = Divided(
            shard=place, share=share_of(point, requests=7, shard=place), begin=begin
        )
    return EngineCall(
        samples=SAMPLES,
        seed=1,
        load=point,
        api="Completions",
        ignore_eos=True,
        divided=divided,
    )


def test_a_shard_sends_its_own_samples_under_its_own_cap() -> None:
    first, second = (load(Shard(shard, 2)).own for shard in (0, 1))
    assert [sample.prompt for sample in first.samples] == [
        "p0",
        "p2",
        "p3",
        "p5",
        "p6",
    ]
    assert [sample.prompt for sample in second.samples] == ["p1", "p4"]
    assert (first.load.cap, second.load.cap) == (2, 1)


def test_an_undivided_load_is_its_own() -> None:
    assert load(None).own.samples == SAMPLES
