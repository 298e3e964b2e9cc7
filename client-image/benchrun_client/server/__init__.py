"""The servers to measure: waiting for them, proving the path, and reading what they report."""
