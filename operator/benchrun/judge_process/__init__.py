"""The judge in a process of its own, under limits.

It is the only place that opens what a tenant's pod sent.
"""
