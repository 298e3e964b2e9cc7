"""A server that speaks vLLM's HTTP API and metric names with timing that is known in advance.

It computes nothing: every request gets its tokens at instants given by flags. What a client or an
operator then reports can be compared with what was configured.
"""
