"""Explain why requests waited, and what the bottleneck of a load point is."""
