"""Parts of the report benchmark: a simulated run of any size, and a browser that opens its page."""
