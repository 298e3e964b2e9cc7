"""Print the unit tests of the files that changed, for `make check`.

A file has changed if it differs from the given commit, committed or not, or if it is new. The tests
of a package are in the folder of the same name.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
UNIT = PurePosixPath("tests/unit")
FOLDERS = {
    "operator/benchrun/": UNIT,
    "client-image/benchrun_client/": UNIT / "client",
    "benchmarks/": UNIT / "benchmarks",
    "devcluster/": UNIT / "devcluster",
    "tests/simulator/": UNIT / "simulator",
    "dev/": UNIT / "development",
    "docs/findings/": UNIT / "judge/rules",
    "docs/": UNIT / "development",
    "examples/": UNIT / "api",
}
"""Start of a path -> folder of its tests; the longest start is first."""


def main() -> int:
    """Print the folders and files, one a line. Return 2 if git can't tell what changed."""
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    try:
        changed = list(changed_files(base))
    except subprocess.CalledProcessError as error:
        print(error.stderr.strip(), file=sys.stderr)
        return 2
    print("\n".join(unit_tests_of(changed, ROOT)))
    return 0


def changed_files(base: str) -> Iterator[str]:
    """Yield the paths that differ from a commit, and the paths that git does not track."""
    yield from _git("diff", "--name-only", base)
    yield from _git("ls-files", "--others", "--exclude-standard")


def _git(*words: str) -> list[str]:
    done = subprocess.run(
        ["git", *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout.splitlines()


def unit_tests_of(changed: Iterable[str], root: Path) -> list[str]:
    """Return the changed test files and the test folders of other changed files, sorted."""
    found = {
        str(place)
        for path in changed
        if (place := _tests_of(path, root)) is not None
    }
    folders = [Path(each) for each in found]
    return sorted(
        each for each in found if not set(Path(each).parents) & set(folders)
    )


def _tests_of(path: str, root: Path) -> PurePosixPath | None:
    """Return the tests of one file, or None if it has none."""
    here = PurePosixPath(path)
    if here.is_relative_to(UNIT):
        if here.name.startswith("test_"):
            return here if (root / here).is_file() else None
        return here.parent
    for beginning, tests in FOLDERS.items():
        if path.startswith(beginning):
            packages = list(PurePosixPath(path.removeprefix(beginning)).parts[:-1])
            return _nearest(tests, packages, root)
    return None


def _nearest(
    tests: PurePosixPath, packages: list[str], root: Path
) -> PurePosixPath | None:
    """Return the deepest existing test folder for this path of packages."""
    for depth in range(len(packages), -1, -1):
        folder = tests.joinpath(*packages[:depth])
        if (root / folder).is_dir() and folder != UNIT:
            return folder
    return None


if __name__ == "__main__":
    sys.exit(main())
