"""The variants of a sweep side by side: the table, the best, and the Pareto front.

Built on `judge.comparison`: the unit is a fresh server.
"""
