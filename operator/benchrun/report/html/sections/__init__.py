"""The sections of the page, one a file.

Each is a function of the run or sweep. It returns None if it has nothing to show.
"""
