"""Whether a namespace of a cluster can run a benchmark. Pure.

A check is the queries that it asks the API server, and a function of their answers.
"""
