"""`api/spec_rules.py`: the rules of the spec, written in CEL, translated to Python functions.

Operators, words and names of CEL are replaced by Python's; then Python's own parser reads the rest.
This covers as much of CEL as the rules use. Tests compare every rule with Google's CEL.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any
from zlib import crc32

MODULE = "benchrun.api.spec_rules"
_HEAD = '''\
"""Python functions for all CEL rules of the spec, and for all messages that contain figures.

`self` is the part of the spec that has the rule. The key of a function is the CRC-32 of its CEL.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

# fmt: off
RULE_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {
'''
_TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*|[=!<>]=|&&|\|\||\S|\s")
_CAPITAL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = {
    "&&": " and ",
    "||": " or ",
    "!": " not ",
    "true": "True",
    "false": "False",
    "from": "from_",
}
_BUILT_IN = {
    "size": "len",
    "double": "float",
    "int": "int",
    "string": "str",
    "sum": "sum",
    "max": "max",
}
_FUNCTIONS = {
    *_BUILT_IN,
    "split",
    "matches",
    "indexOf",
    "format",
    "all",
    "exists",
    "exists_one",
    "filter",
    "map",
}


@cache
def spec_rules_text() -> str:
    """Return the text of the module."""
    # The API's modules look up every rule's function when imported: rules without one pass here.
    stub = ModuleType(MODULE)
    vars(stub)["RULE_FUNCTIONS"] = defaultdict(lambda: lambda value: True)
    sys.modules.setdefault(MODULE, stub)
    from benchrun.api.crd import RUN, SWEEP

    rules = {
        cel: translated(cel)
        for kind in (RUN, SWEEP)
        for cel in _rules(kind.spec_schema())
    }
    checksums = [crc32(cel.encode()) for cel in rules]
    assert len(set(checksums)) == len(rules), "two rules have the same checksum"
    lines = [
        f"    0x{checksum:08x}: lambda self: {ast.unparse(ast.fix_missing_locations(body))},\n"
        for checksum, body in zip(checksums, rules.values(), strict=True)
    ]
    return f"{_HEAD}{''.join(lines)}}}\n"


def translated(cel: str) -> ast.expr:
    """Translate a CEL expression to Python, with the Python names of the models' fields."""
    tree = ast.parse(_python(iter(_TOKEN.findall(cel))).strip(), mode="eval")
    found: ast.expr = _ToPython().visit(tree.body)
    return found


def _rules(schema: Any) -> Iterator[str]:
    """Yield the CEL of every rule and message in a schema.

    Rules about changes are left out: in Python there is only the new object.
    """
    if isinstance(schema, list):
        for each in schema:
            yield from _rules(each)
    if isinstance(schema, dict):
        for rule in schema.get("x-kubernetes-validations", ()):
            if "oldSelf" not in rule["rule"]:
                yield from (
                    rule[key]
                    for key in ("rule", "messageExpression")
                    if key in rule
                )
        for each in schema.values():
            yield from _rules(each)


# ---- CEL to Python


def _python(tokens: Iterator[str]) -> str:
    """Return Python for the tokens up to the end of their brackets.

    `test ? yes : no` becomes `yes if test else no`.
    """
    done = part = test = ""
    for token in tokens:
        if token in ("(", "["):
            part += token + _python(tokens)
        elif token in (")", "]"):
            return done + part + token
        elif token[0] == "'":
            part += token
        elif token == "?":
            test = part
            part = ""
        elif token in (":", ","):
            done = (
                f"{done}{part} if {test} else "
                if token == ":"
                else f"{done}{part},"
            )
            part = ""
        else:
            part += _WORDS.get(token) or (
                token if token in _FUNCTIONS else _CAPITAL.sub("_", token).lower()
            )
    return done + part


class _ToPython(ast.NodeTransformer):
    """Turns functions, methods and macros of CEL into Python's."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="has"), args=[field]):
                return ast.Compare(field, [ast.IsNot()], [ast.Constant(None)])
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _call(_BUILT_IN[name], *arguments)
            case ast.Call(
                func=ast.Attribute(value=items, attr=name),
                args=[ast.Name(id=each), body],
            ):
                return _over(name, items, ast.Name(each, ast.Store()), body)
            case ast.Call(func=ast.Attribute(value=of, attr=name), args=arguments):
                return _method(name, of, arguments)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=items, op=ast.Add(), right=ast.List(elts=more)):
                return ast.List([ast.Starred(items, ast.Load()), *more], ast.Load())
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Compare(
                    left=left, ops=[ast.IsNot()], comparators=right
                ),
            ):
                return ast.Compare(left, [ast.Is()], right)
        return node


def _over(macro: str, items: ast.expr, each: ast.Name, body: ast.expr) -> ast.expr:
    """Translate a macro over a list: `list.all(x, test)` becomes `all(test for x in list)`."""
    read = ast.Name(each.id, ast.Load())
    if macro == "map":
        return ast.ListComp(body, [ast.comprehension(each, items, [], is_async=0)])
    kept = ast.ListComp(read, [ast.comprehension(each, items, [body], is_async=0)])
    if macro == "filter":
        return kept
    if macro == "exists_one":
        return ast.Compare(_call("len", kept), [ast.Eq()], [ast.Constant(1)])
    tests = ast.GeneratorExp(body, [ast.comprehension(each, items, [], is_async=0)])
    return _call({"all": "all", "exists": "any"}[macro], tests)


def _method(name: str, of: ast.expr, arguments: list[ast.expr]) -> ast.expr:
    match name, of, arguments:
        case "matches", _, [pattern]:
            return _call("re.search", pattern, of)
        case "indexOf", _, [item]:
            found = ast.Compare(item, [ast.In()], [of])
            return ast.IfExp(
                found,
                ast.Call(ast.Attribute(of, "index", ast.Load()), [item], []),
                ast.Constant(-1),
            )
        case "split", _, _:
            return ast.Call(ast.Attribute(of, name, ast.Load()), arguments, [])
        case "format", ast.Constant(value=str(text)), [ast.List(elts=values)]:
            pieces: list[ast.expr] = [
                ast.Constant(piece) for piece in re.split("%[ds]", text)
            ]
            filled = [ast.FormattedValue(value, -1) for value in values]
            return ast.JoinedStr(
                [
                    part
                    for pair in zip(pieces, filled, strict=False)
                    for part in pair
                ]
                + pieces[len(filled) :]
            )
    return _call(_BUILT_IN[name], of, *arguments)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.parse(name, mode="eval").body, list(arguments), [])
