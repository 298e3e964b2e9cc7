"""The rules' CEL as Python functions: as much of the language as the rules of our definitions use.

CEL is read by Python's own parser once its signs, words and names are Python's. Tests hold every rule against Google's CEL.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

_TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*|[=!<>]=|&&|\|\||\S|\s")
_CAPITAL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False", "from": "from_"}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "size": len,
    "double": float,
    "int": int,
    "sum": sum,
    "max": max,
    "split": str.split,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "indexOf": lambda items, item: items.index(item) if item in items else -1,
    "format": lambda text, values: text % tuple(values),
    "all": lambda items, test: all(map(test, items)),
    "exists": lambda items, test: any(map(test, items)),
    "exists_one": lambda items, test: sum(map(test, items)) == 1,
    "filter": lambda items, test: list(filter(test, items)),
    "map": lambda items, change: list(map(change, items)),
}


@cache
def compiled(cel: str) -> Callable[[Any], Any]:
    """The expression as a function of `self`: a model, or the value of a field. It reads models by their Python names."""
    tree = _Calls().visit(ast.parse(f"lambda self: ({_python(iter(_TOKEN.findall(cel)))})", mode="eval"))
    function: Callable[[Any], Any] = eval(
        compile(ast.fix_missing_locations(tree), cel, "eval"), {"__builtins__": {}, **_FUNCTIONS}
    )
    return function


def _python(tokens: Iterator[str]) -> str:
    """Python for the tokens up to the end of their brackets: `test ? yes : no` is `yes if test else no`."""
    done = part = test = ""
    for token in tokens:
        if token in ("(", "["):
            part += token + _python(tokens)
        elif token in (")", "]"):
            return done + part + token
        elif token[0] == "'":
            part += token
        elif token == "?":
            test, part = part, ""
        elif token in (":", ","):
            done, part = f"{done}{part} if {test} else " if token == ":" else f"{done}{part},", ""
        else:
            part += _WORDS.get(token) or (token if token in _FUNCTIONS else python_name(token))
    return done + part


def python_name(name: str) -> str:
    """`maxConcurrency` is `max_concurrency`, `shareGPT` is `share_gpt`."""
    return _CAPITAL.sub("_", name).lower()


class _Calls(ast.NodeTransformer):
    """Methods and macros made into calls of our functions: `list.all(x, test)` is `all(list, lambda x: test)`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="has"), args=[field]):
                return ast.Compare(field, [ast.IsNot()], [ast.Constant(None)])
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=[ast.Name(id=variable), body]):
                function = ast.Lambda(
                    ast.arguments([], [ast.arg(variable)], kwonlyargs=[], kw_defaults=[], defaults=[]), body
                )
                return ast.Call(ast.Name(name, ast.Load()), [of, function], [])
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=arguments):
                return ast.Call(ast.Name(name, ast.Load()), [of, *arguments], [])
        return node
