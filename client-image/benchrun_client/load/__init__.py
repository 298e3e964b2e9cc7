"""Sending the load: vLLM's benchmark, what replaces parts of it, and what it costs the client."""
