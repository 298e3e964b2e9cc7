"""Sending the load: vLLM's benchmark, what stands in for parts of it, and what it costs the
client."""
