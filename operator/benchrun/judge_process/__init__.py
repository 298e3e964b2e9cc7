"""The judge in a process of its own, under limits: the one place that opens what a tenant's pod
sent."""
