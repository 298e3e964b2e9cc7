"""What every dataset says of itself, and that a new kind can't leave any of it out."""

from typing import Any, ClassVar, Literal

import pytest
from benchrun_client.contract import DATASETS, DatasetFields
from benchrun_client.contract.datasets import AgentData, RandomData
from benchrun_client.datasets.random_words import WRITTEN_KINDS
from benchrun_client.datasets.row_pools import ROW_KINDS
from benchrun_client.datasets.run_datasets import is_drawn, refuse_unregistered
from pydantic import ValidationError

STATED: dict[str, Any] = {
    "is_random_text": False,
    "is_unlimited": False,
    "reads_hub": True,
    "drops_long_rows": True,
    "is_mixable": False,
    "longest": property(lambda self: (None, 7)),
}


PROPERTIES = ("longest", "sends_again")


def new_kind(**members: Any) -> type[DatasetFields]:
    """Define a kind of dataset that nobody knows."""
    return type(
        "WebData",
        (DatasetFields,),
        {
            "__module__": __name__,
            "__annotations__": {"kind": Literal["web"]}
            | {name: ClassVar[bool] for name in members if name not in PROPERTIES},
            "kind": "web",
            **members,
        },
    )


def test_a_new_kind_that_states_everything_is_one() -> None:
    data = new_kind(**STATED)(kind="web")
    assert (data.longest, data.reads_hub, data.rows_per_prompt) == (
        (None, 7),
        True,
        1,
    )


@pytest.mark.parametrize("missing", STATED)
def test_a_new_kind_that_leaves_something_out_is_refused_by_name(
    missing: str,
) -> None:
    members = {name: value for name, value in STATED.items() if name != missing}
    with pytest.raises(TypeError, match=rf"WebData does not state {missing}$"):
        new_kind(**members)


def test_random_words_are_made_up_without_end_or_follow_a_trace() -> None:
    kinds = {data.model_fields["kind"].default: data for data in DATASETS}
    assert {name for name, data in kinds.items() if data.is_random_text} == {
        "random",
        "prefixRepetition",
        "timedTrace",
        "sessions",
    }
    assert {name for name, data in kinds.items() if data.is_unlimited} == {
        "random",
        "prefixRepetition",
    }
    assert {name for name, data in kinds.items() if data.reads_hub} == {
        "huggingFace"
    }
    assert {name for name, data in kinds.items() if not data.drops_long_rows} == {
        "random",
        "prefixRepetition",
        "agent",
    }


def test_a_new_kind_without_a_source_of_requests_is_refused_by_name() -> None:
    stray = new_kind(**STATED)
    with pytest.raises(TypeError, match=r"WebData .* ROW_KINDS.* it is in none$"):
        refuse_unregistered((*DATASETS, stray))


def test_a_kind_with_two_sources_of_requests_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    custom = next(data for data in DATASETS if data in ROW_KINDS)
    random = next(data for data in DATASETS if data in WRITTEN_KINDS)
    monkeypatch.setitem(ROW_KINDS, random, ROW_KINDS[custom])
    with pytest.raises(TypeError, match=r"in ROW_KINDS and WRITTEN_KINDS$"):
        refuse_unregistered(DATASETS)


def test_exactly_what_is_written_of_random_words_is_not_read_before_the_server() -> (
    None
):
    assert {data for data in DATASETS if data.is_random_text} == set(WRITTEN_KINDS)
    assert [is_drawn(data) for data in (RandomData(), AgentData())] == [False, True]


def test_what_is_made_up_without_end_has_a_longest_prompt_and_answer() -> None:
    kinds = {data.model_fields["kind"].default: data for data in DATASETS}
    examples = {
        "random": {},
        "prefixRepetition": {"prefixes": 1, "prefix_tokens": 5, "suffix_tokens": 3},
    }
    assert {k for k, data in kinds.items() if data.is_unlimited} == set(examples)
    for name, fields in examples.items():
        assert None not in kinds[name].model_validate(fields).longest


@pytest.mark.parametrize(
    "half",
    [
        {"sends_again": property(lambda self: True)},
        {"sends_again_in_spec": "has(self.seed)"},
    ],
)
def test_what_is_sent_again_is_so_for_the_api_server_too(
    half: dict[str, Any],
) -> None:
    """A rule of the spec asks for it, and would let a dataset pass that says it in Python alone."""
    with pytest.raises(
        TypeError, match=r"both sends_again and sends_again_in_spec$"
    ):
        new_kind(**STATED, **half)


def test_a_length_is_from_one_to_ten_million_tokens() -> None:
    for tokens in (1, 10_000_000):
        assert RandomData(input_tokens=tokens).longest[0] == tokens
    for tokens in (0, 10_000_001):
        with pytest.raises(ValidationError):
            RandomData(input_tokens=tokens)
