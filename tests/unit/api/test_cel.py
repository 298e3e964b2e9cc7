"""The reader of CEL that these tests lean on: what it computes, and where it is as strict as the API server."""

from __future__ import annotations

from typing import Any

import pytest
from unit.api.cel import CelError, compiled

SELF: dict[str, Any] = {
    "n": 3,
    "half": 0.5,
    "word": "a,b",
    "list": [1, 2, 3],
    "none": [],
    "on": True,
    "inner": {"x": 1},
    "rows": [{"k": "a", "v": [1]}, {"k": "b"}],
}


def value(text: str) -> Any:
    return compiled(text)({"self": SELF})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("1 + 1 == 2", True),
        ("1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2", True),
        ("false || false && true", False),
        ("true || false && false", True),
        ("!false && true", True),
        ("!(true && false)", True),
        ("true ? 1 : 2", 1),
        ("false ? 1 : true ? 2 : 3", 2),
        ("'a' in ['a', 'b']", True),
        ("'it is 1 + 1'", "it is 1 + 1"),
        ("has(self.n) && !has(self.m)", True),
        ("has(self.inner.x) && !has(self.inner.y)", True),
        ("self.inner.x + self.list[1]", 3),
        ("size(self.list) == self.list.size()", True),
        ("double(self.n) * self.half", 1.5),
        ("double('inf') > 1.0", True),
        ("int(2.9)", 2),
        ("self.word.matches('^[a-z],b$')", True),
        ("self.word.matches('^b')", False),
        ("self.word.split(',').indexOf('b')", 1),
        ("self.word.split(',').indexOf('c')", -1),
        ("self.list.sum()", 6),
        ("self.none.sum()", 0),
        ("self.list.max()", 3),
        ("self.list.all(x, x > 0)", True),
        ("self.none.all(x, x > 0)", True),
        ("self.list.exists(x, x == 2)", True),
        ("self.none.exists(x, true)", False),
        ("self.list.exists_one(x, x > 1)", False),
        ("self.list.exists_one(x, x > 2)", True),
        ("self.list.filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("self.inner.all(k, k == 'x')", True),
        ("self.rows.exists(r, self.rows.all(s, s.k == r.k || s.k == 'b'))", True),
        ("'%d of %s'.format([self.n, self.word])", "3 of a,b"),
    ],
)
def test_value(text: str, expected: Any) -> None:
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "text",
    [
        "self.m",
        "self.n.x",
        "other",
        "self.n == 3.0",
        "self.n * self.half",
        "self.half <= 1",
        "self.n ? 1 : 2",
        "!self.word",
        "self.n && true",
        "self.rows.all(r, size(r.v) == 1)",
        "false || self.m",
        "true && self.m",
    ],
)
def test_what_the_api_server_would_not_evaluate_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.m == 1 || true", True),
        ("true || self.m == 1", True),
        ("self.m == 1 && false", False),
        ("self.rows.exists(r, size(r.v) == 1)", True),
        ("self.rows.all(r, r.k == 'b' && size(r.v) == 2)", False),
    ],
)
def test_an_error_does_not_matter_where_another_part_decides(text: str, expected: bool) -> None:
    assert value(text) is expected


@pytest.mark.parametrize(
    "text", ["1 +", "(1", "1 2", "a ? b", "[1", "has(self", "self.list.all(x)", "1 ~ 2", '"double"']
)
def test_what_is_no_expression_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        compiled(text)
