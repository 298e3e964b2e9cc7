"""Shared parts of cluster tests: a namespace to work in, and waits for conditions, not for time."""
