"""The running operator: reconciles runs and sweeps on watch events. Wiring only."""
