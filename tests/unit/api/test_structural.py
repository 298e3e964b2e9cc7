"""From a model to a structural schema: what is translated, and what is refused."""

from typing import Annotated, Any, Literal

import pytest
from benchrun.api import Rule, SpecModel, Unique
from benchrun.api.crd import Schema, structural_schema
from pydantic import BaseModel, Field


class Inner(SpecModel):
    """What it is."""

    size: int = Field(default=3, description="How large.")
    label: str | None = Field(default=None, description="Its name.")


class Bare(SpecModel):
    """Nothing to fill in."""

    label: str | None = Field(default=None, description="Its name.")


def field(annotation: Any, *, defaults: bool = True, **extra: Any) -> Schema:
    """Schema of a field `x` of that type."""
    model: type[BaseModel] = type(
        "M",
        (SpecModel,),
        {"__annotations__": {"x": annotation}, "x": Field(**extra)},
    )
    found: Schema = structural_schema(model, defaults=defaults)["properties"]["x"]
    return found


def test_references_become_what_they_refer_to() -> None:
    assert field(Inner, description="Where.") == {
        "description": "Where. What it is.",
        "type": "object",
        "properties": {
            "size": {"description": "How large.", "type": "integer", "default": 3},
            "label": {"description": "Its name.", "type": "string"},
        },
    }


def test_an_optional_field_is_simply_not_required() -> None:
    assert field(int | None, default=None, description="N.") == {
        "description": "N.",
        "type": "integer",
    }


def test_a_value_that_may_be_null_says_so() -> None:
    assert field(dict[str, float | None], description="M.")[
        "additionalProperties"
    ] == {
        "type": "number",
        "nullable": True,
    }


def test_a_default_made_by_a_factory_is_as_short_as_one_would_write_it() -> None:
    assert field(Inner, default_factory=lambda: Inner(label="a"))["default"] == {
        "label": "a"
    }


def test_an_empty_default_stays_where_something_within_is_filled_in() -> None:
    assert field(Inner, default_factory=Inner)["default"] == {}


@pytest.mark.parametrize("annotation", [Bare, list[int], dict[str, int]])
def test_an_empty_default_that_fills_nothing_in_is_left_out(
    annotation: type,
) -> None:
    assert "default" not in field(annotation, default_factory=annotation)


def test_defaults_can_be_left_out_altogether() -> None:
    schema = field(Inner, default_factory=Inner, defaults=False)
    assert "default" not in schema
    assert "default" not in schema["properties"]["size"]


def test_integer_or_string_keeps_the_bounds_of_both() -> None:
    assert field(
        Annotated[int, Field(ge=0)] | Annotated[str, Field(max_length=9)],
        description="Q.",
    ) == {
        "description": "Q.",
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maxLength": 9,
    }


def test_rules_of_a_type_and_of_an_entry_stand_where_they_hold() -> None:
    even = Rule(cel="self % 2 == 0", message="must be even")
    schema = field(
        Annotated[list[Annotated[int, even]], Unique()], description="L."
    )
    assert schema["x-kubernetes-list-type"] == "set"
    assert schema["items"]["x-kubernetes-validations"] == [
        {"rule": "self % 2 == 0", "message": "must be even"}
    ]


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        pytest.param(int | bool, "union", id="union"),
        pytest.param(Literal["a"], "const", id="const"),
        pytest.param(
            Annotated[int, Field(gt=0)], "exclusiveMinimum", id="exclusive-bound"
        ),
        pytest.param(tuple[int, str], "prefixItems", id="tuple"),
        pytest.param(dict[str, Any], "map", id="map-of-anything"),
    ],
)
def test_what_has_no_place_is_rejected_by_name(annotation: Any, word: str) -> None:
    with pytest.raises(ValueError, match=rf"M\.x.*{word}"):
        field(annotation, description="X.")
