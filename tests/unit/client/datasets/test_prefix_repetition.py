"""`prefixRepetition` data: as many beginnings as asked for, exact in length, different in every
stage."""

import pytest
from benchrun_client.contract import Api
from benchrun_client.contract.datasets import PrefixRepetitionData
from benchrun_client.datasets.random_words import (
    WordWriter,
    write_prefix_repetition,
)
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import portion
from unit.client.words import WORDS, WordCounter

DATA = PrefixRepetitionData(
    prefixes=3, prefix_tokens=20, suffix_tokens=10, output_tokens=5
)
COUNTER = WordCounter(special=1, template=6)


def write(
    writer: WordWriter,
    *,
    requests: int = 12,
    data: PrefixRepetitionData = DATA,
    **changes: object,
) -> tuple[PromptRequest, ...]:
    return write_prefix_repetition(
        writer, portion(data, requests=requests, **changes), data
    )


def writer() -> WordWriter:
    return WordWriter(words=WORDS, counter=COUNTER)


def beginnings(samples: tuple[PromptRequest, ...], words: int) -> list[str]:
    return [" ".join(s.prompt.split()[:words]) for s in samples]


@pytest.mark.parametrize(("api", "words"), [("Completions", 19), ("Chat", 14)])
def test_prefixes_are_taken_in_turns_and_all_else_differs(
    api: Api, words: int
) -> None:
    samples = write(writer(), api=api)
    found = beginnings(samples, words)
    assert found == found[:3] * 4
    assert len(set(found)) == 3
    assert len(set(beginnings(samples, words + 1))) == 12
    assert {*COUNTER.count([s.prompt for s in samples], api=api)} == {30}
    assert {(s.input_tokens, s.output_tokens) for s in samples} == {(30, 5)}


def test_a_prefix_is_declared_from_its_second_request_on() -> None:
    assert [s.repeated_tokens for s in write(writer(), requests=5)] == [
        0,
        0,
        0,
        19,
        19,
    ]


def test_fewer_requests_than_prefixes_share_nothing() -> None:
    samples = write(writer(), requests=2)
    assert {s.repeated_tokens for s in samples} == {0}
    assert len(set(beginnings(samples, 1))) == 2


def test_stages_share_nothing() -> None:
    one_run = writer()
    first = write(one_run, seed=1)
    second = write(one_run, seed=2)
    assert not set(beginnings(first, 8)) & set(beginnings(second, 8))
    assert write(writer(), seed=1) == first


def test_a_prefix_that_the_template_fills_is_rejected() -> None:
    tight = DATA.model_copy(update={"prefix_tokens": 6})
    with pytest.raises(
        RunFailure, match="prefixTokens 6 leaves no room"
    ) as failure:
        write(writer(), data=tight, api="Chat")
    assert failure.value.reason == "InvalidPlan"
