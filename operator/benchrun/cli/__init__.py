"""The user's command, `benchrun` or `kubectl benchrun`.

It reads runs through kubectl and shows them.
"""
