"""The stages of a search, and what is sent in them."""

import pickle
from collections.abc import Sequence
from concurrent.futures import Future
from decimal import Decimal

import pytest
from benchrun_client.contract import (
    AutoPlan,
    CachePolicy,
    Outcome,
    Plan,
    RateLoad,
    Stage,
    ThinkTime,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.datasets.row_pools import PromptRequest, prompts_digest
from benchrun_client.failures import RunFailure
from benchrun_client.search.bisection import (
    Position,
    after,
    every_stage,
    first,
    may_follow,
    stage_at,
)
from benchrun_client.search.prompt_writer import SearchPrompts
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import (
    check_lengths,
    find_material,
    is_written_late,
    write_traffic,
)
from pydantic import ValidationError
from unit.client.plans import plan, stage, warmup
from unit.client.search.searches import search
from unit.client.words import HubTokenizer

COUNTER = TokenCounter(HubTokenizer())


def test_a_stage_is_named_by_probe_and_repeat_and_carries_the_load() -> None:
    second = stage_at(search(), Position(14, 2, Decimal("11.310")))
    assert (second.id, second.repeat, second.load) == (
        "chat/search-14/r2",
        2,
        RateLoad(requests_per_second="11.31"),
    )
    assert (
        second.seed == 12 + 3 + 1
    )  # After twelve looks and the three stages of another load.
    users = stage_at(search(axis="Concurrency"), Position(1, 1, Decimal(8)))
    assert users.load == UsersLoad(concurrency=8)
    think = ThinkTime(mean_seconds="2")
    thinking = search(axis="Concurrency", start="Spread", think_seconds=think)
    load = UsersLoad(concurrency=8, start="Spread", think_seconds=think)
    assert stage_at(thinking, Position(1, 1, Decimal(8))).load == load


def test_requests_are_as_requested_or_rate_times_duration() -> None:
    assert stage_at(search(requests=50), Position(2, 1, Decimal(9))).requests == 50
    assert (
        stage_at(
            search(duration_seconds=10), Position(2, 1, Decimal("1.23"))
        ).requests
        == 13
    )


def test_a_seed_is_of_the_stage_and_not_of_its_load() -> None:
    slow, fast = (
        stage_at(search(), Position(2, 1, Decimal(value))) for value in (2, 4)
    )
    assert slow.seed == fast.seed
    seeds = [each.seed for each in every_stage(search())]
    assert len(set(seeds)) == len(seeds) == 12 + 3 * 3


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": (1, 2)},
        {"requests": None},
        {"requests": 5, "duration_seconds": 5},
        {"lowest": "inf"},
    ],
)
def test_a_search_that_is_not_whole_is_rejected(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        search(**changes)


def test_a_plan_without_a_search_reports_nothing_of_searches() -> None:
    assert "searches" not in plan().to_json()
    assert (
        '"think_seconds"'
        not in plan(searches=(search(axis="Concurrency"),)).to_json()
    )
    searching = plan(searches=(search(),))
    assert Plan.model_validate_json(searching.to_json()) == searching


def test_a_plan_measures_something() -> None:
    with pytest.raises(ValidationError, match="neither stages nor searches"):
        Plan.model_validate({**plan().model_dump(), "stages": ()})


# ---- prompts
# ----------------------------------------------------------------------------------------------------------


def test_of_repeats_until_all_is_decided_only_the_first_is_written_before() -> None:
    repeats = [
        stage(id=f"chat/concurrency=2/r{n}", repeat=n, seed=n) for n in (1, 2, 3)
    ]
    asked = AutoPlan(max_failed_percent="1", max_requests=12, looks=(1, 2, 3))
    of = plan(*repeats, auto=asked)
    assert Plan.model_validate_json(of.to_json()) == of
    assert is_written_late(of)
    written = write_traffic(of, find_material(of, COUNTER), COUNTER)
    assert written.stages == ()
    assert {name: len(each) for name, each in written.probes.items()} == {
        "chat/concurrency=2/r1": 4
    }
    fixed = plan(*repeats)
    assert not is_written_late(fixed)
    assert (
        len(write_traffic(fixed, find_material(fixed, COUNTER), COUNTER).stages)
        == 3
    )


def test_random_prompts_of_probes_are_left_for_later_and_begin_as_no_other() -> (
    None
):
    given = plan(stage(), searches=(search(),), warmups=(warmup(),))
    traffic = write_traffic(given, find_material(given, COUNTER), COUNTER)
    assert [len(samples) for samples in (*traffic.stages, *traffic.warmups)] == [
        4,
        2,
    ]
    assert {
        stage_id: len(samples) for stage_id, samples in traffic.probes.items()
    } == {"chat/search-01/r1": 40}
    assert {tuple(s.prompt.split()[:8]) for s in traffic.stages[0]} <= set(
        traffic.starts
    )


def test_under_share_all_probes_send_the_same_prompts_as_many_as_they_need() -> (
    None
):
    policy: CachePolicy = "Share"
    search_spec = search(
        max_probes=2,
        max_repeats=1,
        highest="4",
        duration_seconds=10,
        seeds=(3,) * 5,
    )
    given = plan(
        stage(workload="other"), searches=(search_spec,), cache_policy=policy
    )
    traffic = write_traffic(given, find_material(given, COUNTER), COUNTER)
    one = traffic.probes["chat/search-01/r1"]
    two = traffic.probes["chat/search-02/r1"]
    assert one == two[:10]
    assert (len(one), len(two)) == (10, 40)


def test_a_searched_workload_is_held_against_the_context_too() -> None:
    given = plan(
        searches=(search(data=RandomData(input_tokens=30, output_tokens=11)),)
    )
    with pytest.raises(RunFailure, match="41 tokens"):
        check_lengths(
            given,
            find_material(given, COUNTER),
            context_tokens=40,
            whose="the model",
        )


class PromptWriter:
    """Writes at once, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.written: list[tuple[str, tuple[int, ...]]] = []

    def write(self, search_spec: Stage, lengths: Sequence[int]) -> Future[bytes]:
        numbers = tuple(lengths)
        self.written.append((search_spec.id, numbers))
        samples = tuple(
            PromptRequest(f"{search_spec.id} {n}", 2, 2) for n in range(numbers[-1])
        )
        done: Future[bytes] = Future()
        done.set_result(
            pickle.dumps(
                ((samples, {n: prompts_digest(samples[:n]) for n in numbers}), None)
            )
        )
        return done


async def test_what_may_follow_is_written_once_and_for_either_outcome() -> None:
    search_spec = search(duration_seconds=10, max_repeats=2)
    writer = PromptWriter()
    prompts = SearchPrompts(
        {
            "chat/search-01/r1": tuple(
                PromptRequest(f"first {n}", 2, 2) for n in range(10)
            )
        },
        writer.write,
    )
    here = first(search_spec)
    outcomes: tuple[Outcome, ...] = ("Met", "Missed", "Met", "Missed")
    for outcome in outcomes:
        taken = await prompts.take(stage_at(search_spec, here))
        assert len(taken.samples) == stage_at(search_spec, here).requests
        assert taken.digest == prompts_digest(taken.samples)
        prompts.write_ahead(may_follow(search_spec, here))
        following = after(search_spec, here, outcome)
        assert following is not None
        here = following
    assert writer.written == [
        ("chat/search-02/r1", (20,)),
        ("chat/search-03/r1", (15, 40)),
        ("chat/search-04/r1", (12, 17)),
        ("chat/search-05/r1", (16, 19)),
    ]


async def test_prompts_that_cannot_be_needed_any_more_are_let_go() -> None:
    search_spec = search()
    writer = PromptWriter()
    prompts = SearchPrompts({}, writer.write)
    here = first(search_spec)
    prompts.write_ahead(may_follow(search_spec, here))
    following = after(search_spec, here, "Met")
    assert following is not None
    prompts.write_ahead(may_follow(search_spec, following))
    written = [("chat/search-02/r1", (40,)), ("chat/search-03/r1", (40,))]
    assert writer.written == written
    # Stages that nobody expected are written when they come.
    back = stage_at(search_spec, Position(2, 1, here.value))
    assert len((await prompts.take(back)).samples) == 40
    assert writer.written == [*written, written[0]]


async def test_rows_that_were_drawn_before_are_sent_as_they_are() -> None:
    rows = tuple(PromptRequest(f"row {n}", 2, 2) for n in range(40))
    prompts = SearchPrompts({"chat/search-01/r1": rows}, write=None)
    taken = await prompts.take(stage_at(search(requests=30), first(search())))
    assert (taken.samples, taken.digest) == (rows[:30], prompts_digest(rows[:30]))


async def test_a_writer_that_cannot_write_ends_the_run_with_its_reason() -> None:
    failed: Future[bytes] = Future()
    failed.set_result(pickle.dumps((None, ("TokenizerUnusable", "no words"))))
    prompts = SearchPrompts({}, lambda *_: failed)
    here = first(search())
    prompts.write_ahead(may_follow(search(), here))
    following = after(search(), here, "Met")
    assert following is not None
    with pytest.raises(RunFailure, match="no words") as failure:
        await prompts.take(stage_at(search(), following))
    assert failure.value.reason == "TokenizerUnusable"
