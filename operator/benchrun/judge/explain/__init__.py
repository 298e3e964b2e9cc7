"""Why requests waited, and the bottleneck of a load point."""
