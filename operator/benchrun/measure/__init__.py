"""Metrics pages and records made into samples, windows, percentiles and cells. Pure."""
