"""Sweeps in the running operator: one more kind of key on the same queue."""
