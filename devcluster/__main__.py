"""Entry point of `python3 devcluster ...` and `python3 -m devcluster ...`.

Run both from the repository's root.
"""

import sys
from pathlib import Path

# started as a folder: Python put the folder on the path, not the folder the package lies in
if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from devcluster.commands import main

sys.exit(main(sys.argv[1:]))
