#!/usr/bin/env bash
# Sees to a Chromium for the tests of the HTML report. On Debian, as root, it is installed when it is missing.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing Chromium (once; a minute or two)" >&2
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null
else
  echo "error: Chromium is missing; on Debian: apt-get install chromium" >&2; exit 1
fi
