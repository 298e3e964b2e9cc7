"""Parts of the proxy's benchmark (`benchmarks/proxy.py`)."""
