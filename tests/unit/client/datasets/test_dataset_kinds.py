"""What every dataset says of itself, and that a new kind can't leave any of it out."""

from typing import Any, ClassVar, Literal

import pytest
from benchrun_client.contract import DATASETS, DatasetFields

STATED: dict[str, Any] = {
    "is_random_text": False,
    "is_unlimited": False,
    "reads_hub": True,
    "drops_long_rows": True,
    "longest": property(lambda self: (None, 7)),
}


def new_kind(**members: Any) -> type[DatasetFields]:
    """Define a kind of dataset that nobody knows."""
    return type(
        "WebData",
        (DatasetFields,),
        {
            "__module__": __name__,
            "__annotations__": {"kind": Literal["web"]}
            | {name: ClassVar[bool] for name in members if name != "longest"},
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
