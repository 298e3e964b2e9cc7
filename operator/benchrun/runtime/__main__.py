"""`python -m benchrun.runtime`, and the console script `benchrun-operator`."""

from __future__ import annotations

import sys

from benchrun.runtime.main import main

if __name__ == "__main__":
    sys.exit(main())
