"""`texts` data: so many texts of a column to a prompt, an instruction behind them, each prompt sent
once or more."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import Api, DataFile
from benchrun_client.contract.datasets import TextsData
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import drawn, json_lines, portion, written
from unit.client.words import WordCounter
from unit.golden_messages import golden


def reviews(folder: Path, count: int) -> DataFile:
    rows = "".join(f'"review{n}, a ""fine"" film",positive\n' for n in range(count))
    return written(folder, "reviews.csv", f"review,sentiment\n{rows}")


def texts(file: DataFile, **changes: Any) -> TextsData:
    return TextsData(**{"file": file, "column": "review", **changes})


def test_texts_are_packed_a_line_each_with_the_instruction_behind(
    tmp_path: Path,
) -> None:
    data = texts(
        reviews(tmp_path, 12),
        texts_per_prompt=3,
        instruction="positive or negative?",
    )
    (samples,) = drawn(portion(data))
    lines = [s.prompt.splitlines() for s in samples]
    assert {(len(of_one), of_one[-1]) for of_one in lines} == {
        (4, "positive or negative?")
    }
    assert sorted(line for of_one in lines for line in of_one[:-1]) == sorted(
        f'review{n}, a "fine" film' for n in range(12)
    )


@pytest.mark.parametrize(("a_text", "in_all"), [(1, 5), (20, 100)])
def test_as_many_tokens_are_requested_as_all_texts_need(
    tmp_path: Path, a_text: int, in_all: int
) -> None:
    data = texts(
        reviews(tmp_path, 20), texts_per_prompt=5, output_tokens_per_text=a_text
    )
    assert {s.output_tokens for s in drawn(portion(data))[0]} == {in_all}


def test_packed_and_single_texts_of_one_file_are_never_the_same_in_a_run(
    tmp_path: Path,
) -> None:
    file = reviews(tmp_path, 16)
    found = drawn(
        portion(texts(file, texts_per_prompt=3)),
        portion(texts(file), workload="single"),
    )
    used = [
        line for samples in found for s in samples for line in s.prompt.splitlines()
    ]
    assert len(used) == len(set(used)) == 16


def test_the_same_content_in_two_places_is_never_sent_twice_either(
    tmp_path: Path,
) -> None:
    (tmp_path / "copy").mkdir()
    one = texts(reviews(tmp_path, 8))
    copy = texts(reviews(tmp_path / "copy", 8))
    first = portion(one)
    second = portion(copy, workload="single", seed=2)
    supply = RunDatasets(
        [first, second], counter=WordCounter(), context_tokens=None
    )
    assert (
        len({s.prompt for each in (first, second) for s in supply.draw(each)}) == 8
    )
    (facts,) = supply.facts([second])
    assert (facts.rows_used, facts.source) == (
        4,
        str(tmp_path / "copy" / "reviews.csv"),
    )
    with pytest.raises(RunFailure) as raised:
        drawn(first, portion(copy, workload="single", requests=8))
    golden(str(raised.value))


def test_duplicates_follow_each_other_and_all_but_the_first_are_declared(
    tmp_path: Path,
) -> None:
    (samples,) = drawn(
        portion(texts(reviews(tmp_path, 3), duplicate=3), requests=7)
    )
    assert [s.prompt for s in samples] == [
        samples[n // 3 * 3].prompt for n in range(7)
    ]
    assert len({s.prompt for s in samples}) == 3
    assert [s.repeated_tokens for s in samples] == [0, 4, 4, 0, 4, 4, 0]


def test_a_json_field_will_do_as_well(tmp_path: Path) -> None:
    file = json_lines(
        tmp_path, [{"review": f"review{n}\n of two lines"} for n in range(4)]
    )
    (samples,) = drawn(portion(texts(file, format="JSONL")))
    assert sorted(s.prompt for s in samples) == [
        f"review{n} of two lines" for n in range(4)
    ]


PLURAL = "judge each line of these, a word a line"  # Nine words; as a tokenizer may count 26.
SINGULAR = "judge the line above, a word"
INSTRUCTION_TOKENS = {PLURAL: 26, SINGULAR: 23}


class ReviewCounter(WordCounter):
    """Counts an instruction and what stands before every prompt as the tokenizer of one experiment
    does: what is left of its printed totals is the texts'."""

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
        return [self._tokens(text) for text in texts]

    def _tokens(self, prompt: str) -> int:
        *lines, last = prompt.split("\n")
        instruction = last.removeprefix("{copy} ").lstrip("0123456789 ")
        texts = sum(len(line.split()) for line in lines)
        return texts + (instruction != last) + INSTRUCTION_TOKENS[instruction]


def lengths_of_reviews(count: int) -> list[int]:
    """Of so many texts: the first 4, 40 and 400 have as many tokens as in the printed totals."""
    sums = {4: 1010 - 26, 40: 11_220 - 26, 400: 120_006 - 26}
    found: list[int] = []
    for texts, tokens in sums.items():
        new = texts - len(found)
        rest = tokens - sum(found)
        found += [rest // new + (place < rest % new) for place in range(new)]
    return found[:count]


@pytest.fixture(scope="module")
def film_reviews(tmp_path_factory: pytest.TempPathFactory) -> DataFile:
    """Four hundred, which are not drawn in the order of the file by any seed."""
    rows = (
        " ".join([f"film{n}"] * length)
        for n, length in enumerate(lengths_of_reviews(400))
    )
    folder = tmp_path_factory.mktemp("reviews")
    return written(folder, "r.csv", "review\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("n", "packed", "single"),
    [(400, 120_006, 129_180), (40, 11_220, 12_114), (4, 1010, 1076)],
)
def test_prompt_tokens_are_those_that_were_printed_by_hand(
    film_reviews: DataFile, n: int, packed: int, single: int
) -> None:
    """In the order of the file the texts are the same in one prompt and in n: the totals differ by
    the instructions alone."""
    one = texts(film_reviews, order="File", texts_per_prompt=n, instruction=PLURAL)
    many = texts(film_reviews, order="File", instruction=SINGULAR)
    portions = (
        portion(one, requests=1),
        portion(many, requests=n, seed=2, workload="single"),
    )
    supply = RunDatasets(
        portions, counter=ReviewCounter(), context_tokens=131_072, shared=True
    )
    found = [supply.draw(each) for each in portions]
    assert [sum(s.input_tokens for s in samples) for samples in found] == [
        packed,
        single,
    ]
    assert [sum(s.output_tokens for s in samples) for samples in found] == [n, n]
    assert [
        facts.rows_used for each in portions for facts in supply.facts([each])
    ] == [n, n]


@pytest.mark.parametrize(
    ("n", "instruction", "tokens"),
    [
        pytest.param(400, PLURAL, 12_000_600, id="packed"),
        pytest.param(
            400,
            f"{{copy}} {PLURAL}",
            12_000_700,
            id="packed, a new instruction each",
        ),
        pytest.param(1, SINGULAR, 12_918_000, id="single"),
    ],
)
def test_a_hundred_copies_have_a_hundred_times_the_tokens(
    film_reviews: DataFile, n: int, instruction: str, tokens: int
) -> None:
    """The table by hand has 12,000,600 and 12,000,700 for packed ones; for single ones a token more
    in each than the instruction of its first table has."""
    data = texts(
        film_reviews,
        order="File",
        texts_per_prompt=n,
        instruction=instruction,
        duplicate=100,
    )
    whole = portion(data, requests=100 * 400 // n)
    supply = RunDatasets(
        [whole], counter=ReviewCounter(), context_tokens=131_072, shared=True
    )
    samples = supply.draw(whole)
    assert sum(s.input_tokens for s in samples) == tokens
    assert sum(s.output_tokens for s in samples) == 40_000
    assert sum(s.repeated_tokens == 0 for s in samples) == 400 // n


def test_in_the_order_of_the_file_every_stage_sends_the_first_texts(
    tmp_path: Path,
) -> None:
    data = texts(reviews(tmp_path, 12), order="File", texts_per_prompt=2)
    stages = [portion(data, requests=3, seed=seed) for seed in (1, 2)]
    first, second = drawn(*stages)
    assert first == second
    assert [line for s in first for line in s.prompt.splitlines()] == [
        f'review{n}, a "fine" film' for n in range(6)
    ]


def test_in_the_order_of_the_file_equal_texts_are_sent_and_declared(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "r.csv", "review\nfine  film\nbad film\nfine  film\n")
    (samples,) = drawn(portion(texts(file, order="File"), requests=3))
    # Spaces are tokens, and stay as they are.
    assert [s.prompt for s in samples] == ["fine  film", "bad film", "fine  film"]
    assert [s.repeated_tokens for s in samples] == [0, 0, 2]


def test_each_copy_can_end_with_its_own_instruction(tmp_path: Path) -> None:
    """What stands before the number is repeated; the rest is computed for each copy."""
    data = texts(
        reviews(tmp_path, 2), duplicate=3, instruction="{copy} judge", order="File"
    )
    (samples,) = drawn(portion(data, requests=5))
    assert [s.prompt.splitlines()[1] for s in samples] == [
        "0 judge",
        "1 judge",
        "2 judge",
        "0 judge",
        "1 judge",
    ]
    assert [s.input_tokens for s in samples] == [7] * 5
    assert [s.repeated_tokens for s in samples] == [0, 4, 4, 0, 4]


def test_a_warm_up_leaves_the_first_texts_to_the_stages(tmp_path: Path) -> None:
    data = texts(
        reviews(tmp_path, 4), order="File", texts_per_prompt=2, instruction="judge"
    )
    stage = portion(data, requests=2)
    warm_up = portion(data, requests=2, seed=3, warms_up=True)
    measured, unmeasured = drawn(stage, warm_up)
    assert not {s.prompt for s in measured} & {s.prompt for s in unmeasured}
    assert all(s.prompt.endswith("\njudge") for s in unmeasured)


def test_empty_and_repeated_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    file = written(tmp_path, "r.csv", 'review\n"a b"\n" "\n"a \n b"\n\n"c"\n')
    whole = portion(texts(file), requests=2)
    supply = RunDatasets([whole], counter=WordCounter(), context_tokens=None)
    supply.draw(whole)
    (facts,) = supply.facts([whole])
    assert (facts.rows_read, facts.rows_used, facts.rows_dropped) == (
        4,
        2,
        {"EmptyText": 1, "RepeatsEarlierRow": 1},
    )


def test_prompts_too_long_for_the_model_are_left_out(tmp_path: Path) -> None:
    file = written(
        tmp_path, "r.csv", "review\n" + "word " * 100 + "\nshort one\nshort two\n"
    )
    (samples,) = drawn(portion(texts(file), requests=2), context_tokens=50)
    assert sorted(s.prompt for s in samples) == ["short one", "short two"]


def test_too_few_texts_are_reported_in_texts(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as failure:
        drawn(portion(texts(reviews(tmp_path, 11), texts_per_prompt=3)))
    golden(str(failure.value))
    assert failure.value.reason == "DatasetTooSmall"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"text,label\na,b\n", id="column"),
        pytest.param(b"review,review\na,b\n", id="the column twice"),
        pytest.param(b"review,label\na,b\na,b,c\n", id="comma"),
        pytest.param(b'review,label\na,b\n"open,b\nc,d', id="a quote never closed"),
        pytest.param(b"review\nca\xe9\n", id="Latin-1"),
    ],
)
def test_a_broken_file_is_rejected_naming_file_line_and_column(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(RunFailure, match=r"r\.csv") as failure:
        drawn(portion(texts(written(tmp_path, "r.csv", content))))
    assert failure.value.reason == "DatasetInvalid"
    golden(failure.value.message)


def test_a_header_alone_is_a_file_too_small(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="has 0 rows") as failure:
        drawn(portion(texts(written(tmp_path, "r.csv", "review,label\n"))))
    assert failure.value.reason == "DatasetTooSmall"
