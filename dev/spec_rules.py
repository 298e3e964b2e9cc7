"""`api/spec_rules.py`: the rules of the spec, written in CEL, translated to Python functions.

Once its operators, words and names are Python's, CEL is read by Python's own parser: as much of the
language as the rules use. Tests compare every rule with Google's CEL.
"""

import ast
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from itertools import takewhile
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard
from zlib import crc32

MODULE = "benchrun.api.spec_rules"
WIDTH = 98
WORTH = 60  # least characters that a function for a shared part must save
_HEAD = '''\
"""Every rule of the spec, and every message with figures, as a function of `self`.

By the checksum of its CEL.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any


# fmt: off
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
_BUILT_IN = {"size": "len", "double": "float", "int": "int", "sum": "sum", "max": "max"}
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
_GLOBALS = {*_BUILT_IN.values(), "all", "any", "re"}


@cache
def spec_rules_text() -> str:
    """Return the text of the module.

    Parts that several rules share become functions, with the names that the API's modules give
    them.
    """
    # The API's modules look up every rule's function when imported: rules without one pass here.
    stub = ModuleType(MODULE)
    vars(stub)["RULE_FUNCTIONS"] = defaultdict(lambda: lambda value: True)
    sys.modules.setdefault(MODULE, stub)
    from benchrun.api.crd import RUN, SWEEP

    rules = {cel: translated(cel) for kind in (RUN, SWEEP) for cel in _rules(kind.spec_schema())}
    checksums = [crc32(cel.encode()) for cel in rules]
    assert len(set(checksums)) == len(rules), "two rules have the same checksum"
    functions, bodies = _with_shared_parts(list(rules.values()))
    lines = [line for name, part in functions.items() for line in _definition(name, part)]
    lines.append("RULE_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {")
    for checksum, body in zip(checksums, bodies, strict=True):
        lines += _wrapped(f"    0x{checksum:08x}: lambda self: ", f"{_text(body)},")
    return _HEAD + "\n".join([*lines, "}", ""])


def translated(cel: str) -> ast.expr:
    """Translate a CEL expression to Python. It reads models by their Python names."""
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
                yield from (rule[key] for key in ("rule", "messageExpression") if key in rule)
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
            done = f"{done}{part} if {test} else " if token == ":" else f"{done}{part},"
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
                func=ast.Attribute(value=items, attr=name), args=[ast.Name(id=each), body]
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
                op=ast.Not(), operand=ast.Compare(left=left, ops=[ast.IsNot()], comparators=right)
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
        case "size", ast.ListComp(
            ast.Name(id=kept), [ast.comprehension(iter=flags, ifs=[ast.Name(id=test)])]
        ), _ if kept == test:
            return _how_many(flags)
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
            pieces: list[ast.expr] = [ast.Constant(piece) for piece in re.split("%[ds]", text)]
            filled = [ast.FormattedValue(value, -1) for value in values]
            return ast.JoinedStr(
                [part for pair in zip(pieces, filled, strict=False) for part in pair]
                + pieces[len(filled) :]
            )
    return _call(_BUILT_IN[name], of, *arguments)


def _how_many(flags: ast.expr) -> ast.expr:
    """Return an expression for how many of these are true.

    For tests of whether fields are present, it counts those that are not None.
    """
    match flags:
        case ast.List(elts=elts):
            fields = [
                each.left
                for each in elts
                if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.IsNot)
            ]
            if len(fields) == len(elts):
                count = ast.Attribute(ast.List(fields, ast.Load()), "count", ast.Load())
                return ast.BinOp(
                    ast.Constant(len(fields)), ast.Sub(), ast.Call(count, [ast.Constant(None)], [])
                )
    return _call("sum", flags)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.parse(name, mode="eval").body, list(arguments), [])


# ---- What rules have in common


class _Part(NamedTuple):
    """A part of a rule as a function: its body, and the argument of each parameter."""

    body: ast.expr
    arguments: Mapping[str, ast.expr]


def _with_shared_parts(rules: list[ast.expr]) -> tuple[dict[str, _Part], list[ast.expr]]:
    """Return functions for the named parts that recur, and the rules with calls of them."""
    functions: dict[str, _Part] = {}
    bodies = list(rules)  # The bodies of functions are appended.
    texts = [_texts(body) for body in bodies]
    for name, part in sorted(_named_parts(), key=lambda found: -len(_text(found[1].body))):
        text = ast.dump(part.body)
        count = sum(each.count(text) for each in texts)
        if name in functions or (count - 1) * len(_text(part.body)) - count * len(name) < WORTH:
            continue
        call = _ToCalls(name, text)
        for place in [place for place, each in enumerate(texts) if text in each]:
            bodies[place] = call.visit(bodies[place])
            texts[place] = _texts(bodies[place])
        functions[name] = part
        bodies.append(part.body)
        texts.append(_texts(part.body)[1:])
    called = zip(functions.items(), bodies[len(rules) :], strict=True)
    return {name: part._replace(body=body) for (name, part), body in called}, bodies[: len(rules)]


def _texts(body: ast.expr) -> list[str]:
    """Return the text of everything in a body that may be a call of a shared part."""
    return [ast.dump(_part(node).body) for node in ast.walk(body) if _may_be_shared(node)]


def _named_parts() -> Iterator[tuple[str, _Part]]:
    """Yield parts of rules, named as in the API's modules: `POINTS` is `_points`."""
    for module in [each for name, each in sys.modules.items() if name.startswith("benchrun.api")]:
        for name, cel in vars(module).items():
            if isinstance(cel, str) and name.isupper() and len(cel) >= 20:
                # A pattern: whether a text matches; a template: filled with the object itself.
                test = (
                    f"self.matches({cel})"
                    if cel[0] == cel[-1] == "'"
                    else cel.replace("{0}", "self")
                )
                try:
                    yield "_" + name.strip("_").lower(), _part(translated(test))
                except (SyntaxError, KeyError):
                    continue


class _ToCalls(ast.NodeTransformer):
    """Replaces a shared part by calls."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text

    def visit(self, node: ast.AST) -> Any:
        """Return a call in place of the part."""
        if _may_be_shared(node) and ast.dump((part := _part(node)).body) == self._text:
            return _call(self._name, *part.arguments.values())
        return self.generic_visit(node)


def _may_be_shared(node: ast.AST) -> TypeGuard[ast.expr]:
    """Return whether the node reads something, and is more than a name."""
    return isinstance(node, ast.expr) and not isinstance(
        node, (ast.Attribute, ast.Name, ast.Constant, ast.List, ast.FormattedValue)
    )


def _part(node: ast.expr) -> _Part:
    """Return the part with a parameter for each variable that it does not bind.

    The argument is the longest path that everything it reads of the variable begins with.
    """
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    paths: dict[str, list[list[str]]] = {}
    _Paths(paths).visit(node)
    arguments = {}
    body = deepcopy(node)
    parameters = iter(("it", "of", "by"))
    for variable in [each for each in paths if each not in bound and each not in _GLOBALS]:
        prefix = _common(paths[variable])
        parameter = next(parameters, "also")
        arguments[parameter] = ast.parse(".".join(prefix), mode="eval").body
        body = _Renamed(ast.dump(arguments[parameter]), parameter).visit(body)
    return _Part(body, arguments)


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    return [
        steps[0]
        for steps in takewhile(lambda steps: len(set(steps)) == 1, zip(*paths, strict=False))
    ]


class _Paths(ast.NodeVisitor):
    """Collects the paths that an expression reads, by variable: `w.load.search` is of `w`."""

    def __init__(self, paths: dict[str, list[list[str]]]) -> None:
        self._paths = paths

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)  # The method is not read.
        for each in node.args:
            self.visit(each)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        text = ast.unparse(node)
        if re.fullmatch(r"[\w.]+", text):
            self._paths.setdefault(text.split(".")[0], []).append(text.split("."))
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._paths.setdefault(node.id, []).append([node.id])


class _Renamed(ast.NodeTransformer):
    """Replaces a path by a parameter."""

    def __init__(self, path: str, parameter: str) -> None:
        self._path = path
        self._parameter = parameter

    def visit(self, node: ast.AST) -> Any:
        """Return the parameter in place of the path."""
        return (
            ast.Name(self._parameter, ast.Load())
            if ast.dump(node) == self._path
            else self.generic_visit(node)
        )


# ---- Text


def _definition(name: str, part: _Part) -> list[str]:
    parameters = ", ".join(f"{each}: Any" for each in part.arguments)
    return [f"def {name}({parameters}) -> Any:", *_wrapped("    return (", f"{_text(part.body)})")]


def _text(node: ast.expr) -> str:
    """Return the source of an expression.

    The second pair of brackets that `unparse` puts around a generator is removed.
    """
    text = ast.unparse(ast.fix_missing_locations(deepcopy(node)))
    opened: list[int] = []
    ends = {}
    for place, sign in enumerate(text):
        if sign == "(":
            opened.append(place)
        elif sign == ")":
            ends[opened.pop()] = place
    twice = [
        start
        for start, end in ends.items()
        if re.match(r"(all|any)\(\(", text[start - 3 :]) and ends.get(start + 1) == end - 1
    ]
    gone = {place for start in twice for place in (start, ends[start])}
    return "".join(sign for place, sign in enumerate(text) if place not in gone)


def _wrapped(head: str, body: str) -> list[str]:
    """Break the text into lines, outside strings only."""
    text = re.sub(r"'[^']*'", lambda found: found[0].replace(" ", "\0"), head + body)
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]
