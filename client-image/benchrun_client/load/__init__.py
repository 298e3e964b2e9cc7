"""Sending the load: vLLM's benchmark, replacements for parts of it, and the client's own cost."""
