"""Checks of what can be known about a run before a GPU is asked for. Pure."""
