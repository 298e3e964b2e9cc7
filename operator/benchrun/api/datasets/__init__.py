"""What the requests of a workload say: one family of datasets a file, `union` their union."""
