"""Checks of a run before it takes a GPU. Pure."""
