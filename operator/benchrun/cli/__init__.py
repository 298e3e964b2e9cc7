"""The command line for users, `benchrun` or `kubectl benchrun`.

It reads runs through kubectl and shows them.
"""
