"""Text to tokens and back."""

import json
from pathlib import Path

from benchrun_simulator.tokens import ByteTokenizer, OutputText, load_tokenizer
from hypothesis import given, strategies as st


@given(st.text())
def test_bytes_come_back_as_the_text_they_were(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.integers(0, 127), max_size=50))
def test_trimming_by_tokens_gives_exactly_that_many(tokens: list[int]) -> None:
    tokenizer = ByteTokenizer()
    assert len(tokenizer.encode(tokenizer.decode(tokens))) == len(tokens)


def test_a_folder_without_a_tokenizer_counts_bytes(tmp_path: Path) -> None:
    assert isinstance(load_tokenizer(tmp_path), ByteTokenizer)


def test_the_same_prompt_gets_the_same_output_and_all_of_it_round_trips() -> None:
    tokenizer = ByteTokenizer()
    output = OutputText(tokenizer.output_words())
    planned = output.plan([1, 2, 3], 500)
    assert planned == output.plan([1, 2, 3], 500)
    assert len(planned) == 500
    assert tokenizer.encode(output.text(planned)) == planned


def test_a_longer_output_begins_with_the_shorter_one() -> None:
    output = OutputText(ByteTokenizer().output_words())
    assert output.plan([5], 300)[:40] == output.plan([5], 40)


def test_the_prepared_json_is_the_text() -> None:
    output = OutputText([(1, ' a"b'), (2, "\n")])
    for tokens in ([1], [2], [1, 2, 1], []):
        assert json.loads(output.json(tokens)) == output.text(tokens)
