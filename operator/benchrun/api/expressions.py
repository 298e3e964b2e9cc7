"""CEL for conditions over figures: compiled and checked at once, evaluated in bounded time.

This is the part of the Common Expression Language that looks at single values: literals, variables,
`has`, arithmetic, comparisons, `in` a list of literals, `&&`, `||`, `!`, `?:` and tests of texts.
Nothing in it repeats: there are no macros over lists, no regular expressions and no functions that
make a longer value. So an expression of `MAX_LENGTH` characters and `MAX_STEPS` operations takes
microseconds, whoever wrote it. Types are known before a value is: a wrong one is refused when the
expression is compiled. Tests compare every answer with Google's CEL.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

MAX_LENGTH = 500
MAX_STEPS = 64
MAX_DEPTH = 16

Type = Literal["bool", "int", "double", "string"]
Value = bool | int | float | str
Figures = Mapping[str, float | None]
Values = Mapping[str, Value | Figures]
"""What an expression is evaluated over: variables, and figures by name, where None is absent."""


class ExpressionError(ValueError):
    """An expression can't be compiled; the text says where and why."""


class Unknown(ValueError):
    """An expression has no value here; the text says what is missing."""


class Environment(NamedTuple):
    """The names that an expression may use."""

    variables: Mapping[str, Type]
    figures: Mapping[str, Callable[[str], str | None]]
    """Maps of figures. The function says what is wrong with the name of one, None if nothing is."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled condition."""

    text: str
    figures: frozenset[
        tuple[str, str]
    ]  # The figures in it, each with its map's name.
    _evaluate: Callable[[Values], Value]

    def __call__(self, values: Values) -> bool:
        """Return whether the condition holds. Raises Unknown where a figure is absent."""
        return self._evaluate(values) is True


def compiled(text: str, environment: Environment) -> Expression:
    """Compile a condition. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"must have at most {MAX_LENGTH} characters")
    parser = _Parser(_tokens(text), environment)
    condition = parser.condition()
    return Expression(text, frozenset(parser.figures), condition)


# ---- Words


class _Token(NamedTuple):
    kind: str  # A group of `_TOKEN`, or "end".
    text: str
    at: int


_TOKEN = re.compile(
    r"\s*(?:(?P<double>(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<int>[0-9]+)"
    r"|(?P<string>'[^'\\\n]*'|\"[^\"\\\n]*\")"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>&&|\|\||[=!<>]=|[-+*/!<>?:.,()\[\]]))"
)
_LARGEST = 2**63 - 1
_RESERVED = frozenset(
    (
        *(
            "as",
            "break",
            "const",
            "continue",
            "else",
            "for",
            "function",
            "if",
            "import",
        ),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise _error(start, f"{text[start]!r} is not understood")
        kind = match.lastgroup
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


def _error(at: int, why: str) -> ExpressionError:
    return ExpressionError(f"at character {at + 1}: {why}")


# ---- Grammar

_Evaluate = Callable[[Values], Value]


class _Node(NamedTuple):
    type: Type
    evaluate: _Evaluate


_COMPARE: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
}
_NUMBERS = ("int", "double")


class _Parser:
    """Reads tokens once, from left to right, and makes functions of them."""

    def __init__(self, tokens: list[_Token], environment: Environment) -> None:
        self._tokens = tokens
        self._place = 0
        self._steps = 0
        self._depth = 0
        self._environment = environment
        self.figures: set[tuple[str, str]] = set()

    def condition(self) -> _Evaluate:
        if self._next.kind == "end":
            raise ExpressionError("is empty: leave it out, or write a condition")
        node = self._choice()
        if self._next.kind != "end":
            raise self._unexpected("the end")
        if node.type != "bool":
            raise ExpressionError(
                f"is a {node.type}, not true or false: compare it with something"
            )
        return node.evaluate

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _taken(self, *texts: str) -> _Token | None:
        """Take the next token if it is one of these signs or words."""
        token = self._next
        if token.kind not in ("sign", "name") or token.text not in texts:
            return None
        self._place += 1
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _error(token.at, f"more than {MAX_STEPS} operations")
        return token

    def _wanted(self, text: str) -> None:
        if self._taken(text) is None:
            raise self._unexpected(repr(text))

    def _unexpected(self, wanted: str) -> ExpressionError:
        token = self._next
        shown = repr(token.text) if token.text else "the end"
        return _error(token.at, f"{shown} instead of {wanted}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _error(self._next.at, f"nested more than {MAX_DEPTH} levels deep")

    def _choice(self) -> _Node:
        self._deeper()
        node = self._either()
        if question := self._taken("?"):
            _need(question, node, "bool")
            yes = self._either()
            self._wanted(":")
            no = self._choice()
            if yes.type != no.type:
                raise _error(
                    question.at,
                    f"one branch of ? is a {yes.type}, the other a {no.type}",
                )
            node = _Node(
                yes.type, _chosen(node.evaluate, yes.evaluate, no.evaluate)
            )
        self._depth -= 1
        return node

    def _either(self) -> _Node:
        node = self._both()
        while token := self._taken("||"):
            node = _joined(token, node, self._both(), decisive=True)
        return node

    def _both(self) -> _Node:
        node = self._relation()
        while token := self._taken("&&"):
            node = _joined(token, node, self._relation(), decisive=False)
        return node

    def _relation(self) -> _Node:
        node = self._sum()
        while token := self._taken(*_COMPARE, "in"):
            node = (
                self._among(token, node)
                if token.text == "in"
                else _compared(token, node, self._sum())
            )
        return node

    def _among(self, token: _Token, node: _Node) -> _Node:
        """Read the list on the right of `in`, whose entries are of the type on the left."""
        self._wanted("[")
        equal: list[_Evaluate] = []
        while not self._taken("]"):
            if equal:
                self._wanted(",")
            _need(token, entry := self._unary(), node.type)
            equal.append(entry.evaluate)
        one = node.evaluate

        def found(values: Values) -> bool:
            return one(values) in [each(values) for each in equal]

        return _Node("bool", found)

    def _sum(self) -> _Node:
        node = self._product()
        while token := self._taken("+", "-"):
            node = _calculated(token, node, self._product())
        return node

    def _product(self) -> _Node:
        node = self._unary()
        while token := self._taken("*", "/"):
            node = _calculated(token, node, self._unary())
        return node

    def _unary(self) -> _Node:
        token = self._taken("!", "-")
        if token is None:
            return self._member()
        self._deeper()
        node = self._unary()
        self._depth -= 1
        if token.text == "!":
            _need(token, node, "bool")
            return _Node("bool", lambda values: not node.evaluate(values))
        _need(token, node, *_NUMBERS)
        return _Node(node.type, lambda values: -_number(node.evaluate(values)))

    def _member(self) -> _Node:
        node = self._primary()
        while token := self._taken("."):
            _need(token, node, "string")
            node = self._text_test(node)
        return node

    def _text_test(self, node: _Node) -> _Node:
        token = self._taken(*_TEXT_TESTS)
        if token is None:
            raise self._unexpected(f"one of {', '.join(_TEXT_TESTS)}")
        self._wanted("(")
        _need(token, part := self._choice(), "string")
        self._wanted(")")
        test = _TEXT_TESTS[token.text]
        return _Node(
            "bool",
            lambda values: test(
                str(node.evaluate(values)), str(part.evaluate(values))
            ),
        )

    def _primary(self) -> _Node:
        token = self._next
        if self._taken("("):
            node = self._choice()
            self._wanted(")")
            return node
        if token.kind in ("sign", "end"):
            raise self._unexpected("a value")
        self._place += 1
        if token.kind == "name":
            return self._named(token)
        return _literal(token)

    def _named(self, token: _Token) -> _Node:
        name = token.text
        if name in ("true", "false"):
            return _constant("bool", name == "true")
        if name == "has" and self._taken("("):
            node = self._has()
        elif name == "double" and self._taken("("):
            _need(token, of := self._choice(), *_NUMBERS)
            node = _Node(
                "double", lambda values: float(_number(of.evaluate(values)))
            )
        elif name in self._environment.variables:
            return _variable(name, self._environment.variables[name])
        elif name in self._environment.figures:
            return _figure(name, self._figure_name(name))
        else:
            raise _error(token.at, self._unknown(name))
        self._wanted(")")
        return node

    def _unknown(self, name: str) -> str:
        if name in _RESERVED:
            return f"{name!r} is reserved in CEL"
        known = (*self._environment.variables, *self._environment.figures)
        return f"{name!r} is unknown; there are {', '.join(known)}"

    def _has(self) -> _Node:
        token = self._next
        if token.text not in self._environment.figures:
            raise self._unexpected("a figure, such as has(metrics.p99_ttft_ms)")
        self._place += 1
        name = token.text
        key = self._figure_name(name)

        def is_there(values: Values) -> bool:
            figures = values[name]
            assert isinstance(figures, Mapping)
            return figures.get(key) is not None

        return _Node("bool", is_there)

    def _figure_name(self, figures: str) -> str:
        """Read `.name` or `['name']` behind a map of figures."""
        bracket = self._taken("[")
        if bracket is None:
            self._wanted(".")
        token = self._next
        if token.kind != ("string" if bracket else "name"):
            raise self._unexpected("the name of a figure")
        self._place += 1
        key = token.text[1:-1] if bracket else token.text
        if bracket:
            self._wanted("]")
        if problem := self._environment.figures[figures](key):
            raise _error(token.at, problem)
        self.figures.add((figures, key))
        return key


def _need(token: _Token, node: _Node, *types: str) -> None:
    if node.type not in types:
        raise _error(
            token.at,
            f"{token.text!r} needs a {' or '.join(types)}, not a {node.type}",
        )


# ---- Meaning


def _number(value: Value) -> int | float:
    assert not isinstance(value, str)
    return value


def _constant(type_: Type, value: Value) -> _Node:
    return _Node(type_, lambda values: value)


def _literal(token: _Token) -> _Node:
    if token.kind == "string":
        return _constant("string", token.text[1:-1])
    if token.kind == "double":
        return _constant("double", float(token.text))
    value = int(token.text)
    if value > _LARGEST:
        raise _error(
            token.at,
            "the number is too large for an integer: write it with a decimal point, such as 2.0",
        )
    return _constant("int", value)


def _variable(name: str, type_: Type) -> _Node:
    def value(values: Values) -> Value:
        found = values[name]
        assert not isinstance(found, Mapping)
        return found

    return _Node(type_, value)


def _figure(name: str, key: str) -> _Node:
    def value(values: Values) -> Value:
        figures = values[name]
        assert isinstance(figures, Mapping)
        found = figures.get(key)
        if found is None:
            raise Unknown(f"{name}.{key} is absent")
        return float(found)

    return _Node("double", value)


def _chosen(test: _Evaluate, yes: _Evaluate, no: _Evaluate) -> _Evaluate:
    return lambda values: yes(values) if test(values) else no(values)


def _joined(token: _Token, one: _Node, other: _Node, *, decisive: bool) -> _Node:
    """Return `||` (True decides) or `&&` (False decides), where either side may be unknown.

    As in CEL, a side that decides does so whatever the other one is.
    """
    for each in (one, other):
        _need(token, each, "bool")

    def value(values: Values) -> bool:
        try:
            if one.evaluate(values) is decisive:
                return decisive
        except Unknown:
            if other.evaluate(values) is decisive:
                return decisive
            raise
        return other.evaluate(values) is True

    return _Node("bool", value)


def _compared(token: _Token, one: _Node, other: _Node) -> _Node:
    numbers = one.type in _NUMBERS and other.type in _NUMBERS
    if not numbers and one.type != other.type:
        raise _error(token.at, f"a {one.type} is compared with a {other.type}")
    compare = _COMPARE[token.text]
    return _Node(
        "bool", lambda values: compare(one.evaluate(values), other.evaluate(values))
    )


def _calculated(token: _Token, one: _Node, other: _Node) -> _Node:
    for each in (one, other):
        _need(token, each, *_NUMBERS)
    if one.type != other.type:
        raise _error(
            token.at,
            f"{token.text!r} of {one.type} and {other.type}: write 2.0 for 2, or double(...)",
        )
    calculate = _WHOLE[token.text] if one.type == "int" else _DECIMAL[token.text]

    def value(values: Values) -> Value:
        found = calculate(
            _number(one.evaluate(values)), _number(other.evaluate(values))
        )
        if isinstance(found, int) and not -_LARGEST - 1 <= found <= _LARGEST:
            raise Unknown(f"{token.text!r} overflows")
        return found

    return _Node(one.type, value)


_Calculate = Callable[[int | float, int | float], int | float]


def _quotient(one: float, other: float) -> float:
    """Return the quotient of two doubles; by 0 it is infinite, or no number."""
    if other:
        return one / other
    return (
        math.nan
        if not one or math.isnan(one)
        else math.copysign(math.inf, one) * math.copysign(1, other)
    )


def _whole_quotient(one: float, other: float) -> int:
    if not other:
        raise Unknown("a division by 0")
    sign = 1 if (one < 0) == (other < 0) else -1
    return sign * (abs(int(one)) // abs(int(other)))


_DECIMAL: Mapping[str, _Calculate] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
}
_WHOLE: Mapping[str, _Calculate] = {**_DECIMAL, "/": _whole_quotient}
