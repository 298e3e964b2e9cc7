"""The sections of the page, one a file.

Each is a function of the run or sweep that returns None where there is nothing to say.
"""
