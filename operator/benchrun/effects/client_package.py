"""The official client's package, of which the operator uses the asyncio half."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def import_only_what_is_used() -> None:
    """To be called before anything imports `kubernetes`. Its top level imports its synchronous half, OAuth and websockets: 7 MiB
    that nobody here uses. With the package itself in place, each of its modules is imported alone."""
    found = PathFinder.find_spec("kubernetes")
    if found is not None:
        sys.modules["kubernetes"] = module_from_spec(found)
