"""Judge whether the measured numbers can be trusted: rules, verdicts, objectives, results.

All functions are pure.
"""
