"""Whether the measured numbers can be trusted: rules over stages, verdicts, objectives, results.

All functions are pure.
"""
