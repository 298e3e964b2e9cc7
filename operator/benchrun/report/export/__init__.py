"""Write a finished run in the formats of other tools: pure functions, one format a file."""
