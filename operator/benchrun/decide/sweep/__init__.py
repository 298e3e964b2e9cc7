"""Decide what to do about a sweep from its observed state, its runs and the time. Pure."""
