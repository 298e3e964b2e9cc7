#!/usr/bin/env bash
# Makes .venv with everything the project's own tools need, pinned by hash. Does nothing when it is there already.
# Needs python3 >= 3.11; on Debian, as root, the venv module is installed when it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lock=requirements/dev.txt
stamp=.venv/.installed
[ -f "$stamp" ] && cmp -s "$lock" "$stamp" && exit 0
PATH=${PATH//$PWD\/.venv\/bin:/} # the python3 meant here is the machine's, not that of a .venv about to go

command -v python3 >/dev/null || { echo "error: python3 is missing; install Python 3.11 or later" >&2; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: python3 is older than 3.11: $(python3 --version)" >&2; exit 1; }
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  else
    echo "error: Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1
  fi
fi
echo "setting up .venv (once; a minute or two)" >&2
rm -rf .venv
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==0.13.9"
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --compile-bytecode --require-hashes -r "$lock"
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --no-deps --no-build-isolation -e .
cp "$lock" "$stamp"
