"""The running operator: watches in, passes over runs out. Wiring only."""
