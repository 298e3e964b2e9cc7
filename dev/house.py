"""The size of the source that people write: `make house` prints it and fails where a limit of CONTRIBUTING.md is exceeded.
Generated modules are not counted: the rules and pages that they are made from are."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = (ROOT / "operator" / "benchrun", ROOT / "client-image")
MAX_FILES, MAX_LINES, MIN_MEAN_LINES, MAX_IMPORTS_PER_1000 = 300, 39_000, 120.0, 30.0
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_FOLDER_FILES, MAX_CRD_BYTES = 500, 60, 16, 350_000
MIN_DOCUMENTED_PERCENT = 88.8


def main() -> int:
    """Print every figure beside its limit. Returns 1 where one is exceeded."""
    every = {path: path.read_text() for top in SOURCE for path in sorted(top.rglob("*.py"))}
    files = {path: text for path, text in every.items() if not text.startswith("# Generated")}
    trees = {path: ast.parse(text) for path, text in files.items()}
    rooms = [path for path in files if path.name != "__init__.py"]
    lines = sum(text.count("\n") for text in files.values())
    imports = sum(_internal_imports(tree) for tree in trees.values())
    crd_bytes = sum(path.stat().st_size for path in (ROOT / "crds").glob("*.yaml"))
    folders = Counter(path.parent for path in rooms)
    public = [node for tree in trees.values() for node in _public(tree)]
    documented = 100 * sum(ast.get_docstring(node) is not None for node in public) / len(public)
    long_files = [f"{_name(path)} {n}" for path, text in files.items() if (n := text.count("\n")) > MAX_FILE_LINES]
    long_functions = [f"{_name(path)}:{found}" for path, tree in trees.items() for found in _long_functions(tree)]
    full_folders = [f"{_name(folder)} {n}" for folder, n in folders.items() if n > MAX_FOLDER_FILES]
    figures = (
        ("source files", len(rooms), len(rooms) <= MAX_FILES, f"at most {MAX_FILES}"),
        ("source lines", lines, lines <= MAX_LINES, f"at most {MAX_LINES}"),
        (
            "mean lines of a file",
            round(lines / len(rooms), 1),
            lines / len(rooms) >= MIN_MEAN_LINES,
            f"at least {MIN_MEAN_LINES:g}",
        ),
        (
            "internal imports per 1,000 lines",
            round(1000 * imports / lines, 1),
            1000 * imports / lines <= MAX_IMPORTS_PER_1000,
            f"at most {MAX_IMPORTS_PER_1000:g}",
        ),
        (f"files over {MAX_FILE_LINES} lines", ", ".join(long_files) or 0, not long_files, "0"),
        (f"functions over {MAX_FUNCTION_LINES} lines", ", ".join(long_functions) or 0, not long_functions, "0"),
        (f"folders of more than {MAX_FOLDER_FILES} files", ", ".join(full_folders) or 0, not full_folders, "0"),
        (
            "% of public names with docstrings",
            round(documented, 2),
            documented >= MIN_DOCUMENTED_PERCENT,
            f"at least {MIN_DOCUMENTED_PERCENT:g}",
        ),
        ("bytes of both CRDs", crd_bytes, crd_bytes <= MAX_CRD_BYTES, f"at most {MAX_CRD_BYTES}"),
    )
    for name, value, _, limit in figures:
        print(f"{name:<34} {value!s:>8}  {limit}")
    exceeded = [name for name, _, kept, _ in figures if not kept]
    if exceeded:
        print(f"exceeded: {', '.join(exceeded)}", file=sys.stderr)
    return 1 if exceeded else 0


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _public(of: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes, and the methods of classes, whose names don't begin with an underscore."""
    for node in of.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def _internal_imports(tree: ast.Module) -> int:
    return sum(
        (isinstance(node, ast.ImportFrom) and str(node.module).startswith("benchrun"))
        or (isinstance(node, ast.Import) and any(name.name.startswith("benchrun") for name in node.names))
        for node in ast.walk(tree)
    )


def _long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.name} {lines}"


if __name__ == "__main__":
    sys.exit(main())
