"""`python -m benchrun.runtime`, and the console script `benchrun-operator`."""

from __future__ import annotations

import sys


def main() -> int:
    """The operator, or `release`: each is imported alone, so that neither can be broken by the other."""
    if sys.argv[1:2] == ["release"]:
        from benchrun.release.main import main as release

        return release(sys.argv[2:])
    from benchrun.effects.client_package import import_only_what_is_used

    import_only_what_is_used()
    from benchrun.runtime.main import main as operate

    return operate()


if __name__ == "__main__":
    sys.exit(main())
