"""`python -m benchrun.runtime`, and the console script `benchrun-operator`."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def main() -> int:
    """Run the operator, `release` or `archive`, and return its exit status.

    Only the chosen one is imported, so that an import error of one does not break the other.
    """
    if sys.argv[1:2] == ["release"]:
        from benchrun.release.main import main as release

        return release(sys.argv[2:])
    if sys.argv[1:2] == ["archive"]:
        from benchrun.archive.main import main as archive

        return archive(sys.argv[2:])
    _import_only_used_modules_of_kubernetes()
    from benchrun.runtime.main import main as operate

    return operate()


def _import_only_used_modules_of_kubernetes() -> None:
    """Replace the package `kubernetes` by an empty one, so that only used modules are imported.

    The package's own `__init__` would import 7 MiB more.
    """
    if (found := PathFinder.find_spec("kubernetes")) is not None:
        sys.modules["kubernetes"] = module_from_spec(found)


if __name__ == "__main__":
    sys.exit(main())
