"""Compare the variants of a sweep: the table, the best, and the Pareto front.

It is built on `judge.comparison`: each run of a variant is a fresh server, and gives one value.
"""
