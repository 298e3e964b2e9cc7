"""The sources of prompts: each module makes the requests of one kind of dataset for a whole run.

All stages are prepared together because they depend on each other: no prompt may share its
beginning with another prompt of the run, which the server's prefix cache may hold.
"""
