"""Reports: turn a run's status and result document into what people and pipelines read.

All functions are pure.
"""
