"""What requests say beside prompt and sampling: the body, the adapters, and the answers' schema."""

import json
import time
from collections import Counter
from typing import Any

import pytest
from benchrun_client.answer_schema import MAX_CHECKED, checked, sampled
from benchrun_client.contract import Adapter, AnswerCheck, RequestFields, json_text
from benchrun_client.contract.sessions import TurnPlace

SCHEMA = {
    "type": "object",
    "required": ["age"],
    "properties": {"age": {"type": "integer"}},
}


def test_a_body_has_only_what_is_set() -> None:
    assert RequestFields().body() == {}
    fields = RequestFields(
        thinking=False,
        template_arguments=json_text({"effort": "low"}),
        answer_schema=json_text(SCHEMA),
        tools=json_text([{"type": "function"}]),
        priority=3,
        extra=json_text({"seed": 7}),
    )
    assert fields.body() == {
        "chat_template_kwargs": {
            "enable_thinking": False,
            "thinking": False,
            "effort": "low",
        },
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
        "tools": [{"type": "function"}],
        "priority": 3,
        "seed": 7,
    }


def test_fields_survive_as_json() -> None:
    fields = RequestFields(thinking=True, adapters=(Adapter(name="a", percent=5),))
    text = fields.model_dump_json()
    assert RequestFields.model_validate_json(text) == fields
    assert "tools" not in text


@pytest.mark.parametrize("requests", [1, 7, 10, 1000])
def test_adapters_get_their_shares_as_exactly_as_whole_requests_allow(
    requests: int,
) -> None:
    shares = {"a": 33, "b": 50, "base": 17}
    adapters = tuple(Adapter(name=n, percent=shares[n]) for n in ("a", "b"))
    fields = RequestFields(adapters=adapters)
    models = fields.models("base", requests, seed=1)
    assert len(models) == requests
    counts = Counter(models)
    for name, percent in shares.items():
        assert abs(counts[name] - requests * percent / 100) < 1
    assert models == fields.models("base", requests, seed=1)


def test_another_seed_orders_adapters_otherwise() -> None:
    fields = RequestFields(adapters=(Adapter(name="a", percent=50),))
    orders = {tuple(fields.models("base", 40, seed=seed)) for seed in range(5)}
    assert len(orders) == 5


def test_all_turns_of_a_session_are_for_one_model() -> None:
    fields = RequestFields(adapters=(Adapter(name="a", percent=50),))
    places = [TurnPlace(n % 10, 1 + n // 10, (), 0.0) for n in range(50)]
    models = fields.models_of_sessions("base", places, seed=1)
    assert list(models) == list(models[:10]) * 5
    assert Counter(models[:10]) == {"a": 5, "base": 5}


def test_without_adapters_every_request_is_for_the_model() -> None:
    assert tuple(RequestFields().models("base", 3, seed=1)) == ("base",) * 3


# ---- the answers


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((), AnswerCheck(checked=0, broken=0)),
        (('{"age": 1}',), AnswerCheck(checked=1, broken=0)),
        (
            ('{"age": 1}', '{"age": "x"}', "{}"),
            AnswerCheck(checked=3, broken=2, where="$.age: type"),
        ),
        (
            ("Sure! {",),
            AnswerCheck(checked=1, broken=1, where="the whole: it is not JSON"),
        ),
        (
            ("[" * 5000,),
            AnswerCheck(checked=1, broken=1, where="the whole: it is not JSON"),
        ),
    ],
)
def test_answers_are_checked_without_telling_their_words(
    answers: tuple[str, ...], found: AnswerCheck
) -> None:
    assert checked(answers, json_text(SCHEMA)) == found


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": 5}, id="no schema"),
        pytest.param({"$ref": "http://localhost:1/x.json"}, id="elsewhere"),
        pytest.param({"$ref": "#/nowhere"}, id="nowhere"),
    ],
)
def test_a_schema_that_cannot_be_read_checks_nothing(
    schema: dict[str, object],
) -> None:
    assert checked(('{"age": 1}',), json_text(schema)) is None


EVIL = "^(a+)+$"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": EVIL},
        {"patternProperties": {EVIL: {}}, "additionalProperties": False},
        {"patternProperties": {EVIL: {}}, "unevaluatedProperties": False},
    ],
)
def test_an_expression_that_takes_for_ever_is_not_tried(
    schema: dict[str, Any],
) -> None:
    long = "a" * 60 + "!"
    texts = json.dumps(long), json.dumps({long: 1})
    found = checked(texts, json_text(schema))
    assert found == AnswerCheck(checked=2, broken=0)


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema whose check takes twice as long with each level."""
    names = [f"#/$defs/{n}" for n in range(levels + 1)]
    defs: dict[str, Any] = {
        str(n): {"allOf": [{"$ref": names[n + 1]}] * 2} for n in range(levels)
    }
    return {"$ref": names[0], "$defs": defs | {str(levels): {"type": "object"}}}


@pytest.mark.parametrize("levels", [200, 1000])
def test_a_schema_too_deep_for_the_library_checks_nothing(levels: int) -> None:
    text = '{"properties":{"a":' * levels + "{}" + "}}" * levels
    assert checked(("{}",), text) is None


def test_a_check_ends_after_its_time_with_what_it_has() -> None:
    # The first answer is broken at once; the second takes 2 to the power of 40 steps.
    schema = {"type": "object", **doubling(40)}
    began = time.process_time()
    found = checked(("[]", "{}", "[]"), json_text(schema), seconds=0.2)
    assert found == AnswerCheck(checked=1, broken=1, where="$: type")
    assert checked(("{}",), json_text(schema), seconds=0.2) is None
    assert time.process_time() - began < 5


def test_entries_that_must_differ_are_compared_once_each() -> None:
    schema = json_text({"type": "array", "uniqueItems": True})
    entries: list[Any] = [{"a": n} for n in range(2500)]
    began = time.process_time()
    found = checked((json.dumps(entries), json.dumps([*entries, {"a": 7}])), schema)
    assert found == AnswerCheck(checked=2, broken=1, where="$: uniqueItems")
    assert time.process_time() - began < 2


def test_an_answer_that_cannot_be_checked_hides_no_other() -> None:
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"type": "integer"},
        ]
    }
    nested = '{"a":' * 400 + "1" + "}" * 400
    found = checked((nested, '"text"', "1"), json_text(schema))
    assert found == AnswerCheck(checked=2, broken=1, where="$: anyOf")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity"])
def test_words_that_only_python_reads_are_not_json(text: str) -> None:
    where = "the whole: it is not JSON"
    found = AnswerCheck(checked=1, broken=1, where=where)
    assert checked((text,), "{}") == found


def test_only_answers_that_the_model_ended_are_a_sample() -> None:
    texts = ["a", "b", "c", "x" * 40_000]
    found = sampled(texts, [True, False, True, True], [True, True, False, True])
    assert found == ("a",)


def test_a_sample_is_bounded_and_spread() -> None:
    texts = [str(n) for n in range(1000)]
    found = sampled(texts, [True] * 1000, [True] * 1000)
    assert len(found) == MAX_CHECKED
    assert (found[0], found[-1]) == ("0", "999")
    assert len(set(found)) == MAX_CHECKED
