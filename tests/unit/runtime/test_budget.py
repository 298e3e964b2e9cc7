"""Bytes that namespaces share: whoever holds less than its share never gives anything back."""

from collections import Counter

from benchrun.observe import Key, run_key
from benchrun.runtime.budget import ByteBudget
from hypothesis import given, strategies as st

A, B, C = (run_key(namespace, "r") for namespace in "abc")


def of(namespace: str, number: int) -> Key:
    return run_key(namespace, str(number))


def test_a_namespace_may_borrow_what_others_leave() -> None:
    budget = ByteBudget(100)
    assert [budget.hold(of("a", n), 30) for n in range(3)] == [(), (), ()]
    assert (budget.used, budget.used_by("a"), budget.share("a")) == (90, 90, 100)


def test_what_was_borrowed_is_given_back_to_whoever_has_less_than_its_share() -> (
    None
):
    budget = ByteBudget(100)
    for number, size in enumerate((40, 50, 10)):
        budget.hold(of("a", number), size)
    assert budget.hold(B, 40) == (of("a", 1),), (
        "the largest of the namespace that has most"
    )
    assert (budget.used_by("a"), budget.used_by("b"), budget.used) == (50, 40, 90)


def test_beyond_its_share_a_namespace_finds_no_room() -> None:
    budget = ByteBudget(100)
    budget.hold(A, 40)
    budget.hold(of("b", 1), 50)
    assert not budget.has_room(of("b", 2), 20)
    assert budget.hold(of("b", 2), 20) == (of("b", 1),), (
        "its own larger one makes room"
    )
    assert budget.hold(of("b", 3), 60) == (of("b", 3),)


def test_of_equal_ones_the_last_gives_back_so_that_nobody_changes_places() -> None:
    budget = ByteBudget(100)
    for number in range(5):
        budget.hold(of("a", number), 25)
    assert [budget.of(of("a", number)) for number in range(5)] == [
        25,
        25,
        25,
        25,
        0,
    ]
    assert budget.hold(of("a", 4), 25) == (of("a", 4),)


def test_what_grows_counts_as_what_it_is_now() -> None:
    budget = ByteBudget(100)
    budget.hold(A, 40)
    budget.hold(A, 90)
    assert (budget.of(A), budget.used) == (90, 90)
    budget.let_go(A)
    budget.let_go(A)
    assert (budget.of(A), budget.used, budget.share("b"), list(budget)) == (
        0,
        0,
        100,
        [],
    )


def test_one_thing_larger_than_everything_is_never_held() -> None:
    budget = ByteBudget(100)
    assert budget.hold(A, 101) == (A,)
    assert budget.used == 0


def test_of_what_is_never_given_back_nobody_can_take_all() -> None:
    """Whoever grows as long as he may leaves as much as he has."""
    budget = ByteBudget(1000)
    for key in (A, B, C):
        while budget.may_grow(key.namespace):
            budget.note(key, budget.of(key) + 1)
    left = budget.total - budget.used
    assert budget.of(A) == 501
    assert left > 100
    assert budget.may_grow("d")


def test_who_holds_most_is_to_give_back_once_it_is_too_much() -> None:
    budget = ByteBudget(100)
    budget.note(A, 90)
    assert not budget.is_over("a")
    budget.note(B, 20)
    assert (budget.is_over("a"), budget.is_over("b")) == (True, False)


SIZES = st.integers(1, 400)
STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 9), SIZES), max_size=80
)


@given(STEPS)
def test_whatever_comes_the_total_holds_and_nobody_below_his_share_gives_back(
    steps: list[tuple[str, int, int]],
) -> None:
    budget = ByteBudget(1000)
    held: dict[Key, int] = {}
    for namespace, number, size in steps:
        key = of(namespace, number)
        sums = Counter[str]()
        for each, bytes_of_it in (held | {key: size}).items():
            sums[each.namespace] += bytes_of_it
        share = 1000 // len(sums)
        held[key] = size
        for lost in budget.hold(key, size):
            assert sums[lost.namespace] > share
            sums[lost.namespace] -= held.pop(lost)
        assert budget.used == sum(held.values()) <= 1000
        assert {each: budget.of(each) for each in budget} == held
