"""Checks of whether a namespace of a cluster can run a benchmark. Pure.

A check consists of queries to the API server and a function that reads their answers.
"""
