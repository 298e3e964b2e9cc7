"""A table of cases in one test tells every case that fails."""

import pytest
from kit.every_case import check_all, every


@pytest.fixture
def limit() -> int:
    return 3


@every("number", [1, pytest.param(2, id="two")])
@every(("word", "length"), [("a", 1), ("bc", 2)])
def test_all_cases_are_run_with_fixtures(
    limit: int, number: int, word: str, length: int
) -> None:
    assert number < limit
    assert len(word) == length


def test_each_case_that_fails_is_told_by_its_name() -> None:
    @every(("number", "square"), [(2, 4), (3, 8), pytest.param(4, 15, id="four")])
    def squared(number: int, square: int) -> None:
        assert number * number == square

    with pytest.raises(AssertionError, match="2 of 3 cases") as failed:
        squared()
    lines = [line.split(":")[0] for line in str(failed.value).splitlines()]
    assert [name for name in lines if name in ("2, 4", "3, 8", "four")] == [
        "3, 8",
        "four",
    ]


def test_a_case_that_raises_nothing_where_it_should_fails() -> None:
    def raises() -> None:
        with pytest.raises(ValueError):
            int("1")

    with pytest.raises(AssertionError, match=r"one: Failed"):
        check_all({"one": raises})


def test_a_table_without_cases_fails() -> None:
    with pytest.raises(AssertionError, match="without cases"):
        check_all({})
