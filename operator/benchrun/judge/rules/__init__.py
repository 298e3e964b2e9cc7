"""Rules that look for what makes a measurement invalid or suspect.

Each file has one family of rules, with the texts of its codes.
"""
