"""Break pure code on purpose, one small change at a time, and see whether a test notices.

The mutants are a sample drawn by a seed, so that a run can be repeated. Each is written into its
file, and the file is put back afterwards, also after an interrupt. First the test files run that
name what the module defines, then the whole folders of its package.
"""

import argparse
import ast
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS_OF = {
    Path("operator/benchrun", package): (package,)
    for package in ("measure", "plan", "observe", "sizing")
} | {
    Path("operator/benchrun/judge"): ("judge", "sweep"),
    Path("operator/benchrun/decide"): ("decide", "sweep"),
    Path("client-image/benchrun_client/contract"): ("client", "measure"),
}
NEAREST_FILES = 4
KILLED_SHARE = 54 / 60
PAIRS = "< <=,> >=,== !=,is is_not,in not_in,and or,+ -,min max,True False"
SPACED = [pair.split() for pair in PAIRS.split(",")]
BOTH_WAYS = [*SPACED, *(pair[::-1] for pair in SPACED)]
OTHER = {one.replace("_", " "): two.replace("_", " ") for one, two in BOTH_WAYS}
OPERATOR_TEXT = re.compile(
    rb"<=|>=|==|!=|<|>|\+|-|\bis not\b|\bis\b|\bnot in\b|\bin\b|\band\b|\bor\b"
)


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the bytes from start to end become another text."""

    path: Path
    start: int
    end: int
    text: bytes

    def changed(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.text + source[self.end :]

    def described(self, source: bytes) -> str:
        """Return the file and line, with the line before and after the change."""
        line = source[: self.start].count(b"\n")
        before = source.splitlines()[line].decode().strip()
        after = self.changed(source).splitlines()[line].decode().strip()
        return f"{self.path}:{line + 1}\n    - {before}\n    + {after}"


class Finder(ast.NodeVisitor):
    """Collects the mutants of a file; annotations and strings stay as they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = (ROOT / path).read_bytes()
        lengths = (len(line) for line in self.source.splitlines(keepends=True))
        self.line_starts = list(itertools.accumulate(lengths, initial=0))
        self.found: list[Mutant] = []
        self.visit(ast.parse(self.source))

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return where the node starts and ends, in bytes."""
        start = self.line_starts[node.lineno - 1] + node.col_offset
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
        return start, self.line_starts[end_line - 1] + end_column

    def replace(self, node: ast.expr, text: str) -> None:
        """Add the mutant that has the text in the node's place."""
        self.found.append(Mutant(self.path, *self.span(node), text.encode()))

    def swap_between(self, left: ast.expr, right: ast.expr) -> None:
        """Add the mutant with the other operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        operator = OPERATOR_TEXT.search(self.source, start, end)
        if operator:
            other = OTHER[operator.group().decode()].encode()
            self.found.append(Mutant(self.path, *operator.span(), other))

    def visit(self, node: ast.AST) -> None:
        """Add the mutants of the node and of its children."""
        match node:
            case ast.JoinedStr():
                return
            case ast.AnnAssign(value=value):
                if value:
                    self.visit(value)
                return
            case ast.FunctionDef(body=body):
                for statement in body:
                    self.visit(statement)
                return
            case ast.Compare(left=left, comparators=[right, *_]):
                self.swap_between(left, right)
            case ast.BoolOp(values=[left, right, *_]):
                self.swap_between(left, right)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                self.swap_between(left, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                start, end = self.span(operand)
                self.replace(node, f"({self.source[start:end].decode()})")
            case ast.Constant(value=bool() as truth):
                self.replace(node, OTHER[str(truth)])
            case ast.Constant(value=int() as number):
                self.replace(node, str(number + 1))
            case ast.Call(func=ast.Name(id="min" | "max" as name) as function):
                self.replace(function, OTHER[name])
            case ast.Return(value=ast.expr() as it) if ast.unparse(it) != "None":
                self.replace(it, "None")
        self.generic_visit(node)


def test_files(path: Path) -> tuple[list[str], list[str]]:
    """Return the test files that name most of the module's definitions, and the other files."""
    source = (ROOT / path).read_text()
    names = re.findall(r"^(?:def|class) (\w+)", source, re.MULTILINE)
    words = re.compile(rf"\b({'|'.join([*names, path.stem])})\b")
    folders = next(TESTS_OF[root] for root in TESTS_OF if path.is_relative_to(root))
    named: Counter[str] = Counter()
    for folder in folders:
        for file in (ROOT / "tests/unit" / folder).rglob("test_*.py"):
            different = set(words.findall(file.read_text()))
            named[str(file.relative_to(ROOT))] = len(different)
    nearest = [file for file, count in named.most_common(NEAREST_FILES) if count]
    return nearest, [file for file in named if file not in nearest]


def failing(files: list[str], limit_seconds: float) -> bool | None:
    """Return whether a test of the files fails; None if the time limit passed before."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n2", *files]
    no = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=no, start_new_session=True)
    try:
        # 1: a test failed, 2: a file could not be read. 5, no test was there, kills nothing.
        return process.wait(max(limit_seconds, 0)) in (1, 2)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            # No wait: an interrupt may have left the lock of waiting taken for good.
            os.killpg(process.pid, signal.SIGKILL)


def tried(mutant: Mutant, number: int, limit_seconds: float) -> str:
    """Try a mutant and return killed, survived or timeout. The file is put back in the end."""
    path = ROOT / mutant.path
    source, before = path.read_bytes(), path.stat()
    until = time.monotonic() + limit_seconds
    try:
        path.write_bytes(mutant.changed(source))
        # Bytecode is told by size and second: each mutant has a second of its own.
        os.utime(path, (before.st_atime, before.st_mtime + number))
        for files in test_files(mutant.path):
            failed = failing(files, until - time.monotonic()) if files else False
            if failed is not False:
                return "timeout" if failed is None else "killed"
        return "survived"
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def main() -> int:
    """Try the sample and print what became of each mutant; return 1 if too few were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--limit-seconds", type=float, default=300, help="of one")
    parser.add_argument("--all-seconds", type=float, default=7200, help="of all")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    files = (file for folder in TESTS_OF for file in (ROOT / folder).rglob("*.py"))
    paths = sorted(file.relative_to(ROOT) for file in files)
    everything = [mutant for path in paths for mutant in Finder(path).found]
    sample = random.Random(options.seed).sample(everything, options.number)
    until = time.monotonic() + options.all_seconds
    ends: Counter[str] = Counter()
    for number, mutant in enumerate(sample, start=1):
        if ends and until - time.monotonic() < options.limit_seconds:
            break
        ends[end := tried(mutant, number, options.limit_seconds)] += 1
        described = mutant.described((ROOT / mutant.path).read_bytes())
        print(f"{number:3} {end:9}{described}", flush=True)
    print(f"{ends.total()} of {options.number} mutants ran: {dict(ends)}")
    return int(ends["killed"] < KILLED_SHARE * ends.total())


if __name__ == "__main__":
    sys.exit(main())
