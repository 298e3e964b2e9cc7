"""Figures of the source that people write, as a trend: `make house` prints them.

Two things are refused: a CRD that is too large, since the API server stores it whole and clients
read it whole, and a name that two classes share without a reason (`NAMED_TWICE`).
Generated modules are not counted; the rules and pages that they are made from are counted.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
SOURCE = (ROOT / "operator" / "benchrun", ROOT / "client-image")
MAX_CRD_BYTES = 230_000
"""Most bytes of one CRD as compact JSON."""
NAMED_TWICE = {
    "Adapter": "a LoRA adapter in the spec, and in the client's plan",
    "ThinkTime": "how long users think, in the spec, and in the client's plan",
    "Width": "how narrow an interval is to be, in the spec, and in the client's plan",
}
"""Class names that two modules define, each with its two things.

The models of a spec make the CRD, and those of a plan are what a client of another release reads:
the two share no code, so that each can change by itself.
"""
WIDE = 100
LONG_FUNCTION = 60
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    Act Add Answer Apply Ask Await Begin Bring Build Call Cancel Check Close Collect Combine
    Compare Complete Compute Connect Convert Count Create Cut Decide Declare Defer Delete
    Derive Describe Diagnose Divide Do Download Draw Drop Empty Encode End Enter Escape
    Estimate Explain Fill Find Follow Forget Format Give Group Hand Handle Have Hold Import
    Install Join Judge Keep Kill Leave Lengthen Let List Listen Load Log Look Make Mark Measure
    Merge Mount Multiply Name Note Open Pack Parse Pass Poll Pool Post Print Prove Pull Put
    Raise Read Receive Reconcile Record Redirect Reduce Refuse Release Remove Render Renew
    Repeat Replace Report Request Resolve Restart Return Round Run Say Scrape Send Serve Set
    Shorten Show Size Sort Split Start Stop Store Sum Take Tell Turn Unpack Update Wait Warm
    Warn Wrap Write Yield
        """,
    )
)
"""Verbs in the imperative with which the docstring of a function may begin."""
ONE_ENGINE = re.compile(
    r"""\bENGINE\b|\bENGINES\[["']|engines import .*\b(?:VLLM|SGLANG)\b"""
)
"""Use of a particular engine where the engine of the run should be passed as an argument."""
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
}


def is_neutral(path: Path) -> bool:
    """Return whether a file must not name a particular engine: every file outside of `engines`."""
    return "engines" not in path.relative_to(ROOT).parts


def main() -> int:
    """Print the figures. Return 1 if a CRD is too large or a class name stands for two things."""
    every = {
        path: path.read_text()
        for top in SOURCE
        for path in sorted(top.rglob("*.py"))
    }
    texts = [text for text in every.values() if not text.startswith("# Generated")]
    lines = [line for text in texts for line in text.splitlines()]
    tokens = sum(map(count_tokens, texts))
    functions = [
        length for text in texts for length in function_lengths(ast.parse(text))
    ]
    trees = [ast.parse(text) for text in texts]
    firsts = [word for tree in trees for word in first_words(tree)]
    named_twice = names_defined_twice(trees)
    crds = {
        path.name: crd_bytes(path)
        for path in sorted((ROOT / "crds").glob("*.yaml"))
    }
    figures: dict[str, object] = {
        "source files": len(texts),
        "lines": len(lines),
        "tokens": tokens,
        "tokens a line": round(tokens / len(lines), 2),
        f"% of lines over {WIDE} columns": percent(
            len(line) > WIDE for line in lines
        ),
        f"% of functions over {LONG_FUNCTION} lines": percent(
            n > LONG_FUNCTION for n in functions
        ),
        "% of functions' docstrings that begin with a verb": percent(
            word in VERBS for word in firsts
        ),
        "packages that import *": sum("import *" in text for text in texts),
        "class names defined twice": len(named_twice),
        "imports of judge in report": sum(
            "benchrun.judge" in line
            for path, text in every.items()
            if "report" in path.parts
            for line in text.splitlines()
        ),
        "uses of the engine as a global": sum(
            len(ONE_ENGINE.findall(text))
            for path, text in every.items()
            if is_neutral(path)
        ),
        **{f"bytes of {name}": size for name, size in crds.items()},
    }
    for name, value in figures.items():
        print(f"{name:<50} {value!s:>9}")
    too_large = [name for name, size in crds.items() if size > MAX_CRD_BYTES]
    if too_large:
        limit = f"{MAX_CRD_BYTES} bytes as compact JSON"
        print(f"larger than {limit}: {', '.join(too_large)}", file=sys.stderr)
    unexplained = [name for name in named_twice if name not in NAMED_TWICE]
    if unexplained:
        names = ", ".join(unexplained)
        print(
            f"classes that two modules define: {names}; rename one", file=sys.stderr
        )
    return 1 if too_large or unexplained else 0


def count_tokens(text: str) -> int:
    """Return how many tokens a module has, without comments and layout."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT for token in tokens)


def crd_bytes(path: Path) -> int:
    """Return the size of a CRD as compact JSON."""
    return len(json.dumps(yaml.safe_load(path.read_text()), separators=(",", ":")))


def first_words(tree: ast.Module) -> Iterator[str]:
    """Yield the first word of each function's docstring."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield re.split(r"\W", text, maxsplit=1)[0]


def names_defined_twice(trees: Iterable[ast.Module]) -> list[str]:
    """Return the names of public classes that more than one module defines."""
    found = Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, count in found.items() if count > 1)


def percent(flags: Iterator[bool]) -> float:
    """Return the share of true flags, in percent."""
    found = list(flags)
    return round(100 * sum(found) / len(found), 2)


def function_lengths(tree: ast.Module) -> Iterator[int]:
    """Yield the length of each function in lines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


if __name__ == "__main__":
    sys.exit(main())
