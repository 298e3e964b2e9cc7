"""The sources of prompts: one module per dataset, each giving the samples of a whole run at once.

They are made at once because stages depend on each other: no prompt may share its beginning with
another prompt of the same run in the server's prefix cache.
"""
