"""Equal explanations are said once, with the range of their numbers and no other change."""

import pytest
from benchrun.report.said_once import ExplainedRow, said_once, with_ranges


def said(
    load_point: str, sentence: str, word: str = "Noise", **evidence: float | str
) -> ExplainedRow:
    return ExplainedRow(load_point, "true run", word, sentence, evidence)


@pytest.mark.parametrize(
    ("sentences", "one"),
    [
        (["4 of 25 waited"], "4 of 25 waited"),
        (["4 of 25 waited", "13 of 25 waited"], "4 to 13 of 25 waited"),
        (["off by (0.5 %)", "off by (-29.6 %)"], "off by (-29.6 to 0.5 %)"),
        (["9.5 ms", "10 ms", "2 ms"], "2 to 10 ms"),
        (["it is 5.", "it is 7."], "it is 5 to 7."),
    ],
)
def test_numbers_become_ranges(sentences: list[str], one: str) -> None:
    assert with_ranges(sentences) == one


def test_what_differs_only_in_numbers_is_said_once_of_all_its_load_points() -> None:
    found = said_once(
        [
            said("a", "mean TTFT is 3 ms", figure="TTFT", ms=3.0),
            said("b", "mean E2EL is 4 ms", figure="E2EL", ms=4.0),
            said("c", "mean TTFT is 5 ms", figure="TTFT", ms=5.0),
        ]
    )
    assert [each[:4] for each in found] == [
        ("a, c", "true run", "Noise", "mean TTFT is 3 to 5 ms"),
        ("b", "true run", "Noise", "mean E2EL is 4 ms"),
    ]


@pytest.mark.parametrize(
    "two",
    [
        pytest.param(
            (said("a", "at 3", n=3.0), said("b", "at 3", "Unknown", n=3.0)),
            id="another answer",
        ),
        pytest.param(
            (
                said("a", "use repeat 2", trueRepeats="2"),
                said("b", "use repeat 3", trueRepeats="3"),
            ),
            id="a number that is a name",
        ),
        pytest.param(
            (said("a", "at 3"), said("b", "at 4")), id="evidence that was cut"
        ),
        pytest.param(
            (
                said("a", "before, chat/rate=2 sent 8", n=8.0),
                said("b", "before, chat/rate=4 sent 8", n=8.0),
            ),
            id="a load point's name",
        ),
        pytest.param(
            (
                said("a", "running goes from 2 to 8", n=8.0),
                said("b", "running goes from 3 to 9", n=9.0),
            ),
            id="a range",
        ),
    ],
)
def test_what_differs_in_words_is_said_each(
    two: tuple[ExplainedRow, ExplainedRow],
) -> None:
    assert said_once(two) == list(two)


def test_equal_sentences_need_no_evidence() -> None:
    (found,) = said_once([said("a", "at 3"), said("b", "at 3"), said("b", "at 3")])
    assert (found.load_point, found.sentence) == ("a, b", "at 3")
