"""Conditions in CEL: what they mean is what Google's CEL says, what is refused names the place, and
nothing that anybody writes takes long."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from benchrun.api.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_STEPS,
    Environment,
    ExpressionError,
    Unknown,
    compiled,
)
from benchrun.api.row_figures import ENVIRONMENT
from cel_expr_python import cel
from hypothesis import given, settings, strategies as st

VALUES: Mapping[str, Any] = {
    "workload": "chat",
    "axis": "RequestRate",
    "load": 4.0,
    "repeats": 3,
    "metrics": {"a": 1.5, "b": 0.0, "p99.9_ttft_ms": 7.0},
}
ANY = Environment(
    variables=ENVIRONMENT.variables, figures={"metrics": lambda name: None}
)
GOOGLE = cel.NewEnv(
    variables={
        "workload": cel.Type.STRING,
        "axis": cel.Type.STRING,
        "load": cel.Type.DYN,
        "repeats": cel.Type.DYN,
        "metrics": cel.Type.DYN,
    }
)
FAILED = "Unknown"


def ours(text: str) -> bool | str:
    condition = compiled(text, ANY)
    try:
        return condition(VALUES)
    except Unknown:
        return FAILED


def googles(text: str) -> bool | str:
    found = GOOGLE.compile(text).eval(data=dict(VALUES))
    return FAILED if found.type() == cel.Type.ERROR else bool(found.value())


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "!false && true",
        "load == 4.0",
        "load > 3",
        "load < 4.0",
        "load > 4.0",
        "load <= 4.0",
        "load >= 4.0",
        "load != 4.0",
        "3 < load",
        "repeats >= 3.0",
        "load >= 4.0 && workload == 'chat'",
        'workload == "chat" || axis == "x"',
        "workload.startsWith('ch') && workload.endsWith('at') && workload.contains('ha')",
        "workload in ['rag', 'chat']",
        "repeats in []",
        "metrics.a * 2.0 > 2.9",
        "metrics['p99.9_ttft_ms'] > 4.6 && metrics[\"a\"] < 1.6",
        "metrics.a / metrics.b > 100.0",
        "metrics.b / metrics.b == metrics.b / metrics.b",
        "metrics.none > 1.0",
        "metrics.none > 1.0 || true",
        "true || metrics.none > 1.0",
        "metrics.none > 1.0 && false",
        "metrics.none > 1.0 && true",
        "has(metrics.a) && !has(metrics.none)",
        "has(metrics.none) ? metrics.none > 1.0 : load > 1.0",
        "-repeats / 2 == -1",
        "(0 - 7) / 2 == -3",
        "repeats / 0 == 1",
        "9223372036854775807 + 1 > 0",
        "double(repeats) / 2.0 == 1.5",
        "1 + 2 * 3 - 4 == 3",
        "10 - 3 - 2 == 5",
        "1e3 > .5 && 1.5e-3 < 1.0",
        "load > 1.0 == true",
        "false ? true : false ? false : true",
        "workload < 'd'",
        "true && false || true",
        "- -2 == 2",
    ],
)
def test_it_means_what_it_means_in_cel(text: str) -> None:
    assert ours(text) == googles(text)


_BOOLS = st.sampled_from(
    ["true", "false", "(load > 3.5)", "(metrics.none > 1.0)", "has(metrics.a)"]
)
_TEXTS = st.recursive(
    _BOOLS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "!="]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        inner.map(lambda text: f"!({text})"),
        st.tuples(inner, inner, inner).map(
            lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(_TEXTS)
def test_truth_and_absence_are_joined_as_in_cel(text: str) -> None:
    try:
        mine = ours(text)
    except ExpressionError as problem:
        assert "nested" in str(problem) or "operations" in str(problem)  # noqa: PT017
    else:
        assert mine == googles(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("load >", "character 7: the end instead of a value"),
        ("load > 1.0)", "character 11: ')'"),
        ("load > 'a'", "character 6: a double is compared with a string"),
        ("load", "is a double, not true or false"),
        ("lod > 1.0", "'lod' is unknown; there are workload, axis, load"),
        ("load + 1 > 2.0", "write 2.0 for 2"),
        ("!load", "needs a bool"),
        ("true ? 1 : 2.0", "one branch"),
        ("load > 1.0 # x", "'#' is not understood"),
        ("workload == 'a\\'", "is not understood"),
        ("workload.matches('(a+)+$')", "instead of one of contains"),
        ("[1,2].all(x, x > 1)", "instead of a value"),
        ("size(workload) > 1", "'size' is unknown"),
        ("metrics > 1.0", "instead of '.'"),
        ("metrics[workload] > 1.0", "the name of a figure"),
        ("metrics.p99_tft_ms > 1.0", "did you mean"),
        ("server.runingMean > 1.0", "did you mean runningMean"),
        ("has(load)", "a figure, such as"),
        ("__import__('os').system('id') == 0", "unknown"),
        ("99999999999999999999 > 1", "too large"),
        ("for > 1", "reserved"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, named: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        compiled(text, ENVIRONMENT)
    assert named in str(refused.value)


HOSTILE = {
    "long": "true || " * 10_000 + "true",
    "many operations": "||".join(["true"] * (MAX_STEPS + 2)),
    "deep brackets": "(" * (MAX_DEPTH + 1) + "true" + ")" * (MAX_DEPTH + 1),
    "deep brackets, at full length": "(" * (MAX_LENGTH - 1),
    "many negations": "!" * (MAX_LENGTH - 4) + "true",
    "many minuses": "-" * (MAX_LENGTH - 6) + "1 < 2",
    "a ladder of choices": "true?" * 50 + "true",
    "a deep list": "1 in " + "[" * 400,
    "blanks": " " * MAX_LENGTH,
    "a number of many digits": "1" * (MAX_LENGTH - 4) + " > 1",
    "letters of no alphabet": "\u202e\x00" * 100,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_the_hostile_are_refused_at_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ExpressionError):
        compiled(text, ENVIRONMENT)
    assert time.process_time() - begun < 0.1


DEAR = [
    "&&".join(["metrics.a*metrics.a>0.0"] * 9),
    "1.0" + "*9e99" * 60 + " > 1.0",
    "9223372036854775807" + "*9" * 60 + " > 1",
    "workload.contains('" + "a" * 400 + "')",
    "repeats in [" + ",".join(["1"] * 30) + "]",
    "(" * (MAX_DEPTH - 1) + "true" + ")" * (MAX_DEPTH - 1),
]


@pytest.mark.parametrize("text", DEAR, ids=range(len(DEAR)))
def test_the_dearest_that_is_taken_takes_less_than_a_millisecond(text: str) -> None:
    condition = compiled(text, ANY)
    begun = time.process_time()
    for _ in range(100):
        try:
            condition(VALUES)
        except Unknown:
            continue
    assert (time.process_time() - begun) / 100 < 1e-3


@settings(max_examples=200)
@given(
    st.text(alphabet="tr ue1.0()[]!-?:&|<>='\"lodmetrics,+*/e", max_size=MAX_LENGTH)
)
def test_no_text_does_anything_else_than_be_refused_or_answer(text: str) -> None:
    try:
        condition = compiled(text, ANY)
    except ExpressionError:
        return
    try:
        assert condition(VALUES) in (True, False)
    except Unknown:
        return
