"""The variants of a sweep side by side: the table, the best, and the Pareto front.

It is built on `judge.comparison`: each run of a variant is a fresh server, and gives one value.
"""
