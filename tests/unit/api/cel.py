"""As much of CEL as the rules of our definitions use, so that they can be put to many specs without an API server.

Strict where the API server is: a field that is not there is an error, and so are a whole number and a decimal in one sum.
`tests/cluster/test_validation.py` puts the same rules to the API server itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

Scope = Mapping[str, Any]
Expression = Callable[[Scope], Any]

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|'[^']*'|[A-Za-z_]\w*|\|\||&&|[=!<>]=|[-+*<>!?:.,()\[\]])")
_LEVELS: tuple[Mapping[str, Callable[[Any, Any], Any]], ...] = (
    {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
     "in": lambda one, many: one in many},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul},
)  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"size": len, "double": float, "int": int}
_METHODS: Mapping[str, Callable[..., Any]] = {
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "size": len,
    "sum": sum,
    "max": max,
    "split": str.split,
    "indexOf": lambda items, item: items.index(item) if item in items else -1,
    "format": lambda text, values: text % tuple(values),
}
_MACROS: Mapping[str, Callable[[list[Any], list[Any]], Any]] = {
    "map": lambda items, found: found,
    "filter": lambda items, found: [item for item, keep in zip(items, found, strict=True) if keep],
    "exists_one": lambda items, found: sum(found) == 1,
}


class CelError(ValueError):
    """What an API server would call a failed rule, or refuse to compile."""


def compiled(text: str) -> Expression:
    """The expression as a function of its variables. Raises CelError."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text):
        raise CelError(f"not understood: {text}")
    parser = _Parser(tokens)
    found = parser.ternary()
    if parser.ahead:
        raise CelError(f"{parser.ahead!r} is left over in {text}")
    return found


class _Parser:
    """One pass over the tokens, a method a level of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def ahead(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.ahead
        if expected and token not in expected:
            raise CelError(f"{token!r} where {' or '.join(expected)} is due")
        self._at += 1
        return token

    def ternary(self) -> Expression:
        test = self.either()
        if self.ahead != "?":
            return test
        self.take("?")
        yes = self.either()
        self.take(":")
        no = self.ternary()
        return lambda scope: yes(scope) if _truth(test(scope)) else no(scope)

    def either(self) -> Expression:
        return self._logic("||", self.both, decides=True)

    def both(self) -> Expression:
        return self._logic("&&", lambda: self.binary(0), decides=False)

    def _logic(self, sign: str, inner: Callable[[], Expression], *, decides: bool) -> Expression:
        parts = [inner()]
        while self.ahead == sign:
            self.take(sign)
            parts.append(inner())
        return (
            parts[0] if len(parts) == 1 else lambda scope: _decided([partial(part, scope) for part in parts], decides)
        )

    def binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self.unary()
        found = self.binary(level + 1)
        while self.ahead in _LEVELS[level]:
            found = _applied(self.take(), _LEVELS[level], found, self.binary(level + 1))
        return found

    def unary(self) -> Expression:
        if self.ahead != "!":
            return self.member()
        self.take("!")
        inner = self.unary()
        return lambda scope: not _truth(inner(scope))

    def member(self) -> Expression:
        found = self.primary()
        while self.ahead in (".", "["):
            found = self._index(found) if self.take() == "[" else self._dotted(found)
        return found

    def _index(self, of: Expression) -> Expression:
        place = self.ternary()
        self.take("]")
        return lambda scope: of(scope)[place(scope)]

    def _dotted(self, of: Expression) -> Expression:
        name = self.take()
        if self.ahead != "(":
            return lambda scope: _field(of(scope), name)
        self.take("(")
        if name in ("all", "exists", *_MACROS):
            return self._macro(name, of)
        arguments = self._until(")")
        method = _METHODS[name]
        return lambda scope: method(of(scope), *(argument(scope) for argument in arguments))

    def _macro(self, name: str, of: Expression) -> Expression:
        variable = self.take()
        self.take(",")
        body = self.ternary()
        self.take(")")

        def run(scope: Scope) -> Any:
            items = list(of(scope))
            each = [partial(body, {**scope, variable: item}) for item in items]
            if name in ("all", "exists"):
                return _decided(each, name == "exists")
            return _MACROS[name](items, [one() for one in each])

        return run

    def primary(self) -> Expression:
        token = self.take()
        if not token:
            raise CelError("nothing where a value is due")
        if token == "(":
            inner = self.ternary()
            self.take(")")
            return inner
        if token == "[":
            items = self._until("]")
            return lambda scope: [item(scope) for item in items]
        if token[0] == "'":
            return lambda scope: token[1:-1]
        if token[0].isdigit():
            return lambda scope: float(token) if "." in token else int(token)
        if token in ("true", "false"):
            return lambda scope: token == "true"
        if self.ahead != "(":
            return lambda scope: _field(scope, token)
        self.take("(")
        if token == "has":
            return self._has()
        (argument,) = self._until(")")
        return lambda scope: _FUNCTIONS[token](argument(scope))

    def _has(self) -> Expression:
        of, names = self.primary(), [self.take(".") and self.take()]
        while self.ahead == ".":
            names.append(self.take(".") and self.take())
        self.take(")")

        def run(scope: Scope) -> bool:
            at = of(scope)
            for name in names[:-1]:
                at = _field(at, name)
            return names[-1] in at

        return run

    def _until(self, closing: str) -> list[Expression]:
        found: list[Expression] = []
        while self.ahead != closing:
            found.append(self.ternary())
            if self.ahead != closing:
                self.take(",")
        self.take(closing)
        return found


def _field(of: Any, name: str) -> Any:
    if not isinstance(of, Mapping) or name not in of:
        raise CelError(f"no such key: {name}")
    return of[name]


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is neither true nor false")
    return value


def _applied(
    sign: str, signs: Mapping[str, Callable[[Any, Any], Any]], left: Expression, right: Expression
) -> Expression:
    def run(scope: Scope) -> Any:
        one, other = left(scope), right(scope)
        if sign != "in" and {type(one), type(other)} == {int, float}:
            raise CelError(f"no such overload: {one!r} {sign} {other!r}")
        return signs[sign](one, other)

    return run


def _decided(parts: Sequence[Callable[[], Any]], decides: bool) -> bool:
    """As CEL has it: a part that decides does so even where another fails."""
    problem: CelError | None = None
    for part in parts:
        try:
            if _truth(part()) is decides:
                return decides
        except CelError as error:
            problem = error
    if problem is not None:
        raise problem
    return not decides
