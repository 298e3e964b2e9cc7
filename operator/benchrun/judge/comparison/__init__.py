"""Compare two configurations: what changed, by how much, and whether it exceeds noise.

All functions are pure.
"""
