"""A finished run in the formats of other tools: pure writers, one format a file."""
