"""Shards: processes of the client that together send one load, which has one record."""
