"""Rules that find what makes a measurement Invalid or Suspect.

Each file has one family of rules, and the sentences that results show for their findings.
"""
