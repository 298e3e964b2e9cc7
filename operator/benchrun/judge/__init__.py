"""Whether the numbers can be trusted: rules over stages, verdicts, objectives, results. Pure."""
